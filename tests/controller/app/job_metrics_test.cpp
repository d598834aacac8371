#include "controller/app/job_metrics.h"

#include "controller/reconcile/conditions.h"
#include "tests/controller/reconcile/builders.h"
#include "tests/support/fake_clock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace gnn::app {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

void name_job(api::GnnJob& job) {
  job.metadata.name = "j";
  job.metadata.namespace_ = "ns";
  job.metadata.creation_timestamp = TimePoint(1000s);
}

// The beginning of a line of /metrics.
std::string restarts(const std::string& reason) {
  return R"(gnnjob_restarts_total{job="j",namespace="ns",reason=")" + reason + R"("} )";
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

TEST(JobMetrics, ShowsTheServersOfAJobThatHasSome) {
  MetricsRegistry registry;
  gnn::testing::FakeClock clock;
  JobMetrics metrics(registry, clock);
  api::GnnJob job;
  name_job(job);
  metrics.show(job);
  EXPECT_THAT(registry.expose(), Not(HasSubstr("gnnjob_servers{")));
  job.spec.servers.emplace();
  job.status.servers = api::ServerCounts{.desired = 3, .ready = 2, .restarts = 4};
  metrics.show(job);
  for (const char* line :
       {R"(gnnjob_servers{job="j",namespace="ns",state="desired"} 3)",
        R"(gnnjob_servers{job="j",namespace="ns",state="ready"} 2)",
        R"(gnnjob_server_restarts_total{job="j",namespace="ns"} 4)"}) {
    EXPECT_THAT(registry.expose(), HasSubstr(line));
  }
}

TEST(JobMetrics, ShowsTheGpusOfAJobThatHasNotEndedAndWhetherTheyAreIdle) {
  MetricsRegistry registry;
  gnn::testing::FakeClock clock;
  JobMetrics metrics(registry, clock);
  api::GnnJob job;
  name_job(job);
  job.spec.workers.nodes = 3;
  job.spec.workers.processes_per_node = 2;
  metrics.show(job);
  EXPECT_THAT(registry.expose(), Not(HasSubstr("gnnjob_gpus{")));
  job.spec.workers.gpus_per_process = 1;
  metrics.show(job);
  EXPECT_THAT(
      registry.expose(), HasSubstr(R"(gnnjob_gpus{job="j",namespace="ns",state="requested"} 6)")
  );
  EXPECT_THAT(
      registry.expose(), HasSubstr(R"(gnnjob_gpus{job="j",namespace="ns",state="idle"} 0)")
  );
  job.spec.training.device = api::DeviceChoice::CPU;
  metrics.show(job);
  EXPECT_THAT(
      registry.expose(), HasSubstr(R"(gnnjob_gpus{job="j",namespace="ns",state="idle"} 6)")
  );
  job.status.conditions = {condition("Failed", "True", 1010s)};
  job.status.completion_time = clock.now();
  metrics.show(job);
  EXPECT_THAT(registry.expose(), Not(HasSubstr("gnnjob_gpus{")));
}

TEST(JobMetrics, ShowsTrainingOnlyWhileTheJobRuns) {
  MetricsRegistry registry;
  gnn::testing::FakeClock clock;
  JobMetrics metrics(registry, clock);
  api::GnnJob running;
  name_job(running);
  running.status.conditions = {
      condition("Running", "True", 1010s), condition("Reconciling", "True", 1010s)
  };
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
  EXPECT_THAT(registry.expose(), ::testing::Not(HasSubstr("Reconciling")));
  EXPECT_THAT(
      registry.expose(), HasSubstr("gnnjob_nodes{job=\"j\",namespace=\"ns\",state=\"desired\"} 4")
  );
  EXPECT_THAT(registry.expose(), HasSubstr("gnnjob_loss{job=\"j\",namespace=\"ns\"} 0.25"));
  EXPECT_THAT(
      registry.expose(),
      HasSubstr(
          "gnnjob_metric{job=\"j\",metric=\"accuracy\",namespace=\"ns\",split=\"validation\"} 0.5"
      )
  );

  running.status.conditions = {
      condition("Running", "False", 1020s), condition("Complete", "True", 1020s)
  };
  metrics.show(running);
  EXPECT_THAT(registry.expose(), Not(HasSubstr("gnnjob_loss{")));
  EXPECT_THAT(registry.expose(), Not(HasSubstr("gnnjob_metric{")));
}

TEST(JobMetrics, NoWordThatAPodReportsIsALabel) {
  MetricsRegistry registry;
  gnn::testing::FakeClock clock;
  JobMetrics metrics(registry, clock);
  api::GnnJob job;
  name_job(job);
  job.status.conditions = {condition("Running", "True", 1010s)};
  job.status.progress = api::JobProgress{};
  job.status.progress->validation_metric = "0.5";
  const auto words = [&] {
    std::set<std::string> found;
    const std::string text = registry.expose();
    for (size_t at = text.find("gnnjob_metric{"); at != std::string::npos;
         at = text.find("gnnjob_metric{", at + 1)) {
      const size_t begin = text.find("metric=\"", at) + 8;
      found.insert(text.substr(begin, text.find('"', begin) - begin));
    }
    return found;
  };
  for (int i = 0; i < 3; ++i) {
    job.status.progress->metric_name = "word" + std::to_string(i);
    metrics.show(job);
    EXPECT_EQ(words(), std::set<std::string>{"accuracy"});
  }
  api::Evaluation& evaluation = job.spec.training.evaluation;
  evaluation.hits_k = 20;
  for (const auto& [metric, word] : std::map<api::Metric, std::string>{
           {api::Metric::AUC, "auc"},
           {api::Metric::AveragePrecision, "average_precision"},
           {api::Metric::Hits, "hits@20"},
           {api::Metric::MRR, "mrr"}
       }) {
    evaluation.metric = metric;
    metrics.show(job);
    EXPECT_EQ(words(), std::set<std::string>{word});
  }
}

TEST(JobMetrics, ShowsAJobForSomeTimeAfterItsEnd) {
  MetricsRegistry registry;
  gnn::testing::FakeClock clock;
  JobMetrics metrics(registry, clock);
  api::GnnJob finished;
  name_job(finished);
  finished.status.conditions = {condition("Complete", "True", 1020s)};
  finished.status.completion_time = clock.now();
  metrics.show(finished);
  clock.advance(JobMetrics::kShownAfterEnd - 1s);
  EXPECT_THAT(
      registry.expose(),
      HasSubstr(
          "gnnjob_condition{condition=\"Complete\",job=\"j\",namespace=\"ns\",status=\"True\"} 1"
      )
  );
  clock.advance(1s);
  EXPECT_THAT(registry.expose(), Not(HasSubstr("job=\"j\"")));
  metrics.show(finished);
  EXPECT_THAT(registry.expose(), Not(HasSubstr("job=\"j\""))) << "a later pass";
}

// Alerts use increase(): the first restart shows only after a zero.
TEST(JobMetrics, CountsRestartsByReasonFromZero) {
  MetricsRegistry registry;
  gnn::testing::FakeClock clock;
  JobMetrics metrics(registry, clock);
  api::GnnJob fresh;
  name_job(fresh);
  metrics.show(fresh);
  for (const char* reason : {"Error", "OutOfMemory", "PeerLost", "RestartedInPlace"}) {
    EXPECT_THAT(registry.expose(), HasSubstr(restarts(reason) + "0\n"));
  }
}

// The status after one node of the current attempt has exited with `code`.
api::GnnJobStatus after_exit(const reconcile::Observed& before, int64_t code) {
  reconcile::Observed seen = before;
  reconcile::end_container(seen.pods[1], code, "", seen.now);
  if (code == contract::kExitPeerLost) {
    reconcile::end_container(seen.pods[0], code, "", seen.now);
  }
  return reconcile::plan(seen).status;
}

TEST(JobMetrics, CountsOnlyChargedAttempts) {
  const reconcile::Observed running = reconcile::running();
  const std::string job = "{job=\"" + running.job.metadata.name + "\",namespace=\"" +
                          running.job.metadata.namespace_ + "\",reason=";
  for (const auto& [code, reason] : std::map<int, std::string>{
           {contract::kExitOther, "Error"},
           {contract::kExitOutOfMemory, "OutOfMemory"},
           {contract::kExitPeerLost, "PeerLost"},
       }) {
    MetricsRegistry registry;
    gnn::testing::FakeClock clock;
    JobMetrics metrics(registry, clock);
    metrics.show(running.job);
    const std::string zeros = registry.expose();
    metrics.count_change(running.job, after_exit(running, code));
    const std::string series = "gnnjob_restarts_total" + job + "\"" + reason + "\"} ";
    EXPECT_THAT(zeros, HasSubstr(series + "0\n")) << "increase() needs a zero first";
    EXPECT_THAT(registry.expose(), HasSubstr(series + "1\n"));
  }
  MetricsRegistry registry;
  gnn::testing::FakeClock clock;
  JobMetrics metrics(registry, clock);
  metrics.show(running.job);
  reconcile::Observed evicted = running;
  evicted.pods[1].status.phase = "Failed";
  evicted.pods[1].status.reason = "Evicted";
  const api::GnnJobStatus after = reconcile::plan(evicted).status;
  ASSERT_EQ(after.attempt, 2);
  metrics.count_change(running.job, after);
  EXPECT_THAT(registry.expose(), Not(ContainsRegex(R"(gnnjob_restarts_total\{[^}]*\} [1-9])")));
}

// Restarts in place do not count for the failure that ends the attempt, nor later ones for the last
// failure.
TEST(JobMetrics, TellsRestartsInPlaceFromNewAttempts) {
  MetricsRegistry registry;
  gnn::testing::FakeClock clock;
  JobMetrics metrics(registry, clock);
  api::GnnJob running;
  name_job(running);
  running.status.attempt = 1;
  api::GnnJobStatus after;
  after.attempt = 2;
  after.restarts = 3;
  after.failures = {{.attempt = 1, .reason = "OutOfMemory", .charged = true}};
  metrics.count_change(running, after);
  EXPECT_THAT(registry.expose(), HasSubstr(restarts("OutOfMemory") + "1\n"));
  EXPECT_THAT(registry.expose(), HasSubstr(restarts("RestartedInPlace") + "2\n"));
  running.status = after;
  after.restarts = 4;
  after.round = 1;
  metrics.count_change(running, after);
  EXPECT_THAT(registry.expose(), HasSubstr(restarts("OutOfMemory") + "1\n"));
  EXPECT_THAT(registry.expose(), HasSubstr(restarts("RestartedInPlace") + "3\n"));
}

TEST(JobMetrics, RemovesAllSeriesWithTheJob) {
  MetricsRegistry registry;
  gnn::testing::FakeClock clock;
  JobMetrics metrics(registry, clock);
  api::GnnJob fresh;
  name_job(fresh);
  metrics.show(fresh);
  api::GnnJobStatus after;
  after.restarts = 2;
  metrics.count_change(fresh, after);
  EXPECT_THAT(registry.expose(), HasSubstr(restarts("RestartedInPlace") + "2\n"));
  metrics.remove("ns", "j");
  EXPECT_THAT(registry.expose(), Not(HasSubstr("job=\"j\"")));
}

TEST(JobMetrics, MeasuresQueueStartupAndRunFromZero) {
  MetricsRegistry registry;
  gnn::testing::FakeClock clock;
  JobMetrics metrics(registry, clock);
  EXPECT_THAT(registry.expose(), HasSubstr("gnnjob_queue_duration_seconds_count 0"));
  EXPECT_THAT(registry.expose(), HasSubstr("gnnjob_startup_duration_seconds_count 0"));
  EXPECT_THAT(
      registry.expose(), HasSubstr("gnnjob_run_duration_seconds_count{result=\"Failed\"} 0")
  );
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
