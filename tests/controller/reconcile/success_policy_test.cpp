#include "controller/reconcile/success_policy.h"

#include "tests/controller/reconcile/builders.h"

#include <gtest/gtest.h>

namespace gnn::reconcile {
namespace {

TEST(SuccessPolicy, CompletesWhenAllNodesHaveSucceeded) {
  Observed observed = running();
  end_container(
      observed.pods[0], 0, result_message(observed.job, 1, 0, R"(, "testMetric": "0.69")")
  );
  const Plan one = plan(observed);
  EXPECT_FALSE(is_true(one.status, condition::kComplete));
  EXPECT_EQ(one.status.nodes.succeeded, 1);
  EXPECT_EQ(one.status.nodes.ready, 2);

  end_container(observed.pods[1], 0);
  const Plan both = plan(observed);
  EXPECT_TRUE(is_true(both.status, condition::kComplete));
  EXPECT_EQ(both.status.state, "Complete");
  EXPECT_EQ(both.status.progress->test_metric, "0.69");
  EXPECT_EQ(both.status.message, "All 2 nodes completed, test metric 0.69");
  EXPECT_EQ(both.status.completion_time, observed.now);
  EXPECT_EQ(both.status.start_time, observed.job.status.start_time);
  // The result is saved before the pods that hold it are released.
  EXPECT_TRUE(both.actions.empty());
  const Plan frees = plan(next(observed, both));
  EXPECT_EQ(count_of<ReleasePod>(frees), 2);
}

TEST(SuccessPolicy, NamesTheMetricOfTheTest) {
  Observed observed = running();
  const std::string numbers = R"(, "metricName": "auc", "testMetric": "0.69")";
  end_container(observed.pods[0], 0, result_message(observed.job, 1, 0, numbers));
  end_container(observed.pods[1], 0);
  EXPECT_EQ(plan(observed).status.message, "All 2 nodes completed, test auc 0.69");
}

TEST(SuccessPolicy, CountsAFinishedPodThatWasDeleted) {
  Observed observed = running();
  for (objects::Pod& pod : observed.pods) {
    end_container(pod, 0);
    mark_deleted(pod, at(10), 0);
  }
  EXPECT_TRUE(is_true(plan(observed).status, condition::kComplete));
}

}  // namespace
}  // namespace gnn::reconcile
