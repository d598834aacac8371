#include "worker/nn/functional/segment_pool.h"

#include "tests/support/gradcheck.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace gnn::nn {
namespace {

// Graph 1 has no nodes.
at::Tensor offsets() {
  return torch::tensor({0, 2, 2, 5}, torch::kInt64);
}

TEST(SegmentPool, ReducesEachGraph) {
  const at::Tensor x =
      torch::tensor({{1.0, -2.0}, {3.0, -4.0}, {5.0, -6.0}, {7.0, -8.0}, {0.0, -1.0}});
  EXPECT_TRUE(torch::equal(
      segment_pool(x, offsets(), Pooling::Sum),
      torch::tensor({{4.0, -6.0}, {0.0, 0.0}, {12.0, -15.0}})
  ));
  EXPECT_TRUE(torch::allclose(
      segment_pool(x, offsets(), Pooling::Mean),
      torch::tensor({{2.0, -3.0}, {0.0, 0.0}, {4.0, -5.0}})
  ));
  EXPECT_TRUE(torch::equal(
      segment_pool(x, offsets(), Pooling::Max),
      torch::tensor({{3.0, -2.0}, {0.0, 0.0}, {7.0, -1.0}})
  ));
}

TEST(SegmentPool, GradientsMatchDifferences) {
  torch::manual_seed(1);
  const at::Tensor x = torch::randn({5, 3}, torch::kFloat64).requires_grad_();
  for (const Pooling pooling : {Pooling::Sum, Pooling::Mean, Pooling::Max}) {
    EXPECT_TRUE(
        testing::gradients_match([&] { return segment_pool(x, offsets(), pooling).pow(2); }, {x})
    );
  }
}

TEST(SegmentPool, GradientOfATieGoesToTheFirst) {
  const at::Tensor x = torch::tensor({{1.0}, {1.0}, {4.0}, {2.0}, {4.0}}).requires_grad_();
  segment_pool(x, offsets(), Pooling::Max).sum().backward();
  EXPECT_TRUE(torch::equal(x.grad(), torch::tensor({{1.0}, {0.0}, {1.0}, {0.0}, {0.0}})));
}

TEST(SegmentPool, RefusesOffsetsThatDoNotCoverTheNodes) {
  const at::Tensor x = torch::ones({5, 2});
  for (const Pooling pooling : {Pooling::Sum, Pooling::Mean, Pooling::Max}) {
    EXPECT_THROW(segment_pool(x, torch::tensor({0, 2, 4}, torch::kInt64), pooling), c10::Error);
    EXPECT_THROW(segment_pool(x, torch::tensor({0, 6, 5}, torch::kInt64), pooling), c10::Error);
    EXPECT_THROW(segment_pool(x, torch::tensor({1, 5}, torch::kInt64), pooling), c10::Error);
    EXPECT_THROW(segment_pool(x, torch::tensor({0, 5}, torch::kInt32), pooling), c10::Error);
  }
}

}  // namespace
}  // namespace gnn::nn
