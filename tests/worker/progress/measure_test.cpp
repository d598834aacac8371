#include "worker/progress/measure.h"

#include "worker/progress/progress_sink.h"

#include <gtest/gtest.h>

#include <cmath>

namespace gnn::progress {
namespace {

TEST(Accuracy, IsTheShareOfCorrectAnswers) {
  EXPECT_EQ(accuracy(1, 4), (Measure{.metric = "accuracy", .value = 0.25, .count = 4}));
}

TEST(Accuracy, IsNanWithoutItems) {
  EXPECT_TRUE(std::isnan(accuracy(0, 0).value));
  EXPECT_EQ(accuracy(0, 0).metric, "accuracy");
}

TEST(TitleOf, IsTheMetricForPeople) {
  EXPECT_EQ(title_of("accuracy"), "Accuracy");
  EXPECT_EQ(title_of("auc"), "AUC");
  EXPECT_EQ(title_of("average_precision"), "Average Precision");
  EXPECT_EQ(title_of("hits@10"), "Hits@10");
  EXPECT_EQ(title_of("mrr"), "MRR");
  EXPECT_EQ(title_of("f1"), "f1");
}

TEST(EpochReport, IsOfTheMetricOfItsEvaluationsIfItHasAny) {
  EpochReport report;
  report.train = accuracy(1, 2);
  EXPECT_EQ(report.metric(), "accuracy");
  for (const auto part : {&EpochReport::train_set, &EpochReport::validation, &EpochReport::test}) {
    EpochReport evaluated = report;
    evaluated.*part = Measure{.metric = "auc", .value = 0.5, .count = 2};
    EXPECT_EQ(evaluated.metric(), "auc");
  }
}

}  // namespace
}  // namespace gnn::progress
