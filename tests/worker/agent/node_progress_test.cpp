#include "worker/agent/node_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <string>

namespace gnn::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

AgentOptions options_of_node_1() {
  AgentOptions options;
  options.job = "arxiv";
  options.node = 1;
  options.nodes = 2;
  options.processes_per_node = 2;
  return options;
}

class NodeProgressTest : public ::testing::Test {
 protected:
  void hear(const RankReport& report) { progress_.on_report(2, report, {}, {}); }
  [[nodiscard]] std::string page() const { return progress_.registry().expose(); }

  AgentOptions options_ = options_of_node_1();
  NodeProgress progress_{options_};
};

TEST_F(NodeProgressTest, ShowsTheDataPathOfARank) {
  RankReport report;
  report.steps = 1;
  report.step.data_path = {
      .feature_bytes = 4096,
      .sample_stall_seconds = 1.5,
      .copy_stall_seconds = 2.5,
      .training_stall_seconds = 3.5
  };
  hear(report);
  const std::string labels = "{job=\"arxiv\",node=\"1\",rank=\"2\"";
  EXPECT_THAT(page(), HasSubstr("gnn_feature_bytes_total" + labels + "} 4096\n"));
  const std::string stall = "gnn_loader_stall_seconds_total" + labels + ",stage=";
  EXPECT_THAT(page(), HasSubstr(stall + "\"sample\"} 1.5\n"));
  EXPECT_THAT(page(), HasSubstr(stall + "\"copy\"} 2.5\n"));
  EXPECT_THAT(page(), HasSubstr(stall + "\"train\"} 3.5\n"));
  EXPECT_THAT(page(), Not(HasSubstr("remote"))) << "the whole data set is on each node";
  EXPECT_THAT(page(), Not(HasSubstr("gnn_feature_rows_total")));

  report.marks = 5;
  report.remote = progress::RemoteData{};
  hear(report);
  const auto of_kind = [](const std::string& kind) {
    return "{job=\"arxiv\",kind=\"" + kind + "\",node=\"1\",rank=\"2\"} ";
  };
  const std::string lost = "gnn_remote_peers_lost_total" + labels + "} ";
  EXPECT_THAT(page(), HasSubstr(lost + "0\n"));
  EXPECT_THAT(page(), HasSubstr("gnn_remote_received_bytes_total" + of_kind("labels") + "0\n"));
  EXPECT_THAT(page(), Not(HasSubstr("gnn_feature_cache_expected_hit_ratio")));
  EXPECT_THAT(page(), Not(HasSubstr("gnn_remote_call_duration_seconds"))) << "no call yet";

  using progress::DataKind;
  report.remote->received_bytes[DataKind::Features] = 4000;
  report.remote->served_bytes[DataKind::Hops] = 70;
  report.remote->latency[DataKind::Features].observe(std::chrono::microseconds(200));
  report.remote->latency[DataKind::Features].observe(std::chrono::seconds(60));
  report.remote->calls_under_way = 3;
  report.remote->peers_lost = 1;
  report.remote->connections_refused = 2;
  report.remote->training = {.local = 50, .cache = 30, .remote = 8};
  report.remote->evaluation = {.local = 5, .cache = 0, .remote = 1};
  report.remote->cache_rows = 31;
  report.remote->expected_hit_rate = 0.75;
  hear(report);
  hear(report);
  EXPECT_THAT(
      page(), HasSubstr("gnn_remote_received_bytes_total" + of_kind("features") + "4000\n")
  );
  EXPECT_THAT(page(), HasSubstr("gnn_remote_served_bytes_total" + of_kind("hops") + "70\n"));
  const std::string calls = "gnn_remote_call_duration_seconds_";
  const std::string features = "{job=\"arxiv\",kind=\"features\",node=\"1\",rank=\"2\"";
  EXPECT_THAT(page(), HasSubstr(calls + "count" + features + "} 2\n"));
  EXPECT_THAT(page(), HasSubstr(calls + "bucket" + features + ",le=\"0.000128\"} 0\n"));
  EXPECT_THAT(page(), HasSubstr(calls + "bucket" + features + ",le=\"0.000256\"} 1\n"));
  EXPECT_THAT(page(), HasSubstr(calls + "bucket" + features + ",le=\"+Inf\"} 2\n"));
  EXPECT_THAT(page(), HasSubstr(calls + "sum" + features + "} 60.0002\n"));
  EXPECT_THAT(page(), HasSubstr("gnn_remote_calls_under_way" + labels + "} 3\n"));
  EXPECT_THAT(page(), HasSubstr(lost + "1\n"));
  EXPECT_THAT(page(), HasSubstr("gnn_remote_connections_refused_total" + labels + "} 2\n"));
  EXPECT_THAT(page(), HasSubstr("gnn_feature_cache_expected_hit_ratio" + labels + "} 0.75\n"));
  const auto rows = [](const std::string& origin, const std::string& use, int64_t count) {
    return "gnn_feature_rows_total{job=\"arxiv\",node=\"1\",origin=\"" + origin +
           "\",rank=\"2\",use=\"" + use + "\"} " + std::to_string(count) + "\n";
  };
  EXPECT_THAT(page(), HasSubstr(rows("local", "training", 50)));
  EXPECT_THAT(page(), HasSubstr(rows("cache", "training", 30)));
  EXPECT_THAT(page(), HasSubstr(rows("remote", "training", 8)));
  EXPECT_THAT(page(), HasSubstr(rows("local", "evaluation", 5)));
  EXPECT_THAT(page(), HasSubstr(rows("remote", "evaluation", 1)));
  EXPECT_THAT(page(), HasSubstr(rows("remote", "cache", 31)));

  report.marks = 1;  // the rank's next process
  report.remote->peers_lost = 2;
  hear(report);
  EXPECT_THAT(page(), HasSubstr(lost + "3\n"));
  EXPECT_THAT(page(), HasSubstr(calls + "count" + features + "} 4\n"));

  EXPECT_THAT(page(), Not(HasSubstr("gnn_served"))) << "no server makes its batches";
  report.served = progress::ServedData{
      .batches = 4, .bytes = 40, .under_way = 2, .failovers = 3, .waiting = true
  };
  report.served->seconds.gather = 1.5;
  hear(report);
  report.served->batches = 5;
  hear(report);
  EXPECT_THAT(page(), HasSubstr("gnn_served_batches_total" + labels + "} 5\n"));
  EXPECT_THAT(page(), HasSubstr("gnn_served_requests_under_way" + labels + "} 2\n"));
  EXPECT_THAT(page(), HasSubstr("gnn_served_bytes_total" + labels + "} 40\n"));
  EXPECT_THAT(page(), HasSubstr("gnn_served_failovers_total" + labels + "} 3\n"));
  EXPECT_THAT(page(), HasSubstr("gnn_served_waiting" + labels + "} 1\n"));
  const std::string gather = "gnn_served_batch_seconds_total" + labels + ",stage=\"gather\"} ";
  EXPECT_THAT(page(), HasSubstr(gather + "1.5\n"));
  report.marks = 0;  // the next process again
  report.served->batches = 1;
  hear(report);
  EXPECT_THAT(page(), HasSubstr("gnn_served_batches_total" + labels + "} 6\n"));

  progress_.on_servers(3);
  EXPECT_THAT(page(), HasSubstr("gnn_agent_servers{job=\"arxiv\",node=\"1\"} 3\n"));
}

