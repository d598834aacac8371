// How a GPU multiplies float32. Skipped where there is none.
#include "worker/nn/functional/matmul.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace gnn::nn {
namespace {

class MatmulOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    torch::manual_seed(1);
  }
  void TearDown() override { set_tf32_products(false); }

  // The largest error of the products of a pass forward and back, in units of the same products of
  // absolute values: what rounding the operands may change by.
  static double largest_error(int64_t rows, int64_t in, int64_t out) {
    const at::Tensor x = torch::randn({rows, in});
    const at::Tensor w = torch::randn({in, out});
    const at::Tensor gradient = torch::randn({rows, out});
    const double forward = error_of(mm_rows(x.cuda(), w.cuda()), x, w);
    const double back = error_of(mm_over_rows(x.cuda(), gradient.cuda()), x.t(), gradient);
    return std::max(forward, back);
  }

 private:
  static double error_of(const at::Tensor& found, const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor exact = a.to(at::kDouble).mm(b.to(at::kDouble));
    const at::Tensor unit = a.abs().to(at::kDouble).mm(b.abs().to(at::kDouble));
    return ((found.cpu().to(at::kDouble) - exact).abs() / unit).max().item<double>();
  }
};

// With ten bits of fraction an operand is off by 2^-11 if it is rounded and 2^-10 if it is cut off, a
// product of two by twice that. Sums are of float32, with an error far below.
TEST_F(MatmulOnGpu, RoundsFloat32ToTF32WhereItIsTold) {
  set_tf32_products(false);
  EXPECT_LT(largest_error(4096, 256, 128), 1e-5);
  set_tf32_products(true);
  const double error = largest_error(4096, 256, 128);
  EXPECT_LT(error, std::ldexp(1, -9) + 1e-5);
  EXPECT_GT(error, 1e-5) << "not rounded: a GPU older than compute capability 8.0?";
}

}  // namespace
}  // namespace gnn::nn
