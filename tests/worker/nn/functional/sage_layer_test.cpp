#include "worker/nn/functional/sage_layer.h"

#include "tests/support/blocks.h"
#include "tests/support/gradcheck.h"
#include "worker/nn/functional/aggregate.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <array>
#include <cmath>
#include <optional>
#include <vector>

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

// The result and all gradients of the layer for the gradient `upstream`.
std::vector<at::Tensor> forward_and_backward(
    const graph::Block& block,
    std::vector<at::Tensor> leaves,
    const at::Tensor& upstream,
    std::optional<at::ScalarType> result = {}
) {
  for (at::Tensor& leaf : leaves) leaf = leaf.detach().requires_grad_();
  const at::Tensor out = sage_layer(block, leaves[0], leaves[1], leaves[2], leaves[3], result);
  out.backward(upstream.to(out.scalar_type()));
  std::vector<at::Tensor> all = {out.detach()};
  for (const at::Tensor& leaf : leaves) all.push_back(leaf.grad());
  return all;
}

// Against the layer in double on the same values. Each rounding on the way to a number changes it by
// at most 2^-8 of what the layer gives for absolute values: of the weights, of what is between the
// two sums, of the result, and for x of the sum of its two parts.
TEST_P(SageLayerOfWidths, InBFloat16IsWithinTheRoundingsOfItsOperands) {
  const at::Tensor rows = x.detach().to(at::kBFloat16);
  const at::Tensor upstream = torch::randn({4, GetParam().out}).to(at::kBFloat16);
  std::vector<at::Tensor> mixed = {rows};
  for (const at::Tensor& parameter : {weight_self, weight_neighbors, bias})
    mixed.push_back(parameter.detach().to(at::kFloat));
  std::vector<at::Tensor> exact;
  std::vector<at::Tensor> absolute;
  for (const at::Tensor& each : mixed) {
    exact.push_back(each.to(at::kDouble));
    absolute.push_back(each.to(at::kDouble).abs());
  }
  const auto expected = forward_and_backward(block, exact, upstream.to(at::kDouble));
  const auto limits = forward_and_backward(block, absolute, upstream.to(at::kDouble).abs());
  constexpr std::array<int, 5> kRoundings = {3, 4, 0, 1, 0};  // result, x, self, neighbours, bias
  constexpr double kSumsInFloat = 1e-5;
  for (const at::ScalarType result : {at::kBFloat16, at::kFloat}) {
    const auto found = forward_and_backward(block, mixed, upstream, result);
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].scalar_type(), i == 0 ? result : i == 1 ? at::kBFloat16 : at::kFloat);
      const double share = std::pow(1 + 0x1p-8, kRoundings[i]) - 1 + kSumsInFloat;
      const at::Tensor error = (found[i].to(at::kDouble) - expected[i]).abs();
      EXPECT_TRUE(error.le(limits[i] * share).all().item<bool>()) << i << '\n' << error;
    }
  }
}

// More destinations than sources, whose rows are wider or narrower than the sources'.
class SageLayerBetweenOfWidths : public SageLayerOfWidths {
 protected:
  static constexpr int64_t kDestinations = 7;
  static constexpr int64_t kSources = 5;

  void SetUp() override {
    SageLayerOfWidths::SetUp();
    const auto [in, out] = GetParam();
    block = random_block(kDestinations, kSources, 4, 19, at::kInt);
    x = leaf({kSources, in});
    destinations = leaf({kDestinations, 4});
    weight_self = leaf({out, 4});
  }
  at::Tensor run_between() const {
    return sage_layer_between(
        block,
        {.sources = x, .destinations = destinations},
        {.self = weight_self, .neighbors = weight_neighbors, .bias = bias}
    );
  }
  at::Tensor expected() const {
    const at::Tensor edges = testing::dense(block);
    const at::Tensor degrees = edges.sum(1, /*keepdim=*/true).clamp_min(1);
    return destinations.mm(weight_self.t()) + (edges / degrees).mm(x).mm(weight_neighbors.t()) +
           bias;
  }

  at::Tensor destinations;
};

INSTANTIATE_TEST_SUITE_P(
    All, SageLayerBetweenOfWidths, ::testing::Values(Widths{5, 2}, Widths{3, 3}, Widths{2, 5})
);

TEST_P(SageLayerBetweenOfWidths, EqualsItsFormula) {
  EXPECT_TRUE(torch::allclose(run_between(), expected(), 1e-12, 1e-12));
}

TEST_P(SageLayerBetweenOfWidths, GradientsMatchDifferences) {
  EXPECT_TRUE(gradients_match(
      [&] { return run_between().pow(2); }, {x, destinations, weight_self, weight_neighbors, bias}
  ));
}

TEST_P(SageLayerBetweenOfWidths, ComputesNoGradientForRowsThatNeedNone) {
  run_between().pow(2).sum().backward();
  const at::Tensor of_weight = weight_self.grad().clone();
  const at::Tensor of_destinations = destinations.grad().clone();
  weight_self.mutable_grad().reset();
  destinations.mutable_grad().reset();
  x = x.detach();
  run_between().pow(2).sum().backward();
  EXPECT_TRUE(torch::equal(destinations.grad(), of_destinations));
  destinations = destinations.detach();
  weight_self.mutable_grad().reset();
  run_between().pow(2).sum().backward();
  EXPECT_TRUE(torch::equal(weight_self.grad(), of_weight));
}

TEST_P(SageLayerBetweenOfWidths, GivesDestinationsWithoutAnySourceTheirOwnPart) {
  block = testing::make_block({{}, {}}, 0);
  x = leaf({0, GetParam().in});
  destinations = leaf({2, 4});
  const at::Tensor out = run_between();
  EXPECT_TRUE(torch::allclose(out, expected(), 1e-12, 1e-12));
  out.sum().backward();
  EXPECT_TRUE(torch::equal(weight_neighbors.grad(), torch::zeros_like(weight_neighbors)));
  EXPECT_EQ(x.grad().size(0), 0);
}

TEST_P(SageLayerBetweenOfWidths, IsSageLayerIfTheDestinationsAreTheFirstSources) {
  block = random_block(4, kSources, 4, 23, at::kInt);
  weight_self = leaf({GetParam().out, GetParam().in});
  destinations = x.detach().narrow(0, 0, 4);
  EXPECT_TRUE(torch::equal(run_between(), run()));
}

TEST(SageLayer, RefusesMismatchedFeatures) {
  const graph::Block block = random_block(2, 3, 2, 1);
  const at::Tensor weight = torch::ones({4, 5});
  const at::Tensor bias = torch::ones({4});
  EXPECT_THROW(sage_layer(block, torch::ones({3, 4}), weight, weight, bias), c10::Error);
  EXPECT_THROW(sage_layer(block, torch::ones({2, 5}), weight, weight, bias), c10::Error);
  const auto between = [&](const at::Tensor& sources, const at::Tensor& destinations) {
    return sage_layer_between(
        block,
        {.sources = sources, .destinations = destinations},
        {.self = weight, .neighbors = weight, .bias = bias}
    );
  };
  EXPECT_EQ(between(torch::ones({3, 5}), torch::ones({2, 5})).size(0), 2);
  EXPECT_THROW(between(torch::ones({3, 4}), torch::ones({2, 5})), c10::Error);
  EXPECT_THROW(between(torch::ones({2, 5}), torch::ones({2, 5})), c10::Error);
  EXPECT_THROW(between(torch::ones({3, 5}), torch::ones({3, 5})), c10::Error);
}

}  // namespace
}  // namespace gnn::nn
