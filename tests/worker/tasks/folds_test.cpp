#include "worker/tasks/folds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace gnn::tasks {
namespace {

// A fold whose epochs have these numbers of correct answers of ten, on test and validation set.
training::TrainingResult fold_of(
    const std::vector<int64_t>& test, const std::vector<int64_t>& validation
) {
  training::TrainingResult fold;
  for (size_t i = 0; i < test.size(); ++i) {
    progress::EpochReport epoch;
    epoch.epoch = static_cast<int64_t>(i);
    epoch.test = progress::accuracy(test[i], 10);
    if (i < validation.size()) epoch.validation = progress::accuracy(validation[i], 10);
    fold.epochs.push_back(epoch);
  }
  return fold;
}

TEST(FoldMetrics, ChooseTheEpochByTheMeanOverTheFolds) {
  const std::vector<training::TrainingResult> folds = {
      fold_of({9, 7, 5}, {}), fold_of({1, 7, 6}, {})
  };
  const auto metrics = fold_metrics(folds);
  EXPECT_DOUBLE_EQ(metrics.at("test_accuracy"), 0.7);
  EXPECT_DOUBLE_EQ(metrics.at("test_accuracy_epoch"), 1);
  EXPECT_DOUBLE_EQ(metrics.at("test_accuracy_stddev"), 0);
  EXPECT_DOUBLE_EQ(metrics.at("test_accuracy_last_epoch"), 0.55);
  EXPECT_EQ(metrics.count("test_accuracy_by_validation"), 0U);
}

TEST(FoldMetrics, ChooseEachFoldsEpochByItsValidationSet) {
  const std::vector<training::TrainingResult> folds = {
      fold_of({9, 7, 5}, {1, 8, 8}), fold_of({1, 7, 6}, {2, 2, 9})
  };
  const auto metrics = fold_metrics(folds);
  // The first of equal validation accuracies: 0.7 and 0.6.
  EXPECT_DOUBLE_EQ(metrics.at("test_accuracy_by_validation"), 0.65);
  EXPECT_DOUBLE_EQ(metrics.at("test_accuracy_stddev"), 0);
}

TEST(FoldMetrics, AreNamedAfterTheMetric) {
  training::TrainingResult fold = fold_of({6}, {});
  fold.epochs[0].test->metric = "auc";
  const auto metrics = fold_metrics(std::vector{fold});
  EXPECT_DOUBLE_EQ(metrics.at("test_auc"), 0.6);
  EXPECT_EQ(metrics.count("test_auc_last_epoch"), 1U);
}

TEST(FoldMetrics, GiveTheSpreadOverTheFolds) {
  const std::vector<training::TrainingResult> folds = {fold_of({6}, {}), fold_of({8}, {})};
  EXPECT_NEAR(fold_metrics(folds).at("test_accuracy_stddev"), std::sqrt(0.02), 1e-12);
}

}  // namespace
}  // namespace gnn::tasks
