#include "worker/nn/functional/sage_layer.h"

#include "tests/support/blocks.h"
#include "tests/support/gradcheck.h"
#include "worker/nn/functional/aggregate.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace gnn::nn {
namespace {

using testing::gradients_match;
using testing::random_block;

struct Widths {
  int64_t in;
  int64_t out;
};

// Narrowing projects before it aggregates, widening after.
class SageLayerOfWidths : public ::testing::TestWithParam<Widths> {
 protected:
  void SetUp() override {
    torch::manual_seed(3);
    const auto [in, out] = GetParam();
    x = leaf({9, in});
    weight_self = leaf({out, in});
    weight_neighbors = leaf({out, in});
    bias = leaf({out});
  }
  static at::Tensor leaf(at::IntArrayRef shape) {
    return torch::randn(shape, torch::kFloat64).requires_grad_();
  }
  at::Tensor run() const { return sage_layer(block, x, weight_self, weight_neighbors, bias); }

  graph::Block block = random_block(4, 9, 5, 17, at::kInt);
  at::Tensor x, weight_self, weight_neighbors, bias;
};

INSTANTIATE_TEST_SUITE_P(
    All, SageLayerOfWidths, ::testing::Values(Widths{5, 2}, Widths{3, 3}, Widths{2, 5})
);

TEST_P(SageLayerOfWidths, DoesNotWriteToTheBiasForOneDestination) {
  block = random_block(1, 9, 5, 17, at::kInt);
  const at::Tensor before = bias.detach().clone();
  EXPECT_EQ(run().size(0), 1);
  EXPECT_TRUE(torch::equal(bias.detach(), before));
}

TEST_P(SageLayerOfWidths, EqualsItsFormula) {
  const at::Tensor expected = x.narrow(0, 0, 4).mm(weight_self.t()) +
                              aggregate(block, x, Aggregation::Mean).mm(weight_neighbors.t()) +
                              bias;
  EXPECT_TRUE(torch::allclose(run(), expected, 1e-12, 1e-12));
}

TEST_P(SageLayerOfWidths, GradientsMatchDifferences) {
  EXPECT_TRUE(
      gradients_match([&] { return run().pow(2); }, {x, weight_self, weight_neighbors, bias})
  );
}

TEST_P(SageLayerOfWidths, ComputesNoGradientForFeaturesThatNeedNone) {
  const at::Tensor all = run();
  all.pow(2).sum().backward();
  const at::Tensor expected = weight_neighbors.grad().clone();
  weight_neighbors.mutable_grad().reset();
  const at::Tensor features = x.detach();
  sage_layer(block, features, weight_self, weight_neighbors, bias).pow(2).sum().backward();
  EXPECT_TRUE(torch::allclose(weight_neighbors.grad(), expected));
  EXPECT_FALSE(features.grad().defined());
}

TEST(SageLayer, RefusesMismatchedFeatures) {
  const graph::Block block = random_block(2, 3, 2, 1);
  const at::Tensor weight = torch::ones({4, 5});
  const at::Tensor bias = torch::ones({4});
  EXPECT_THROW(sage_layer(block, torch::ones({3, 4}), weight, weight, bias), c10::Error);
  EXPECT_THROW(sage_layer(block, torch::ones({2, 5}), weight, weight, bias), c10::Error);
}

}  // namespace
}  // namespace gnn::nn
