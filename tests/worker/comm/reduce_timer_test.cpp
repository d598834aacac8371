#include "worker/comm/reduce_timer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <chrono>

namespace gnn::comm {
namespace {

TEST(ReduceTimer, OnAGpuLeavesOutTheWorkThatWasQueuedBefore) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const at::Tensor matrix = at::rand({4096, 4096}, at::device(at::kCUDA));
  const auto queue_products = [&matrix](int count) {
    for (int i = 0; i < count; ++i) at::mm(matrix, matrix);
  };
  queue_products(1);  // loads the library
  torch::cuda::synchronize();
  ReduceTimer timer(matrix.device());
  const auto start = std::chrono::steady_clock::now();
  queue_products(50);
  timer.ready();
  queue_products(5);
  timer.reduced();
  torch::cuda::synchronize();
  const std::chrono::duration<double> all = std::chrono::steady_clock::now() - start;
  EXPECT_GT(timer.seconds(), 0);
  EXPECT_LT(timer.seconds(), all.count() / 4) << "5 of 55 products";
}

}  // namespace
}  // namespace gnn::comm
