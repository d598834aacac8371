#include "worker/gpu/memory.h"

#include "tests/support/must.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/gpu/on_gpu.h"
#include "worker/data/mapped_file.h"
#include "worker/gpu/neighbor_sampler.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace gnn::gpu {
namespace {

using testing::must;

std::vector<std::byte> some_bytes(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 % 251);
  return bytes;
}

class MemoryOnGpu : public OnGpu {};

TEST_F(MemoryOnGpu, HoldsCopies) {
  EXPECT_FALSE(must(device_name()).empty());
  const std::vector<std::byte> bytes = some_bytes(100'000);
  DeviceMemory first = must(DeviceMemory::copy_of(bytes));
  const DeviceMemory moved = std::move(first);
  std::vector<std::byte> back(bytes.size());
  must(copy_to_host(back, moved.data(), nullptr));
  EXPECT_TRUE(back == bytes);
}

TEST_F(MemoryOnGpu, IsRefusedWhereThereIsNotEnough) {
  const Result<DeviceMemory> memory = DeviceMemory::allocate(size_t{1} << 50);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().kind, ErrorKind::OutOfMemory);
  EXPECT_NE(memory.error().message.find("1125899906842624 bytes"), std::string::npos)
      << memory.error().message;
}

TEST_F(MemoryOnGpu, PinsWhereItIsAndOnlyAsLong) {
  const std::vector<std::byte> bytes = some_bytes(1'000'000);
  for (int round = 0; round < 2; ++round) {
    PinnedRange first = must(PinnedRange::pin(bytes));
    const PinnedRange pinned = std::move(first);
    EXPECT_NE(pinned.device_data(), nullptr);
    EXPECT_FALSE(PinnedRange::pin(bytes));  // it is pinned already
  }
}

TEST_F(MemoryOnGpu, PinsMappedFilesOrSaysWhatToDo) {
  const testing::TemporaryFolder folder;
  const std::vector<std::byte> bytes = some_bytes(1'000'000);
  // reinterpret_cast: the folder's files are written as text.
  const std::string path =
      folder.write("bytes", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  const data::Mapping file = must(data::map_file(path));
  const Result<PinnedRange> pinned =
      PinnedRange::pin({static_cast<const std::byte*>(file.address.get()), bytes.size()});
  if (!pinned) {
    EXPECT_EQ(pinned.error().kind, ErrorKind::Configuration);
    EXPECT_NE(pinned.error().message.find("copy the data to memory"), std::string::npos)
        << pinned.error().message;
    return;
  }
  std::vector<std::byte> back(bytes.size());
  must(copy_to_host(back, pinned->device_data(), nullptr));
  EXPECT_TRUE(back == bytes);
}

TEST(WithoutCudaKernels, AGpuIsRefused) {
  if (GNN_TEST_CUDA_KERNELS) GTEST_SKIP() << "built with CUDA kernels";
  EXPECT_EQ(device_count(), 0);
  const auto sampler = NeighborSampler::create({1}, {}, {}, nullptr);
  ASSERT_FALSE(sampler);
  EXPECT_EQ(sampler.error().kind, ErrorKind::Configuration);
  EXPECT_NE(sampler.error().message.find("GNN_WITH_CUDA_KERNELS"), std::string::npos);
}

}  // namespace
}  // namespace gnn::gpu
