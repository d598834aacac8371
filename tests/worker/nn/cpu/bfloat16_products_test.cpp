#include "worker/nn/cpu/bfloat16_products.h"

#include "worker/nn/functional/matmul.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace gnn::nn {
namespace {

// Half a unit in the last place of 1: what rounding to nearest changes at most, relatively.
constexpr double kRoundingOfFloat = 0x1p-24;
constexpr double kRoundingOfBFloat16 = 0x1p-8;

at::Tensor random_operand(int64_t rows, int64_t columns) {
  return torch::randn({rows, columns}).to(at::kBFloat16);
}

at::Tensor exact(const at::Tensor& tensor) {
  return tensor.to(at::kDouble);
}

// `found` is a sum of `terms` in float32, whose absolute values sum up to `absolute`: each addition
// and multiplication changes it by at most a rounding of that, and storing it by one of its own type.
void expect_within_rounding(
    const at::Tensor& found, const at::Tensor& expected, const at::Tensor& absolute, int64_t terms
) {
  ASSERT_EQ(found.sizes(), expected.sizes());
  const double stored = found.scalar_type() == at::kBFloat16 ? kRoundingOfBFloat16 : 0;
  const double summed = static_cast<double>(2 * terms + 2) * kRoundingOfFloat;
  const at::Tensor bound = absolute * (summed * (1 + stored)) + expected.abs() * stored;
  const at::Tensor error = (exact(found) - expected).abs();
  EXPECT_TRUE(error.le(bound).all().item<bool>())
      << "by " << (error - bound).max().item<double>() << " too much";
}

// By the processor's products of bfloat16, where it has them, and as float32.
class MixedProducts : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override { at::globalContext().setUserEnabledMkldnn(GetParam()); }
  void TearDown() override { at::globalContext().setUserEnabledMkldnn(true); }
};

INSTANTIATE_TEST_SUITE_P(ByTheProcessorAndAsFloat32, MixedProducts, ::testing::Bool());

TEST_P(MixedProducts, AreSumsInFloat32RoundedOnce) {
  torch::manual_seed(1);
  for (const int64_t rows : {1, 3, 31, 32, 33, 161}) {
    for (const int64_t in : {1, 2, 3, 17, 64, 101}) {
      for (const int64_t out : {1, 7, 16, 47}) {
        SCOPED_TRACE(
            std::to_string(rows) + " x " + std::to_string(in) + " x " + std::to_string(out)
        );
        const std::array<Product, 2> products{
            Product{.x = random_operand(rows, in), .w = random_operand(out, in).t()},
            Product{.x = random_operand(rows, 5), .w = random_operand(5, out)}
        };
        const at::Tensor bias = torch::randn({out});
        at::Tensor expected = exact(bias).expand({rows, out});
        at::Tensor absolute = expected.abs();
        for (const Product& product : products) {
          expected = expected + exact(product.x).mm(exact(product.w));
          absolute = absolute + exact(product.x).abs().mm(exact(product.w).abs());
        }
        for (const at::ScalarType result : {at::kFloat, at::kBFloat16}) {
          const at::Tensor found = sum_of_products(bias, products, result);
          ASSERT_EQ(found.scalar_type(), result);
          expect_within_rounding(found, expected, absolute, in + 6);
        }
      }
    }
  }
}

TEST_P(MixedProducts, OverRowsAreSumsInFloat32) {
  torch::manual_seed(2);
  for (const int64_t rows : {1, 2, 32, 33, 256, 257, 2049, 4100}) {
    for (const int64_t width : {1, 15, 33}) {
      SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(width));
      const at::Tensor gradient = random_operand(rows, 18);
      const std::array<at::Tensor, 2> inputs{random_operand(rows, width), random_operand(rows, 20)};
      const LinearGradients found = linear_gradients(gradient, inputs);
      for (size_t i = 0; i < inputs.size(); ++i) {
        ASSERT_EQ(found.weights[i].scalar_type(), at::kFloat);
        expect_within_rounding(
            found.weights[i],
            exact(gradient).t().mm(exact(inputs[i])),
            exact(gradient).abs().t().mm(exact(inputs[i]).abs()),
            rows
        );
      }
      expect_within_rounding(
          found.bias, exact(gradient).sum(0), exact(gradient).abs().sum(0), rows
      );
    }
  }
}

// Rows of odd width are next to others in memory, and odd numbers of them are filled up.
TEST_P(MixedProducts, KeepWhatIsNotFiniteToItsRowAndColumn) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  at::Tensor x = torch::ones({35, 3});
  x[1].fill_(nan);
  x[2].fill_(infinity);
  x[4].fill_(3e38F);
  x = x.to(at::kBFloat16);
  const at::Tensor w = torch::ones({3, 2}).to(at::kBFloat16);
  const at::Tensor found = mm_rows(x, w).to(at::kFloat);
  EXPECT_TRUE(found[1].isnan().all().item<bool>());
  EXPECT_TRUE(found[2].eq(infinity).all().item<bool>());
  EXPECT_TRUE(found[4].eq(infinity).all().item<bool>()) << "9e38 is beyond float32";
  for (const int64_t row : {0, 3, 5, 31, 32, 34})
    EXPECT_TRUE(found[row].eq(3).all().item<bool>()) << row;

  at::Tensor gradient = torch::ones({35, 3});
  gradient.select(1, 1).fill_(nan);
  const LinearGradients sums =
      linear_gradients(gradient, std::array<at::Tensor, 1>{torch::ones({35, 2}).to(at::kBFloat16)});
  for (const int64_t column : {0, 2}) {
    EXPECT_TRUE(sums.weights[0][column].eq(35).all().item<bool>());
    EXPECT_EQ(sums.bias[column].item<float>(), 35);
  }
  EXPECT_TRUE(sums.weights[0][1].isnan().all().item<bool>());
}

TEST_P(MixedProducts, OfNoRowsAreEmptyAndTheirSumsZero) {
  const at::Tensor none = torch::zeros({0, 3}, at::kBFloat16);
  const at::Tensor w = torch::ones({3, 2}, at::kBFloat16);
  EXPECT_EQ(mm_rows(none, w).sizes(), at::IntArrayRef({0, 2}));
  const LinearGradients sums =
      linear_gradients(torch::zeros({0, 2}), std::array<at::Tensor, 1>{none});
  EXPECT_TRUE(torch::equal(sums.weights[0], torch::zeros({2, 3})));
  EXPECT_TRUE(torch::equal(sums.bias, torch::zeros({2})));
}

TEST(Bfloat16Products, HaveTheSameBitsOnOneAndTwoThreads) {
  if (!cpu::has_bfloat16_products()) GTEST_SKIP() << "the processor has no products of bfloat16";
  torch::manual_seed(3);
  const at::Tensor x = random_operand(9001, 37);
  const at::Tensor w = random_operand(37, 29);
  const at::Tensor gradient = random_operand(9001, 29);
  const int threads = at::get_num_threads();
  std::vector<std::vector<at::Tensor>> found;
  for (const int count : {1, 2}) {
    at::set_num_threads(count);
    const LinearGradients sums = linear_gradients(gradient, std::array<at::Tensor, 1>{x});
    found.push_back({mm_rows(x, w), sums.weights[0], sums.bias});
  }
  at::set_num_threads(threads);
  for (size_t i = 0; i < found[0].size(); ++i) EXPECT_TRUE(torch::equal(found[0][i], found[1][i]));
}

}  // namespace
}  // namespace gnn::nn
