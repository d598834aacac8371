#include "worker/data/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace gnn::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(NumpyPermutation, MatchesNumpyBitForBit) {
  // python -c "import numpy as np; print(np.random.RandomState(0).permutation(10))"
  EXPECT_THAT(numpy_permutation(0, 10), ElementsAre(2, 8, 4, 9, 1, 6, 7, 3, 0, 5));
  EXPECT_THAT(numpy_permutation(42, 10), ElementsAre(8, 1, 5, 0, 7, 2, 9, 4, 3, 6));
  EXPECT_TRUE(numpy_permutation(1, 0).empty());
}

TEST(RandomSplit, CutsAsDglsSplitDatasetDoes) {
  const std::vector<int64_t> labels(1000, 0);
  const auto split = random_split(labels, {.train = 0.8, .validation = 0.1, .test = 0.1}, 0);
  ASSERT_TRUE(split) << split.error().message;
  EXPECT_EQ(split->train.size(), 800U);
  EXPECT_EQ(split->validation.size(), 100U);
  EXPECT_EQ(split->test.size(), 100U);
  EXPECT_EQ(split->train.front(), numpy_permutation(0, 1000).front());
  // 7 * 0.33 = 2.31 each; the remainder is the last part's.
  const std::vector<int64_t> seven(7, 0);
  EXPECT_EQ(
      random_split(seven, {.train = 0.33, .validation = 0.33, .test = 0.34}, 0)->test.size(), 3U
  );
}

TEST(RandomSplit, LeavesOutItemsWithoutLabel) {
  const std::vector<int64_t> labels{0, -1, 1, -1, 0};
  const auto split = random_split(labels, {.train = 1.0, .validation = 0.0, .test = 0.0}, 3);
  std::vector<int64_t> train = split->train;
  std::sort(train.begin(), train.end());
  EXPECT_THAT(train, ElementsAre(0, 2, 4));
}

TEST(RandomSplit, RefusesInvalidFractions) {
  const std::vector<int64_t> labels(10, 0);
  EXPECT_THAT(
      random_split(labels, {.train = 0.9, .validation = 0.2, .test = 0}, 0).error().message,
      HasSubstr("at most 1")
  );
  EXPECT_FALSE(random_split(labels, {.train = -0.1, .validation = 0, .test = 0}, 0));
  EXPECT_THAT(
      random_split(labels, {.train = 0.01, .validation = 0, .test = 0}, 0).error().message,
      HasSubstr("no item is left")
  );
}

TEST(StratifiedFold, TestsEveryItemOnceAndKeepsClassesEven) {
  std::vector<int64_t> labels(1000);
  for (size_t i = 0; i < labels.size(); ++i) {
    labels[i] = i < 503 ? 0 : 1;
  }
  std::vector<int> held(1000);
  for (int64_t fold = 0; fold < 10; ++fold) {
    const auto split = stratified_fold(labels, {.folds = 10, .fold = fold}, 5);
    ASSERT_TRUE(split);
    EXPECT_EQ(split->test.size(), 100U);
    EXPECT_EQ(split->train.size(), 900U);
    int64_t zeros = 0;
    for (const int64_t id : split->test) {
      ++held[static_cast<size_t>(id)];
      zeros += labels[static_cast<size_t>(id)] == 0 ? 1 : 0;
    }
    EXPECT_NEAR(static_cast<double>(zeros), 50.3, 1.0);
  }
  EXPECT_THAT(held, ::testing::Each(1));
  EXPECT_NE(stratified_fold(labels, {}, 5)->test, stratified_fold(labels, {}, 6)->test);
  EXPECT_FALSE(stratified_fold(labels, {.folds = 10, .fold = 10}, 5));
  EXPECT_FALSE(stratified_fold(labels, {.folds = 1}, 5));
}

TEST(StratifiedFold, TakesTheValidationFractionFromTheOtherFolds) {
  std::vector<int64_t> labels(1000);
  for (size_t i = 0; i < labels.size(); ++i) {
    labels[i] = i < 300 ? 0 : 1;
  }
  const auto plain = stratified_fold(labels, {.fold = 3}, 5);
  const auto split = stratified_fold(labels, {.fold = 3, .validation = 0.1}, 5);
  ASSERT_TRUE(plain && split);
  EXPECT_TRUE(plain->validation.empty());
  EXPECT_EQ(split->test, plain->test);  // the folds stay
  EXPECT_EQ(split->validation.size(), 90U);
  const auto zeros =
      std::count_if(split->validation.begin(), split->validation.end(), [&labels](int64_t id) {
        return labels[static_cast<size_t>(id)] == 0;
      });
  EXPECT_NEAR(static_cast<double>(zeros), 27.0, 1.0);
  std::vector<int64_t> others = split->train;
  others.insert(others.end(), split->validation.begin(), split->validation.end());
  EXPECT_THAT(others, ::testing::UnorderedElementsAreArray(plain->train));
  EXPECT_FALSE(stratified_fold(labels, {.validation = 1.0}, 5));
  EXPECT_FALSE(stratified_fold(labels, {.validation = -0.1}, 5));
}

}  // namespace
}  // namespace gnn::data
