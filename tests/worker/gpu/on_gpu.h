#pragma once

#include "worker/gpu/memory.h"

#include <gtest/gtest.h>

namespace gnn::gpu {

/// Skips what it has no GPU for; a build without CUDA kernels sees none.
class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device_count() == 0) GTEST_SKIP() << "no CUDA device";
  }
};

}  // namespace gnn::gpu
