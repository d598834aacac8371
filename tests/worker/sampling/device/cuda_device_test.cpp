#include "worker/sampling/device/cuda_device.h"

#include "worker/gpu/memory.h"

#include <gtest/gtest.h>

namespace gnn::sampling::device {
namespace {

TEST(CudaDevice, IsRefusedWhereThereIsNone) {
  const auto next = static_cast<c10::DeviceIndex>(gpu::device_count());
  for (const c10::Device device : {c10::Device(c10::kCPU), c10::Device(c10::kCUDA, next)}) {
    const auto refused = cuda_device(device, GraphMemory::Device);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::Configuration);
  }
}

}  // namespace
}  // namespace gnn::sampling::device
