#include "worker/data/mapped_pages.h"

#include "tests/support/user_behavior.h"
#include "tests/worker/data/files.h"
#include "worker/data/counter_random.h"
#include "worker/data/digest.h"
#include "worker/data/generate.h"
#include "worker/data/mapped_file.h"
#include "worker/data/native.h"
#include "worker/data/ogb_writer.h"
#include "worker/data/readers/edge_list.h"
#include "worker/data/readers/ogb.h"
#include "worker/data/readers/taobao.h"
#include "worker/data/transforms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace gnn::data {
namespace {

namespace fs = std::filesystem;

using testing::TemporaryFolder;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMeasures = false;  // sanitizers have memory of their own
#else
constexpr bool kMeasures = true;
#endif

constexpr int64_t kMiB = int64_t{1} << 20;

using Make = std::function<Result<DatasetArrays>(ArrayStorage&)>;

struct Outcome {
  std::string digest;  // of all arrays
  int64_t most_bytes = 0;
};

// Runs `work` in a process of its own, which prints a line.
Outcome in_child(const std::function<std::string()>& work) {
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) std::abort();
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string text = work();
    const bool written =
        ::write(pipe[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    std::_Exit(written ? 0 : 1);
  }
  ::close(pipe[1]);
  Outcome outcome;
  std::array<char, 256> piece{};
  for (ssize_t size = 0; (size = ::read(pipe[0], piece.data(), piece.size())) > 0;) {
    outcome.digest.append(piece.data(), static_cast<size_t>(size));
  }
  ::close(pipe[0]);
  int status = 0;
  rusage usage{};
  ::wait4(child, &status, 0, &usage);
  EXPECT_EQ(status, 0);
  outcome.most_bytes = int64_t{usage.ru_maxrss} * 1024;
  return outcome;
}

std::string digest_or_error(const Result<DatasetArrays>& dataset) {
  return dataset ? digest_of(*dataset) : dataset.error().message;
}

Outcome without_limit(const Make& make) {
  return in_child([&make] {
    MemoryStorage memory;
    return digest_or_error(make(memory));
  });
}

// `memory_bytes`: beside what the test program takes itself.
Outcome with_limit(const Make& make, int64_t memory_bytes, const std::string& output) {
  return in_child([&]() -> std::string {
    // Divided as plan_memory() does, but of less than is worth it for real data.
    const MemoryPlan plan{
        .step_bytes = memory_bytes / 8 * 3,
        .scratch_bytes = memory_bytes / 8,
        .mapped_bytes = memory_bytes / 16
    };
    const MappedPagesLimit limit(plan.mapped_bytes);
    auto writer = NativeWriter::open(output, "key", plan);
    if (!writer) return writer.error().message;
    const auto made = make(**writer);
    if (!made) return made.error().message;
    const Status published = (*writer)->publish(*made, false);
    return published ? digest_of(*made) : published.error().message;
  });
}

struct Case {
  std::string name;
  int64_t memory_bytes = 0;
  std::function<void(const TemporaryFolder&)> write;
  std::function<Result<DatasetArrays>(const TemporaryFolder&, ArrayStorage&)> make;
};

class BoundedMemory : public ::testing::TestWithParam<Case> {};

TEST_P(BoundedMemory, GivesTheSameBits) {
  const TemporaryFolder folder;
  in_child([&] {
    GetParam().write(folder);
    return "";
  });
  const Make make = [&](ArrayStorage& storage) { return GetParam().make(folder, storage); };
  const int64_t before = resident_bytes();
  const int64_t memory_bytes = GetParam().memory_bytes;
  const Outcome bounded = with_limit(make, memory_bytes, folder.path("out"));
  const Outcome free = without_limit(make);
  EXPECT_EQ(bounded.digest, free.digest);
  EXPECT_EQ(bounded.digest.substr(0, 6), "xxh64:") << bounded.digest;
  if (kMeasures) {
    EXPECT_LE(bounded.most_bytes, before + memory_bytes);
    // Otherwise the limit would not be one.
    EXPECT_GE(free.most_bytes, before + memory_bytes / 2 * 3);
  }
}

void write_nothing(const TemporaryFolder&) {}

// `scale` of ogbn-papers100M in OGB's form.
void write_papers(const TemporaryFolder& folder) {
  SilentProgressBar silent;
  MemoryStorage memory;
  const auto dataset = generate(
      {.shape = Shape::Papers100M, .scale = 0.004, .feature_dtype = DType::Float16}, memory, silent
  );
  const Status status = write_ogb(dataset.value(), folder.path("papers"), silent);
  if (!status) std::cerr << status.error().message << "\n";
}

Result<DatasetArrays> read_papers(const TemporaryFolder& folder, ArrayStorage& storage) {
  SilentProgressBar silent;
  ReadOptions options;
  options.to_undirected = true;
  options.normalize_rows = true;
  options.feature_dtype = DType::Float16;
  return read_ogb(folder.path("papers"), options, storage, silent);
}

void write_shop(const TemporaryFolder& folder) {
  folder.write("shop/nodes/user/num_nodes.csv", "300000\n");
  folder.write("shop/nodes/item/num_nodes.csv", "100000\n");
  fs::create_directories(folder.path("shop/edges"));
  std::ofstream buys(folder.path("shop/edges/user__buys__item.csv"));
  std::ofstream like(folder.path("shop/edges/item__like__item.csv"));
  const CounterRandom random(3, 0);
  for (uint64_t i = 0; i < 2'000'000; ++i) {
    buys << random.below(2 * i, 300'000) << ',' << random.below(2 * i + 1, 100'000) << '\n';
    like << random.below(3 * i, 100'000) << ',' << random.below(3 * i + 1, 100'000) << '\n';
  }
}

Result<DatasetArrays> read_shop(const TemporaryFolder& folder, ArrayStorage& storage) {
  SilentProgressBar silent;
  ReadOptions options;
  options.to_undirected = true;
  options.split_required = false;
  options.link = {.source = "item", .relation = "like", .destination = "item"};
  GNN_ASSIGN_OR_RETURN(
      DatasetArrays dataset, read_edge_list(folder.path("shop"), options, storage, silent)
  );
  return transform(
      std::move(dataset), {.link = options.link, .add_reverse = true}, storage, silent
  );
}

// The program's own file and its libraries among them.
int64_t resident_of_files() {
  std::ifstream statm("/proc/self/statm");
  int64_t pages = 0;
  for (int number = 0; number < 3; ++number) statm >> pages;
  return pages * ::sysconf(_SC_PAGESIZE);
}

constexpr size_t kNumbers = size_t{4} << 20U;

Mapping map_numbers(const TemporaryFolder& folder) {
  return create_mapped_file(folder.path("numbers"), kNumbers * sizeof(uint64_t)).value();
}

std::span<uint64_t> numbers_of(const Mapping& mapping) {
  return {static_cast<uint64_t*>(mapping.address.get()), kNumbers};
}

TEST(MappedPagesLimit, HoldsForThreadsThatTouchMorePlacesThanItHasWindows) {
  constexpr size_t kThreads = 3;
  constexpr size_t kPlaces = 8;  // of each thread: 24 of 16 windows
  constexpr size_t kStride = kNumbers / kThreads / kPlaces;
  constexpr size_t kStep = 64;
  const TemporaryFolder folder;
  const Mapping mapping = map_numbers(folder);
  const std::span<uint64_t> numbers = numbers_of(mapping);
  std::fill(numbers.begin(), numbers.end(), 1);
  const int64_t before = resident_of_files() - mapping.bytes;
  std::atomic<int64_t> most = 0;
  {
    const MappedPagesLimit limit(kMiB);
    std::vector<std::thread> threads;
    for (size_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (size_t i = 0; i < kStride; i += kStep) {
          for (size_t place = 0; place < kPlaces; ++place) {
            numbers[(thread * kPlaces + place) * kStride + i] += i;
          }
          // It reads a file of the kernel's, which takes its time.
          if (i % (64 * kStep) != 0) continue;
          const int64_t now = resident_of_files() - before;
          for (int64_t seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  if (kMeasures) {
    EXPECT_LE(most, 2 * kMiB);  // with what else the program reads of files
  }
  for (size_t i = 0; i < kThreads * kPlaces * kStride; ++i) {
    const size_t added = i % kStride % kStep == 0 ? i % kStride : 0;
    ASSERT_EQ(numbers[i], 1 + added) << i;
  }
}

TEST(MappedPagesLimit, LeavesOtherFaultsAndOtherMemoryAlone) {
  const TemporaryFolder folder;
  std::optional<Mapping> gone = map_numbers(folder);
  const auto bytes = static_cast<size_t>(gone->bytes);
  const MappedPagesLimit limit(kMiB);
  numbers_of(*gone)[0] = 1;
  void* const place = gone->address.get();
  gone.reset();
  void* const other = ::mmap(
      place, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0
  );
  ASSERT_EQ(other, place);
  const std::span<uint64_t> kept(static_cast<uint64_t*>(other), kNumbers);
  kept[0] = 7;
  // So many windows that each that was open is closed.
  const Mapping read_only = map_file(folder.path("numbers")).value();
  const std::span<uint64_t> numbers = numbers_of(read_only);
  EXPECT_EQ(std::accumulate(numbers.begin(), numbers.end(), uint64_t{0}), 1);
  EXPECT_EQ(kept[0], 7);
  EXPECT_DEATH(numbers[0] = 2, "");
  EXPECT_DEATH(*static_cast<volatile int*>(nullptr) = 2, "");
  ::munmap(other, bytes);
}

INSTANTIATE_TEST_SUITE_P(
    Sets,
    BoundedMemory,
    ::testing::Values(
        Case{
            .name = "Papers100M",
            .memory_bytes = 64 * kMiB,
            .write = &write_nothing,
            .make =
                [](const TemporaryFolder&, ArrayStorage& storage) {
                  SilentProgressBar silent;
                  return generate({.shape = Shape::Papers100M, .scale = 0.003}, storage, silent);
                }
        },
        Case{
            .name = "Products",
            .memory_bytes = 64 * kMiB,
            .write = &write_nothing,
            .make =
                [](const TemporaryFolder&, ArrayStorage& storage) {
                  SilentProgressBar silent;
                  return generate({.shape = Shape::Products, .scale = 0.1}, storage, silent);
                }
        },
        Case{
            .name = "OgbNpz",
            .memory_bytes = 64 * kMiB,
            .write = &write_papers,
            .make = &read_papers
        },
        Case{
            .name = "TypedEdgeList",
            .memory_bytes = 64 * kMiB,
            .write = &write_shop,
            .make = &read_shop
        },
        Case{
            .name = "Taobao",
            .memory_bytes = 32 * kMiB,
            .write =
                [](const TemporaryFolder& folder) {
                  gnn::testing::write_user_behavior(
                      folder.path("taobao"),
                      {.users = 100'000, .items = 200'000, .views = 4'000'000}
                  );
                  std::ofstream rows(folder.path("taobao/UserBehavior.csv"), std::ios::app);
                  for (int i = 0; i < 400'000; ++i) rows << "1,2,3,pv,1511600000\n";
                },
            .make =
                [](const TemporaryFolder& folder, ArrayStorage& storage) {
                  SilentProgressBar silent;
                  ThreadPool pool(1);
                  return read_taobao(folder.path("taobao"), pool, storage, silent);
                }
        }
    ),
    [](const auto& test) { return test.param.name; }
);

}  // namespace
}  // namespace gnn::data
