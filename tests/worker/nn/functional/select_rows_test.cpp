#include "worker/nn/functional/select_rows.h"

#include "tests/support/gradcheck.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace gnn::nn {
namespace {

TEST(SelectRows, GivesEachRowAsOftenAsItIsNamed) {
  torch::manual_seed(1);
  const at::Tensor rows = torch::tensor({3, 0, 3, 3, 1}, torch::kInt64);
  const at::Tensor x = torch::randn({5, 4}, torch::kFloat64).requires_grad_();
  EXPECT_TRUE(torch::equal(select_rows(x, rows), x.index_select(0, rows)));
  EXPECT_TRUE(testing::gradients_match([&] { return select_rows(x, rows).pow(2); }, {x}));
  EXPECT_EQ(select_rows(x, rows.narrow(0, 0, 0)).sizes(), (std::vector<int64_t>{0, 4}));
}

TEST(SelectRows, RefusesRowsThatAreNotThere) {
  const at::Tensor x = torch::ones({5, 4});
  EXPECT_THROW(select_rows(x, torch::tensor({0, 5}, torch::kInt64)), c10::Error);
  EXPECT_THROW(select_rows(x, torch::tensor({-1}, torch::kInt64)), c10::Error);
  EXPECT_THROW(select_rows(x, torch::tensor({1}, torch::kInt32)), c10::Error);
  EXPECT_THROW(select_rows(x, torch::tensor({{1}}, torch::kInt64)), c10::Error);
}

}  // namespace
}  // namespace gnn::nn
