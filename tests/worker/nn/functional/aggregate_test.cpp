#include "worker/nn/functional/aggregate.h"

#include "tests/support/blocks.h"
#include "tests/support/gradcheck.h"
#include "worker/nn/functional/csr.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace gnn::nn {
namespace {

using testing::gradients_match;
using testing::make_block;
using testing::random_block;

at::Tensor leaf(at::IntArrayRef shape) {
  return torch::randn(shape, torch::kFloat64).requires_grad_();
}

// Destination 2 has no in-edges; source 1 occurs twice in one list.
graph::Block tiny() {
  return make_block({{1, 3}, {1, 1, 0}, {}}, 4, at::kInt);
}

TEST(Aggregate, SumsAndAveragesInEdges) {
  const at::Tensor x = torch::tensor({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}, {7.0, 8.0}});
  EXPECT_TRUE(torch::equal(
      aggregate(tiny(), x, Aggregation::Sum), torch::tensor({{10.0, 12.0}, {7.0, 10.0}, {0.0, 0.0}})
  ));
  EXPECT_TRUE(torch::allclose(
      aggregate(tiny(), x, Aggregation::Mean),
      torch::tensor({{5.0, 6.0}, {7.0 / 3, 10.0 / 3}, {0.0, 0.0}})
  ));
}

TEST(Aggregate, GradientsMatchDifferences) {
  torch::manual_seed(1);
  for (const graph::Block& block : {tiny(), random_block(5, 8, 4, 11)}) {
    const at::Tensor x = leaf({block.num_sources, 3});
    for (const Aggregation kind : {Aggregation::Sum, Aggregation::Mean}) {
      EXPECT_TRUE(gradients_match([&] { return aggregate(block, x, kind).pow(2); }, {x}));
    }
  }
}

TEST(GcnAggregate, NormalisesBothEndsWithOneSelfLoopEach) {
  // Node 0 has a self-loop of its own, which counts once. Degrees with loops: 3, 2, and 1 for the
  // frontier.
  const graph::Block block = make_block({{0, 1, 2}, {2}}, 3);
  const at::Tensor degrees = torch::tensor({2, 1, 0}, torch::kInt64);
  const at::Tensor x = torch::tensor({{1.0}, {10.0}, {100.0}}, torch::kFloat64);
  const at::Tensor expected = torch::tensor(
      {{1.0 / 3 + 10 / std::sqrt(6.0) + 100 / std::sqrt(3.0)}, {10.0 / 2 + 100 / std::sqrt(2.0)}},
      torch::kFloat64
  );
  EXPECT_TRUE(torch::allclose(gcn_aggregate(block, x, degrees), expected));
}

TEST(GcnAggregate, GradientsMatchDifferences) {
  torch::manual_seed(2);
  const graph::Block block = random_block(5, 8, 4, 13, at::kInt);
  const at::Tensor degrees = torch::tensor({1, 4, 0, 2, 3, 1, 0, 2}, torch::kInt64);
  const at::Tensor x = leaf({8, 3});
  EXPECT_TRUE(gradients_match([&] { return gcn_aggregate(block, x, degrees).pow(2); }, {x}));
}

TEST(GcnAggregate, RefusesMismatchedDegrees) {
  const at::Tensor x = torch::ones({4, 2});
  EXPECT_THROW(gcn_aggregate(tiny(), x, torch::ones({3}, torch::kInt64)), c10::Error);
  EXPECT_THROW(gcn_aggregate(tiny(), x, torch::ones({4})), c10::Error);
}

}  // namespace
}  // namespace gnn::nn