TEST_F(NodeProgressTest, CountersContinueAfterARankRestarts) {
  RankReport report;
  report.steps = 10;
  report.step.data_path.feature_bytes = 1000;
  hear(report);
  report.steps = 1;
  report.step.data_path.feature_bytes = 100;
  hear(report);
  EXPECT_THAT(page(), HasSubstr("rank=\"2\"} 1100\n"));
  EXPECT_THAT(page(), HasSubstr("gnn_train_steps_total{job=\"arxiv\",node=\"1\",rank=\"2\"} 11\n"));
}

TEST_F(NodeProgressTest, CountsFailuresByReasonStartingAtZero) {
  const std::string name = "gnn_agent_rank_failures_total{job=\"arxiv\",node=\"1\",reason=";
  EXPECT_THAT(page(), HasSubstr(name + "\"Data\"} 0\n"));
  progress_.on_failure({.node = 1, .rank = 2, .exit_code = 65});
  EXPECT_THAT(page(), HasSubstr(name + "\"Data\"} 1\n"));
  EXPECT_THAT(page(), HasSubstr(name + "\"OutOfMemory\"} 0\n"));
}

TEST_F(NodeProgressTest, ShowsMemoryByOwner) {
  RankReport report;
  report.steps = 1;
  report.step.memory = {.graph = 11, .features = 12, .sampler = 13, .model = 14};
  hear(report);
  progress_.on_memory(2, 99);
  const std::string memory = "gnn_memory_bytes{job=\"arxiv\",node=\"1\",owner=";
  EXPECT_THAT(page(), HasSubstr(memory + "\"graph\",rank=\"2\"} 11\n"));
  EXPECT_THAT(page(), HasSubstr(memory + "\"features\",rank=\"2\"} 12\n"));
  EXPECT_THAT(page(), HasSubstr(memory + "\"sampler\",rank=\"2\"} 13\n"));
  EXPECT_THAT(page(), HasSubstr(memory + "\"model\",rank=\"2\"} 14\n"));
  EXPECT_THAT(page(), HasSubstr(memory + "\"total\",rank=\"2\"} 99\n"));
}

