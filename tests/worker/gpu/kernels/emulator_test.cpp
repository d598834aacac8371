// The emulator itself: it must show what a GPU may do, and refuse what a GPU forbids.
#include "tests/support/gpu_emulator.h"
#include "worker/gpu/kernels/block_scan.h"
#include "worker/gpu/kernels/launch_shape.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace gnn::testing {
namespace {

using gpu::kWarpThreads;
using gpu::LaunchShape;
using Thread = GpuEmulator::Thread;

constexpr LaunchShape kShape{.blocks = 3, .threads = 64, .shared_bytes = 64};

struct CountWithoutAtomics {
  uint32_t* count;
  template <class T>
  void operator()(T& thread) const {
    const uint32_t before = thread.load(count);
    thread.store(count, before + 1);
  }
};

struct CountWithAtomics {
  uint32_t* count;
  template <class T>
  void operator()(T& thread) const {
    thread.atomic_add(count, uint32_t{1});
  }
};

TEST(GpuEmulator, LosesUpdatesThatAreNotAtomic) {
  uint32_t count = 0;
  GpuEmulator device({.seed = 1});
  device.launch(CountWithoutAtomics{&count}, kShape);
  EXPECT_LT(count, 192U);
  count = 0;
  device.launch(CountWithAtomics{&count}, kShape);
  EXPECT_EQ(count, 192U);
}

struct NoteOrder {
  std::vector<int64_t>* order;
  template <class T>
  void operator()(T& thread) const {
    order->push_back(thread.block() * thread.block_size() + thread.index());
  }
};

std::vector<int64_t> order_of(EmulatorOptions options) {
  std::vector<int64_t> order;
  GpuEmulator(options).launch(NoteOrder{&order}, kShape);
  return order;
}

TEST(GpuEmulator, RunsEachThreadOnceInAnyOrder) {
  std::vector<int64_t> all(192);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(order_of({.schedule = Schedule::Forward, .resident_blocks = 1}), all);
  std::vector<int64_t> random = order_of({.seed = 1});
  EXPECT_NE(random, order_of({.seed = 2}));
  EXPECT_EQ(random, order_of({.seed = 1}));
  std::sort(random.begin(), random.end());
  EXPECT_EQ(random, all);
  const std::vector<int64_t> backward = order_of({.schedule = Schedule::Backward});
  EXPECT_EQ(backward.front() % kShape.threads, kShape.threads - 1);
}

struct WriteThenRead {
  bool with_barrier;
  bool* all_seen;
  template <class T>
  void operator()(T& thread) const {
    auto* const flags = static_cast<uint8_t*>(thread.shared());
    flags[thread.index()] = 1;
    if (with_barrier) thread.sync();
    for (int i = 0; i < thread.block_size(); ++i) {
      if (flags[i] != 1) *all_seen = false;
    }
  }
};

TEST(GpuEmulator, ShowsTheLackOfABarrier) {
  for (const bool with_barrier : {true, false}) {
    bool all_seen = true;
    GpuEmulator({.seed = 3}).launch(WriteThenRead{with_barrier, &all_seen}, kShape);
    EXPECT_EQ(all_seen, with_barrier);
  }
}

struct LeaveBeforeBarrier {
  template <class T>
  void operator()(T& thread) const {
    if (thread.index() == 40) return;
    thread.sync();
  }
};
struct LeaveBeforeBallot {
  template <class T>
  void operator()(T& thread) const {
    if (thread.index() != 40) thread.ballot(true);
  }
};
struct MeetForDifferentThings {
  template <class T>
  void operator()(T& thread) const {
    if (thread.index() % 2 == 0) {
      thread.ballot(true);
    } else {
      thread.sync_warp();
    }
  }
};

template <class Body>
std::string refusal_of(const Body& body) {
  try {
    GpuEmulator({.seed = 4}).launch(body, kShape);
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "none";
}

TEST(GpuEmulator, RefusesWhatNotAllThreadsReach) {
  EXPECT_NE(refusal_of(LeaveBeforeBarrier{}), "none");
  EXPECT_NE(refusal_of(LeaveBeforeBallot{}), "none");
  EXPECT_EQ(refusal_of(MeetForDifferentThings{}), "lanes of a warp meet for different things");
}

struct AskTheWarp {
  std::vector<int64_t>* seen;
  template <class T>
  void operator()(T& thread) const {
    const int lane = thread.index() % kWarpThreads;
    const int64_t up = thread.shuffle_up(int64_t{lane}, 2);
    const int64_t other = thread.shuffle_xor(int64_t{lane}, 5);
    const uint32_t even = thread.ballot(lane % 2 == 0);
    (*seen)[static_cast<size_t>(thread.index())] =
        up * 1000 + other * 10 + (even == 0x55555555U ? 1 : 0);
  }
};

TEST(GpuEmulator, PassesValuesBetweenTheLanesOfAWarp) {
  std::vector<int64_t> seen(64);
  GpuEmulator({.seed = 5}).launch(AskTheWarp{&seen}, {.blocks = 1, .threads = 64});
  for (int64_t i = 0; i < 64; ++i) {
    const int64_t lane = i % kWarpThreads;
    EXPECT_EQ(
        seen[static_cast<size_t>(i)], (lane < 2 ? lane : lane - 2) * 1000 + (lane ^ 5) * 10 + 1
    );
  }
}

struct ScanIndices {
  std::vector<gpu::BlockScan>* scans;
  template <class T>
  void operator()(T& thread) const {
    for (int round = 0; round < 2; ++round) {
      (*scans)[static_cast<size_t>(thread.index())] =
          gpu::block_scan(thread, int64_t{thread.index()} + round);
    }
  }
};

TEST(BlockScan, SumsWhatIsBeforeEachThread) {
  for (const int threads : {32, 64, 256}) {
    std::vector<gpu::BlockScan> scans(static_cast<size_t>(threads));
    GpuEmulator({.seed = 6})
        .launch(
            ScanIndices{&scans},
            {.blocks = 1, .threads = threads, .shared_bytes = gpu::block_scan_bytes(threads)}
        );
    for (int64_t i = 0; i < threads; ++i) {
      EXPECT_EQ(scans[static_cast<size_t>(i)].before, i * (i - 1) / 2 + i);
      EXPECT_EQ(
          scans[static_cast<size_t>(i)].total, int64_t{threads} * (threads - 1) / 2 + threads
      );
    }
  }
}

}  // namespace
}  // namespace gnn::testing
