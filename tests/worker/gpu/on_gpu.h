#pragma once

#include "worker/gpu/memory.h"

#include <gtest/gtest.h>

namespace gnn::gpu {

/// Skips what it has no GPU or kernels for.
class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!GNN_TEST_CUDA_KERNELS)
      GTEST_SKIP() << "built without CUDA kernels (GNN_WITH_CUDA_KERNELS)";
    if (device_count() == 0) GTEST_SKIP() << "no CUDA device";
  }
};

}  // namespace gnn::gpu
