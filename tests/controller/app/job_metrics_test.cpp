#include "controller/app/job_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gnn::app {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

void name_job(api::GnnJob& job) {
  job.metadata.name = "j";
  job.metadata.namespace_ = "ns";
  job.metadata.creation_timestamp = TimePoint(1000s);
}

api::Condition condition(
    const std::string& type, const std::string& status, std::chrono::seconds at
) {
  api::Condition condition;
  condition.type = type;
  condition.status = status;
  condition.last_transition_time = TimePoint(at);
  return condition;
}

TEST(JobMetrics, ShowsARunningJobAndForgetsItsTrainingAtTheEnd) {
  MetricsRegistry registry;
  JobMetrics metrics(registry);
  api::GnnJob running;
  name_job(running);
  running.status.conditions = {condition("Running", "True", 1010s)};
  running.status.nodes.desired = 4;
  running.status.progress = api::JobProgress{};
  running.status.progress->epoch = 3;
  running.status.progress->loss = "0.25";
  running.status.progress->rate = "Inf";
  running.status.progress->validation_metric = "0.5";
  metrics.show(running);
  EXPECT_THAT(
      registry.expose(),
      HasSubstr(
          "gnnjob_condition{condition=\"Running\",job=\"j\",namespace=\"ns\",status=\"True\"} 1"
      )
  );
  EXPECT_THAT(
      registry.expose(), HasSubstr("gnnjob_nodes{job=\"j\",namespace=\"ns\",state=\"desired\"} 4")
  );
  EXPECT_THAT(registry.expose(), HasSubstr("gnnjob_loss{job=\"j\",namespace=\"ns\"} 0.25"));
  EXPECT_THAT(
      registry.expose(),
      HasSubstr("gnnjob_metric{job=\"j\",namespace=\"ns\",split=\"validation\"} 0.5")
  );

  running.status.conditions = {
      condition("Running", "False", 1020s), condition("Complete", "True", 1020s)
  };
  metrics.show(running);
  EXPECT_THAT(registry.expose(), Not(HasSubstr("gnnjob_loss{")));
  EXPECT_THAT(registry.expose(), Not(HasSubstr("gnnjob_metric{")));
  EXPECT_THAT(registry.expose(), HasSubstr("gnnjob_info{"));
}

TEST(JobMetrics, AllSeriesGoWithTheJob) {
  MetricsRegistry registry;
  JobMetrics metrics(registry);
  api::GnnJob fresh;
  name_job(fresh);
  metrics.show(fresh);
  api::GnnJobStatus after;
  after.restarts = 2;
  metrics.count_change(fresh, after);
  EXPECT_THAT(
      registry.expose(),
      HasSubstr("gnnjob_restarts_total{job=\"j\",namespace=\"ns\",reason=\"Unknown\"} 2")
  );
  metrics.remove("ns", "j");
  EXPECT_THAT(registry.expose(), Not(HasSubstr("job=\"j\"")));
}

TEST(JobMetrics, MeasuresQueueStartupAndRun) {
  MetricsRegistry registry;
  JobMetrics metrics(registry);
  api::GnnJob before;
  name_job(before);
  api::GnnJobStatus after;
  after.attempt = 1;
  after.start_time = TimePoint(1002s);
  after.conditions = {condition("Scheduled", "True", 1005s)};
  metrics.count_change(before, after);
  before.status = after;
  after.conditions.push_back(condition("Running", "True", 1012s));
  metrics.count_change(before, after);
  before.status = after;
  after.conditions.push_back(condition("Complete", "True", 1102s));
  metrics.count_change(before, after);
  before.status = after;
  metrics.count_change(before, after);
  EXPECT_THAT(registry.expose(), HasSubstr("gnnjob_queue_duration_seconds_sum 5"));
  EXPECT_THAT(registry.expose(), HasSubstr("gnnjob_startup_duration_seconds_sum 7"));
  EXPECT_THAT(
      registry.expose(), HasSubstr("gnnjob_run_duration_seconds_sum{result=\"Complete\"} 100")
  );
  EXPECT_THAT(
      registry.expose(), HasSubstr("gnnjob_run_duration_seconds_count{result=\"Complete\"} 1")
  );
}

}  // namespace
}  // namespace gnn::app