TEST_F(NodeProgressTest, CountsWhatTrackersWereToldOverRounds) {
  RankReport report;
  report.tracking["mlflow"] = {.written = 3, .dropped = 2, .failures = 1};
  hear(report);
  report.tracking["mlflow"] = {.written = 1};  // the rank's next process
  hear(report);
  const std::string labels = "{job=\"arxiv\",node=\"1\",rank=\"2\",tracker=\"mlflow\"} ";
  EXPECT_THAT(page(), HasSubstr("gnn_tracking_records_total" + labels + "4\n"));
  EXPECT_THAT(page(), HasSubstr("gnn_tracking_dropped_records_total" + labels + "2\n"));
  EXPECT_THAT(page(), HasSubstr("gnn_tracking_failures_total" + labels + "1\n"));
}

RankReport after_epoch(const progress::EpochReport& epoch) {
  RankReport report;
  report.steps = 1;
  report.epoch = epoch;
  return report;
}

// An epoch of link prediction: its batches count correct answers, evaluations measure the AUC.
progress::EpochReport epoch_of_links() {
  progress::EpochReport epoch;
  epoch.train = progress::accuracy(3, 4);
  return epoch;
}

progress::Measure auc(double value) {
  return {.metric = "auc", .value = value, .count = 8};
}

TEST_F(NodeProgressTest, ShowsEachSplitsMetricByItsName) {
  progress::EpochReport epoch = epoch_of_links();
  epoch.validation = auc(0.875);
  hear(after_epoch(epoch));
  const std::string labels = "gnn_train_metric{job=\"arxiv\",metric=";
  EXPECT_THAT(
      page(), HasSubstr(labels + "\"accuracy\",node=\"1\",rank=\"2\",split=\"train\"} 0.75\n")
  );
  EXPECT_THAT(
      page(), HasSubstr(labels + "\"auc\",node=\"1\",rank=\"2\",split=\"validation\"} 0.875\n")
  );
  EXPECT_THAT(page(), Not(HasSubstr("split=\"test\"")));
}

TEST_F(NodeProgressTest, KnowsNoMetricOfNothing) {
  progress::EpochReport epoch;
  epoch.validation = progress::accuracy(0, 0);
  hear(after_epoch(epoch));
  EXPECT_THAT(page(), Not(HasSubstr("gnn_train_metric")));
  EXPECT_FALSE(progress_.numbers().validation_metric);
}

TEST_F(NodeProgressTest, ItsNumbersAreOfOneMetric) {
  const JobNumbers& numbers = progress_.numbers();
  hear(after_epoch(epoch_of_links()));
  EXPECT_EQ(numbers.metric, "accuracy");
  EXPECT_EQ(numbers.train_metric, 0.75);

  progress::EpochReport evaluated = epoch_of_links();
  evaluated.validation = auc(0.875);
  hear(after_epoch(evaluated));
  EXPECT_EQ(numbers.metric, "auc");
  EXPECT_EQ(numbers.validation_metric, 0.875);
  EXPECT_FALSE(numbers.train_metric) << "an accuracy";

  hear(after_epoch(epoch_of_links()));
  EXPECT_EQ(numbers.metric, "auc") << "an epoch without an evaluation changes nothing";
  EXPECT_EQ(numbers.validation_metric, 0.875);

  evaluated.train_set = auc(0.9375);
  hear(after_epoch(evaluated));
  EXPECT_EQ(numbers.train_metric, 0.9375);
}

TEST_F(NodeProgressTest, TakesTheFinalNumbersOfTheFinalMetric) {
  RankReport report;
  report.final = progress::FinalReport{};
  report.final->metric = "auc";
  report.final->metrics = {{"train_accuracy", 0.5}, {"test_auc", 0.75}, {"test_auc_stddev", 0.1}};
  hear(report);
  EXPECT_EQ(progress_.numbers().metric, "auc");
  EXPECT_EQ(progress_.numbers().test_metric, 0.75);
  EXPECT_FALSE(progress_.numbers().train_metric);
}

