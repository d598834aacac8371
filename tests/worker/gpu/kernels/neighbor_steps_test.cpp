#include "worker/gpu/kernels/neighbor_steps.h"

#include "tests/support/gpu_emulator.h"
#include "tests/worker/gpu/sampling_cases.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <string>
#include <vector>

namespace gnn::gpu {
namespace {

using testing::GpuEmulator;
using testing::Schedule;
using Steps = NeighborSteps<GpuEmulator>;

StepOptions step_options(uint64_t seed) {
  return {
      .threads = seed % 2 == 0 ? 64 : 32,
      .scan_threads = 64,
      .most_blocks = 1 + static_cast<int64_t>(seed % 5) * 3,
      .most_reading_blocks = 4
  };
}

SampledLists by_the_device(
    const SamplingCase& each,
    GpuEmulator& device,
    Steps& steps,
    const sampling::core::StreamPosition& at
) {
  const Status begun = steps.begin(each.seed_spans(), at, each.excluded_pairs());
  EXPECT_TRUE(begun) << begun.error().message;
  device.wait();
  return each.lists_of(steps.batch(), [](const auto* data, int64_t size) {
    return std::vector(data, data + size);
  });
}

void expect_the_same(const SamplingCase& each, uint64_t seed) {
  SCOPED_TRACE(each.name);
  for (const Schedule schedule : {Schedule::Random, Schedule::Forward, Schedule::Backward}) {
    GpuEmulator device({.seed = seed, .schedule = schedule, .resident_blocks = 3});
    {
      Steps steps(device, each.num_nodes, each.relations(), each.options, step_options(seed));
      // What one batch leaves behind must not reach the next.
      for (uint64_t batch = 0; batch < 2; ++batch) {
        const sampling::core::StreamPosition at{.seed = seed, .epoch = 1, .batch = batch};
        ASSERT_EQ(by_the_device(each, device, steps, at), each.by_the_cpu(at))
            << "batch " << batch << ", schedule " << static_cast<int>(schedule);
      }
    }
    EXPECT_EQ(device.live_allocations(), 0);
  }
}

TEST(NeighborSteps, SampleWhatTheCpuSamples) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    expect_the_same(CaseMaker(seed).any(), seed);
    if (HasFatalFailure()) return;
  }
}

TEST(NeighborSteps, SampleWhatTheCpuSamplesWhereSamplersTrip) {
  for (const SamplingCase& each : named_cases()) expect_the_same(each, 5);
}

// `part` has lists of its own nodes alone, and is sent what the others draw.
void expect_the_same_in_parts(const SamplingCase& each, size_t part, uint64_t seed) {
  SCOPED_TRACE(each.name + ", part " + std::to_string(part));
  const PartsOfCase parts(each);
  GpuEmulator device({.seed = seed, .resident_blocks = 3});
  Steps steps(device, each.num_nodes, parts.relations(part), each.options, step_options(seed));
  for (uint64_t batch = 0; batch < 2; ++batch) {
    const sampling::core::StreamPosition at{.seed = seed, .epoch = 1, .batch = batch};
    const size_t hops = each.options.fanout.size();
    // The first batch is left behind before its last hop, and begun again.
    for (size_t left = batch == 0 ? 2 : 1; left > 0; --left) {
      steps.begin_hops(each.seed_spans(), at, each.excluded_pairs());
      const Status added = parts.add_hops(steps, part, at, hops + 1 - left);
      ASSERT_TRUE(added) << added.error().message;
    }
    const SampledLists found = each.lists_of(steps.batch(), [](const auto* data, int64_t size) {
      return std::vector(data, data + size);
    });
    ASSERT_EQ(found, each.by_the_cpu(at)) << "batch " << batch;
  }
}

TEST(NeighborSteps, SampleWhatTheCpuSamplesWhereListsLieElsewhere) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    expect_the_same_in_parts(CaseMaker(seed).any(), seed % PartsOfCase::kParts, seed);
    if (HasFatalFailure()) return;
  }
  for (const SamplingCase& each : named_cases()) {
    if (each.num_nodes.back() > 1'000'000) continue;  // parts of billions of nodes
    for (size_t part = 1; part < PartsOfCase::kParts; ++part)
      expect_the_same_in_parts(each, part, 5);
  }
}

