#include "worker/loader/tensor_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <thread>
#include <vector>

namespace gnn::loader {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

TEST(TensorMemory, GivesABlockToTheNextTensorOfAboutItsSize) {
  TensorMemory memory;
  c10::DataPtr first = memory.allocate(46 * kMiB);
  std::memset(first.get(), 1, 46 * kMiB);
  const void* const place = first.get();
  first.clear();
  EXPECT_EQ(memory.bytes().in_use, 0U);
  EXPECT_GE(memory.bytes().kept, 46 * kMiB);
  const c10::DataPtr second = memory.allocate(45 * kMiB);
  EXPECT_EQ(second.get(), place);
  EXPECT_EQ(memory.bytes().kept, 0U);
}

TEST(TensorMemory, DoesNotSpendALargeBlockOnASmallTensor) {
  TensorMemory memory;
  const void* const place = memory.allocate(64 * kMiB).get();
  const c10::DataPtr small = memory.allocate(2 * kMiB);
  EXPECT_NE(small.get(), place);
  EXPECT_LT(memory.bytes().in_use, 8 * kMiB);
}

TEST(TensorMemory, KeepsNoMoreThanAQuarterAboveTheMostInUse) {
  TensorMemory memory;
  for (size_t size = 4; size <= 64; size += 4) {
    const c10::DataPtr one = memory.allocate(size * kMiB);
    ASSERT_LE(memory.bytes().in_use + memory.bytes().kept, 72 * kMiB * 5 / 4);
  }
}

TEST(TensorMemory, LeavesSmallTensorsToTorch) {
  TensorMemory memory;
  const c10::DataPtr small = memory.allocate(TensorMemory::kSmallest - 1);
  EXPECT_NE(small.get(), nullptr);
  EXPECT_EQ(memory.bytes().in_use, 0U);
  EXPECT_EQ(memory.allocate(0).get(), nullptr);
}

TEST(TensorMemory, TensorsMayOutliveIt) {
  std::optional<TensorMemory> memory(std::in_place);
  const c10::DataPtr data = memory->allocate(2 * kMiB);
  memory.reset();
  std::memset(data.get(), 1, 2 * kMiB);
}

TEST(TensorMemory, TakesBackByAddressAlone) {
  TensorMemory memory;
  for (const size_t bytes : {size_t{64}, 2 * kMiB}) {
    void* const data = memory.raw_allocate(bytes);
    std::memset(data, 1, bytes);
    EXPECT_EQ(memory.bytes().in_use, bytes < kMiB ? 0U : bytes);
    memory.raw_deallocate(data);
    EXPECT_EQ(memory.bytes().in_use, 0U);
  }
}

TEST(TensorMemory, ServesManyThreads) {
  TensorMemory memory;
  std::vector<std::thread> threads;
  for (int thread = 1; thread <= 4; ++thread) {
    threads.emplace_back([&memory, thread] {
      for (size_t round = 0; round < 50; ++round) {
        const size_t bytes = (1 + (round * static_cast<size_t>(thread)) % 5) * kMiB;
        const c10::DataPtr data = memory.allocate(bytes);
        auto* const first = static_cast<char*>(data.get());
        std::memset(first, thread, bytes);
        ASSERT_EQ(first[bytes - 1], thread);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory.bytes().in_use, 0U);
}

}  // namespace
}  // namespace gnn::loader