TEST_F(NodeProgressTest, SaysWhichEpochIsBestAndWhoseTheTestIs) {
  progress::EpochReport epoch = epoch_of_links();
  epoch.validation = auc(0.875);
  epoch.best = progress::BestEpoch{.epoch = 3, .value = 0.9, .checkpoint = "/ckpt/best"};
  hear(after_epoch(epoch));
  const AgentOptions options = options_of_node_1();
  api::JobProgress shown = make_report(options, 0, progress_.numbers()).progress;
  EXPECT_EQ(shown.best_epoch, 4);
  EXPECT_EQ(shown.best_metric, "0.9");
  EXPECT_EQ(shown.best_checkpoint, "/ckpt/best");
  EXPECT_FALSE(shown.test_model);

  RankReport report;
  report.final = progress::FinalReport{};
  report.final->metric = "auc";
  report.final->test_model = "best";
  hear(report);
  shown = make_report(options, 0, progress_.numbers()).progress;
  EXPECT_EQ(shown.test_model, "best");
  EXPECT_EQ(shown.best_epoch, 4);
}

TEST_F(NodeProgressTest, ShowsTheLearningRateAndTheNormOfGradientsThatAreClipped) {
  RankReport report;
  report.steps = 1;
  report.step.learning_rate = 0.125;
  hear(report);
  const std::string labels = "{job=\"arxiv\",node=\"1\",rank=\"2\"} ";
  EXPECT_THAT(page(), HasSubstr("gnn_train_learning_rate" + labels + "0.125\n"));
  EXPECT_THAT(page(), Not(HasSubstr("gnn_train_gradient_norm")));
  report.step.gradient_norm = 2.5;
  hear(report);
  EXPECT_THAT(page(), HasSubstr("gnn_train_gradient_norm" + labels + "2.5\n"));
}

TEST_F(NodeProgressTest, NamesTheNewestCheckpointWhileTheRankTrains) {
  RankReport report;
  report.checkpoint_path = "/ckpt/a000001-r0000/step-000000000040.manifest";
  hear(report);
  EXPECT_EQ(progress_.numbers().checkpoint, report.checkpoint_path);
}

TEST_F(NodeProgressTest, ShowsCheckpointDurationsStartingAtZeroOnRankZero) {
  AgentOptions options = options_of_node_1();
  options.node = 0;
  NodeProgress node_0{options};
  node_0.on_report(0, RankReport{}, {}, {});
  node_0.on_report(1, RankReport{}, {}, {});
  const std::string count = "gnn_checkpoint_duration_seconds_count{job=\"arxiv\",node=\"0\",rank=";
  EXPECT_THAT(node_0.registry().expose(), HasSubstr(count + "\"0\"} 0\n"));
  EXPECT_THAT(node_0.registry().expose(), Not(HasSubstr(count + "\"1\"")));
}

TEST_F(NodeProgressTest, SaysNothingOfEpochsAndLossesWhereNothingIsTrained) {
  RankReport report;
  report.final.emplace();
  report.final->average_loss = std::nan("");
  report.final->metric = "accuracy";
  report.final->metrics = {{"test_accuracy", 0.75}};
  report.final->parameters_hash = "9ae16a3b2f90404f";
  hear(report);
  EXPECT_EQ(progress_.numbers().test_metric, 0.75);
  EXPECT_EQ(progress_.numbers().parameters_hash, "9ae16a3b2f90404f");
  EXPECT_FALSE(progress_.numbers().epochs || progress_.numbers().global_step);
  EXPECT_FALSE(progress_.numbers().loss.has_value());
}

// An alert asks for the increase of the failures: the first one shows only beside an earlier zero.
TEST_F(NodeProgressTest, CountsCheckpointsAndTheirFailuresStartingAtZero) {
  RankReport report;
  hear(report);
  const std::string labels = "{job=\"arxiv\",node=\"1\",rank=\"2\"} ";
  EXPECT_THAT(page(), HasSubstr("gnn_checkpoint_failures_total" + labels + "0\n"));
  EXPECT_THAT(page(), Not(HasSubstr("gnn_checkpoint_bytes"))) << "this rank writes none";
  report.checkpoint_durations = {0.25};
  report.checkpoint_bytes = 8192;
  report.checkpoint_failures = 1;
  hear(report);
  EXPECT_THAT(page(), HasSubstr("gnn_checkpoint_bytes" + labels + "8192\n"));
  EXPECT_THAT(page(), HasSubstr("gnn_checkpoint_failures_total" + labels + "1\n"));
  EXPECT_THAT(page(), HasSubstr("gnn_checkpoint_duration_seconds_count" + labels + "1\n"));
}

}  // namespace
}  // namespace gnn::agent
