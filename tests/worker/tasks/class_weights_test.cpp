#include "worker/tasks/class_weights.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gnn::tasks {
namespace {

using ::testing::HasSubstr;

LabelledItems labelled_items() {
  return {
      .labels = at::tensor({0, 1, 0, 0, 3, -1, 1}, at::kLong),
      .training_items = at::tensor({0, 1, 2, 3, 4, 5}, at::kLong),
      .num_classes = 4
  };
}

TEST(ClassWeights, AreThoseOfScikitLearnWhereBalanced) {
  // compute_class_weight("balanced", classes=[0, 1, 3], y=[0, 1, 0, 0, 3])
  const auto weights = class_weights_of(api::ClassWeights{}, labelled_items());
  ASSERT_TRUE(weights) << weights.error().message;
  EXPECT_TRUE(at::allclose(*weights, at::tensor({5.0F / 9, 5.0F / 3, 0.0F, 5.0F / 3})));
}

TEST(ClassWeights, AreGivenForEachClassOrRefusedByTheirField) {
  api::ClassWeights given{
      .type = api::ClassWeighting::Given, .weights = {{"1"}, {"2.5"}, {"1e-1"}}
  };
  const auto refused = class_weights_of(given, labelled_items());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(
      refused.error().message, HasSubstr("spec.training.classWeights.weights: expected 4 weights")
  );
  given.weights.push_back({"3"});
  EXPECT_TRUE(
      at::equal(*class_weights_of(given, labelled_items()), at::tensor({1.0F, 2.5F, 0.1F, 3.0F}))
  );
  EXPECT_FALSE(class_weights_of(std::nullopt, labelled_items())->defined());
}

}  // namespace
}  // namespace gnn::tasks