TEST(NeighborSteps, WaitOnlyAtHopsThatTakeAllNeighbours) {
  for (const bool all : {false, true}) {
    const SamplingCase each = homogeneous_case("", 100, 4, {3, all ? -1 : 4, 2});
    GpuEmulator device({});
    Steps steps(device, each.num_nodes, each.relations(), each.options, step_options(0));
    ASSERT_TRUE(steps.begin(each.seed_spans(), {}));
    EXPECT_EQ(device.waits(), all ? 1 : 0);
  }
}

TEST(NeighborSteps, RefuseBatchesOfTooManyEdgesAndGoOn) {
  SamplingCase each = homogeneous_case("", 100, 4, {3, 4});
  each.options.replace = true;
  each.options.fanout[1] = int64_t{1} << 30;
  GpuEmulator device({});
  Steps steps(device, each.num_nodes, each.relations(), each.options, step_options(0));
  const Status refused = steps.begin(each.seed_spans(), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::Configuration);
  EXPECT_NE(refused.error().message.find("hop 1 may have 2^31 edges"), std::string::npos)
      << refused.error().message;
}

// An emulated device, one of whose calls fails.
class FailingDevice {
 public:
  void fail_at(int call) { left_ = call; }

  template <class Body>
  void launch(const Body& body, const LaunchShape& shape) {
    count();
    device_.launch(body, shape);
  }
  [[nodiscard]] void* allocate(size_t bytes) {
    count();
    return device_.allocate(bytes);
  }
  void free(void* memory) { device_.free(memory); }
  [[nodiscard]] void* allocate_host(size_t bytes) { return allocate(bytes); }
  void free_host(void* memory) { free(memory); }
  void copy_within(void* to, const void* from, size_t bytes) {
    count();
    device_.copy_within(to, from, bytes);
  }
  void upload(void* to, const void* from, size_t bytes) { copy_within(to, from, bytes); }
  void download(void* to, const void* from, size_t bytes) { copy_within(to, from, bytes); }
  void fill(void* memory, int byte, size_t bytes) {
    count();
    device_.fill(memory, byte, bytes);
  }
  void wait() { count(); }

  [[nodiscard]] int64_t live_allocations() const { return device_.live_allocations(); }

 private:
  void count() {
    if (--left_ == 0) throw std::bad_alloc();
  }

  GpuEmulator device_{{.schedule = Schedule::Forward}};
  int left_ = std::numeric_limits<int>::max();
};

// Runs sample(steps, batch) with a device whose n-th call fails in the first batch; whether it did.
template <class Sample>
bool fails_and_goes_on(
    const SamplingCase& each,
    const std::vector<sampling::core::RelationView>& relations,
    int call,
    const Sample& sample
) {
  FailingDevice device;
  bool failed = false;
  {
    NeighborSteps<FailingDevice> steps(
        device, each.num_nodes, relations, each.options, step_options(1)
    );
    device.fail_at(call);
    try {
      sample(steps, sampling::core::StreamPosition{.batch = 0});
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    device.fail_at(0);
    const sampling::core::StreamPosition next{.batch = 1};
    sample(steps, next);
    const SampledLists found = each.lists_of(steps.batch(), [](const auto* data, int64_t size) {
      return std::vector(data, data + size);
    });
    EXPECT_EQ(found, each.by_the_cpu(next)) << "after call " << call << " failed";
  }
  EXPECT_EQ(device.live_allocations(), 0) << "after call " << call << " failed";
  return failed;
}

TEST(NeighborSteps, GoOnAfterAnyCallOfTheDeviceFailed) {
  for (const bool hashed : {false, true}) {
    SamplingCase each = homogeneous_case("", 24, 2, {33, -1});
    if (hashed) each.options.sampler_memory_bytes = 0;
    each.options.with_edge_ids = true;
    each.exclude(0, std::vector<int64_t>{0, 10, 11, 50});
    const auto whole = [&](auto& steps, const sampling::core::StreamPosition& at) {
      ASSERT_TRUE(steps.begin(each.seed_spans(), at, each.excluded_pairs()));
    };
    int call = 1;
    while (fails_and_goes_on(each, each.relations(), call, whole) && !HasFailure()) ++call;
    EXPECT_GT(call, 40);

    const PartsOfCase parts(each);
    const auto by_hop = [&](auto& steps, const sampling::core::StreamPosition& at) {
      steps.begin_hops(each.seed_spans(), at, each.excluded_pairs());
      ASSERT_TRUE(parts.add_hops(steps, 3, at, each.options.fanout.size()));
    };
    call = 1;
    while (fails_and_goes_on(each, parts.relations(3), call, by_hop) && !HasFailure()) ++call;
    EXPECT_GT(call, 40);
  }
}

}  // namespace
}  // namespace gnn::gpu
