#include "worker/nn/functional/matmul.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace gnn::nn {
namespace {

// Below, at and above the pieces that rows are taken in, and several of each.
constexpr int64_t kRows[] = {1, 511, 512, 513, 2048, 2600, 8192, 20'001};

// Largest difference from the product in double, in units of what rounding `terms` sums may give.
void expect_near(const at::Tensor& found, const at::Tensor& exact, int64_t terms) {
  ASSERT_EQ(found.scalar_type(), at::kFloat);
  ASSERT_EQ(found.sizes(), exact.sizes());
  const double bound = 1e-6 * std::sqrt(static_cast<double>(terms));
  EXPECT_LT((found.to(at::kDouble) - exact).abs().max().item<double>(), bound * 5);
}

TEST(Matmul, RowsTimesWeights) {
  torch::manual_seed(1);
  const at::Tensor w = torch::randn({33, 17});
  for (const int64_t rows : kRows) {
    SCOPED_TRACE(rows);
    const at::Tensor x = torch::randn({rows, 33});
    const at::Tensor exact = x.to(at::kDouble).mm(w.to(at::kDouble));
    expect_near(mm_rows(x, w), exact, 33);
    expect_near(mm_rows(x, w.t().contiguous().t()), exact, 33);  // as a layer's weight comes
    expect_near(mm_rows(x.t().contiguous().t(), w), exact, 33);
    const at::Tensor wide = torch::randn({rows, 40});
    expect_near(
        mm_rows(wide.narrow(1, 3, 33), w),
        wide.narrow(1, 3, 33).to(at::kDouble).mm(w.to(at::kDouble)),
        33
    );
  }
}

TEST(Matmul, AddsToTheOutput) {
  torch::manual_seed(2);
  const at::Tensor w = torch::randn({9, 12});
  for (const int64_t rows : kRows) {
    SCOPED_TRACE(rows);
    const at::Tensor x = torch::randn({rows, 9});
    at::Tensor out = torch::randn({rows, 12});
    const at::Tensor exact = out.to(at::kDouble) + x.to(at::kDouble).mm(w.to(at::kDouble));
    addmm_rows(out, x, w);
    expect_near(out, exact, 9);
  }
}

TEST(Matmul, AddsToTheFirstRowsOnly) {
  at::Tensor all = torch::zeros({700, 4});
  at::Tensor first = all.narrow(0, 0, 600);
  addmm_rows(first, torch::ones({600, 3}), torch::ones({3, 4}));
  EXPECT_TRUE(torch::equal(all.narrow(0, 0, 600), torch::full({600, 4}, 3.0F)));
  EXPECT_TRUE(torch::equal(all.narrow(0, 600, 100), torch::zeros({100, 4})));
}

TEST(Matmul, SumsOverRows) {
  torch::manual_seed(3);
  for (const int64_t rows : kRows) {
    SCOPED_TRACE(rows);
    const at::Tensor a = torch::randn({rows, 19});
    const at::Tensor b = torch::randn({rows, 7});
    const at::Tensor found = mm_over_rows(a, b);
    if (uses_onednn(a)) {
      expect_near(found, a.to(at::kDouble).t().mm(b.to(at::kDouble)), rows);
    } else {
      // MKL adds up one row after the other where it has no AVX-512: its rounding, not ours.
      EXPECT_TRUE(torch::equal(found, a.t().mm(b)));
    }
  }
}

TEST(Matmul, SumsNoRowsToZero) {
  EXPECT_EQ(mm_rows(torch::zeros({0, 3}), torch::ones({3, 2})).sizes(), at::IntArrayRef({0, 2}));
  const at::Tensor sum = mm_over_rows(torch::zeros({0, 3}), torch::zeros({0, 2}));
  EXPECT_TRUE(torch::equal(sum, torch::zeros({3, 2})));
}

TEST(Matmul, RefusesMismatchedWidthsAsTorchDoes) {
  const at::Tensor x = torch::ones({600, 3});
  EXPECT_THROW((void)mm_rows(x, torch::ones({4, 2})), c10::Error);
  EXPECT_THROW((void)mm_over_rows(x, torch::ones({599, 2})), c10::Error);
  at::Tensor out = torch::zeros({600, 5});
  EXPECT_THROW(addmm_rows(out, x, torch::ones({3, 2})), c10::Error);
}

TEST(Matmul, GivesTheSameBitsFromRunToRun) {
  torch::manual_seed(4);
  const at::Tensor x = torch::randn({10'000, 64});
  const at::Tensor w = torch::randn({64, 48});
  EXPECT_TRUE(torch::equal(mm_rows(x, w), mm_rows(x, w)));
  EXPECT_TRUE(torch::equal(mm_over_rows(x, x), mm_over_rows(x, x)));
}

TEST(Matmul, SendsOnlyFloat32OnTheCpuToOneDnn) {
  EXPECT_FALSE(uses_onednn(torch::ones({1, 1}, at::kDouble)));
  const bool enabled = at::globalContext().userEnabledMkldnn();
  at::globalContext().setUserEnabledMkldnn(false);
  EXPECT_FALSE(uses_onednn(torch::ones({1, 1})));
  at::globalContext().setUserEnabledMkldnn(enabled);
}

// The bias of one row is as contiguous as its rows.
TEST(LinearRows, DoesNotWriteToTheBiasForOneRow) {
  const at::Tensor bias = torch::zeros({2});
  const at::Tensor y = linear_rows(torch::ones({1, 3}), torch::ones({2, 3}), bias);
  EXPECT_TRUE(torch::equal(y, torch::full({1, 2}, 3.0F)));
  EXPECT_TRUE(torch::equal(bias, torch::zeros({2})));
}

// Float gradients against torch's own in double; gradcheck of the layers is in their tests.
TEST(LinearRows, MatchesTorchInValueAndGradients) {
  torch::manual_seed(5);
  for (const bool biased : {true, false}) {
    SCOPED_TRACE(biased);
    const auto run = [&](at::ScalarType type, bool torchs) {
      torch::manual_seed(6);
      const auto leaf = [&](at::IntArrayRef sizes) {
        return torch::randn(sizes).to(type).requires_grad_();
      };
      const at::Tensor x = leaf({2100, 21});
      const at::Tensor weight = leaf({13, 21});
      const at::Tensor bias = biased ? leaf({13}) : at::Tensor();
      const at::Tensor y = torchs ? at::linear(x, weight, bias) : linear_rows(x, weight, bias);
      y.square().mean().backward();
      std::vector<at::Tensor> all = {y.detach(), x.grad(), weight.grad()};
      if (biased) all.push_back(bias.grad());
      return all;
    };
    const std::vector<at::Tensor> found = run(at::kFloat, false);
    const std::vector<at::Tensor> exact = run(at::kDouble, true);
    for (size_t i = 0; i < exact.size(); ++i) {
      SCOPED_TRACE(i);
      EXPECT_TRUE(torch::allclose(found[i].to(at::kDouble), exact[i], 1e-4, 1e-5));
    }
  }
}

}  // namespace
}  // namespace gnn::nn
