#include "worker/agent/messages.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace gnn::agent {
namespace {

TEST(Messages, ARankReportSurvivesTheRoundTrip) {
  RankReport report;
  report.phase = progress::Phase::Validate;
  report.marks = 7;
  report.in_collective = true;
  report.collectives_done = 12;
  report.step.global_step = 42;
  report.step.loss = 0.25;
  report.step.learning_rate = 0.125;
  report.step.gradient_norm = 2.5;
  report.step.data_path = {
      .feature_bytes = 4096,
      .sample_stall_seconds = 1.5,
      .copy_stall_seconds = 2.5,
      .training_stall_seconds = 3.5
  };
  report.step.memory = {.graph = 1, .features = 2, .sampler = 3, .model = 4};
  report.checkpoint_path = "/ckpt/a000001-r0000/step-000000000040.manifest";
  report.checkpoint_bytes = 8192;
  report.checkpoint_failures = 2;
  report.checked_version = "sha256:12";
  report.items = 1024;
  report.seconds.backward = 1.5;
  report.epoch = progress::EpochReport{};
  report.epoch->average_loss = 0.5;
  report.epoch->train_set = progress::accuracy(5, 6);
  report.epoch->validation = progress::Measure{.metric = "auc", .value = 0.1 + 0.2, .count = 4};
  report.epoch->test = progress::Measure{.metric = "auc", .count = 9};
  report.epoch->best = progress::BestEpoch{.epoch = 3, .value = 0.75, .checkpoint = "/ckpt/best"};
  report.final = progress::FinalReport{};
  report.final->test_model = "best";
  report.final->best = progress::BestEpoch{.epoch = 4, .value = 0.5};
  report.final->metric = "accuracy";
  report.final->metrics["test_accuracy"] = 0.7;
  report.final->remote = progress::RemoteSummary{.bytes_per_step = 4096, .expected_hit_rate = 0.5};
  report.remote = progress::RemoteData{};
  report.remote->served_bytes[progress::DataKind::Layers] = 31;
  report.remote->received_bytes[progress::DataKind::Hops] = 32;
  report.remote->latency[progress::DataKind::Hops].observe(std::chrono::microseconds(50));
  report.remote->calls_under_way = 33;
  report.remote->peers_lost = 34;
  report.remote->connections_refused = 35;
  report.remote->training = {.local = 36, .cache = 37, .remote = 38};
  report.remote->evaluation.remote = 39;
  report.remote->cache_rows = 40;
  report.remote->training_bytes = 41;
  report.remote->expected_hit_rate = 0.25;
  report.served = progress::ServedData{
      .batches = 51,
      .bytes = 52,
      .under_way = 53,
      .failovers = 54,
      .waiting = true,
      .gave_up = true,
      .seconds = {.queue = 1.5, .sample = 2.5, .gather = 3.5, .wire = 4.5}
  };
  report.tracking = {{"mlflow", {.written = 61, .dropped = 62, .failures = 63}}, {"other", {}}};
  const auto decoded = decode_rank_message(encode(report));
  ASSERT_TRUE(decoded) << decoded.error().message;
  ASSERT_TRUE(decoded->report);
  const auto& found = *decoded->report;
  const progress::TrackingData trackers{{"mlflow", {.written = 61, .dropped = 62, .failures = 63}}};
  EXPECT_EQ(found.tracking, trackers) << "of trackers that it knows";
  EXPECT_EQ(found.phase, progress::Phase::Validate);
  EXPECT_EQ(found.marks, 7);
  EXPECT_TRUE(found.in_collective);
  EXPECT_EQ(found.collectives_done, 12);
  EXPECT_EQ(found.step.global_step, 42);
  EXPECT_EQ(found.step.loss, 0.25);
  EXPECT_EQ(found.step.learning_rate, 0.125);
  EXPECT_EQ(found.step.gradient_norm, 2.5);
  EXPECT_EQ(found.step.data_path.feature_bytes, 4096);
  EXPECT_EQ(found.step.data_path.sample_stall_seconds, 1.5);
  EXPECT_EQ(found.step.data_path.copy_stall_seconds, 2.5);
  EXPECT_EQ(found.step.data_path.training_stall_seconds, 3.5);
  EXPECT_EQ(found.step.memory.graph, 1);
  EXPECT_EQ(found.step.memory.features, 2);
  EXPECT_EQ(found.step.memory.sampler, 3);
  EXPECT_EQ(found.step.memory.model, 4);
  EXPECT_EQ(found.checkpoint_path, report.checkpoint_path);
  EXPECT_EQ(found.checkpoint_bytes, 8192);
  EXPECT_EQ(found.checkpoint_failures, 2);
  EXPECT_EQ(found.checked_version, "sha256:12");
  EXPECT_EQ(found.items, 1024);
  EXPECT_EQ(found.seconds.backward, 1.5);
  EXPECT_EQ(found.epoch->train_set, report.epoch->train_set);
  EXPECT_EQ(found.epoch->validation, report.epoch->validation);
  ASSERT_TRUE(found.epoch->test);
  EXPECT_TRUE(std::isnan(found.epoch->test->value));
  EXPECT_EQ(found.epoch->test->count, 9);
  ASSERT_TRUE(found.epoch->best && found.final->best);
  EXPECT_EQ(found.epoch->best->epoch, 3);
  EXPECT_EQ(found.epoch->best->value, 0.75);
  EXPECT_EQ(found.epoch->best->checkpoint, "/ckpt/best");
  EXPECT_EQ(found.final->best->epoch, 4);
  EXPECT_EQ(found.final->test_model, "best");
  EXPECT_EQ(found.final->metric, "accuracy");
  EXPECT_EQ(found.final->metrics.at("test_accuracy"), 0.7);
  ASSERT_TRUE(found.final->remote);
  EXPECT_EQ(found.final->remote->bytes_per_step, 4096);
  EXPECT_TRUE(std::isnan(found.final->remote->hit_rate));
  EXPECT_EQ(found.final->remote->expected_hit_rate, 0.5);
  ASSERT_TRUE(found.remote);
  EXPECT_EQ(found.remote->served_bytes[progress::DataKind::Layers], 31);
  EXPECT_EQ(found.remote->received_bytes[progress::DataKind::Hops], 32);
  const LatencyHistogram& latency = found.remote->latency[progress::DataKind::Hops];
  EXPECT_EQ(latency.counts, report.remote->latency[progress::DataKind::Hops].counts);
  EXPECT_EQ(latency.sum, std::chrono::microseconds(50));
  EXPECT_EQ(found.remote->calls_under_way, 33);
  EXPECT_EQ(found.remote->peers_lost, 34);
  EXPECT_EQ(found.remote->connections_refused, 35);
  EXPECT_EQ(found.remote->training.local, 36);
  EXPECT_EQ(found.remote->training.cache, 37);
  EXPECT_EQ(found.remote->training.remote, 38);
  EXPECT_EQ(found.remote->evaluation.remote, 39);
  EXPECT_EQ(found.remote->cache_rows, 40);
  EXPECT_EQ(found.remote->training_bytes, 41);
  EXPECT_EQ(found.remote->expected_hit_rate, 0.25);
  ASSERT_TRUE(found.served);
  EXPECT_EQ(found.served->batches, 51);
  EXPECT_EQ(found.served->bytes, 52);
  EXPECT_EQ(found.served->under_way, 53);
  EXPECT_EQ(found.served->failovers, 54);
  EXPECT_TRUE(found.served->waiting);
  EXPECT_TRUE(found.served->gave_up);
  EXPECT_EQ(found.served->seconds.queue, 1.5);
  EXPECT_EQ(found.served->seconds.sample, 2.5);
  EXPECT_EQ(found.served->seconds.gather, 3.5);
  EXPECT_EQ(found.served->seconds.wire, 4.5);
}

TEST(Messages, APartThatWasNotEvaluatedStaysSo) {
  RankReport report;
  report.epoch = progress::EpochReport{};
  const auto decoded = decode_rank_message(encode(report));
  ASSERT_TRUE(decoded) << decoded.error().message;
  const progress::EpochReport& epoch = *decoded->report->epoch;
  EXPECT_FALSE(epoch.train_set || epoch.validation || epoch.test);
}

TEST(Messages, NoVersionOfDataIsLongOrHasSigns) {
  for (const std::string& version :
       {std::string(kLongestVersion + 1, 'a'), std::string("a\0b", 3), std::string("a\nb")}) {
    RankReport report;
    report.checked_version = version;
    EXPECT_EQ(decode_rank_message(encode(report))->report->checked_version, "");
  }
}

TEST(Messages, ALossOfNanStaysNan) {
  RankReport report;
  report.step.loss = std::numeric_limits<double>::quiet_NaN();
  const auto decoded = decode_rank_message(encode(report));
  ASSERT_TRUE(decoded);
  EXPECT_TRUE(std::isnan(decoded->report->step.loss));
}

TEST(Messages, EveryAgentPhaseSurvivesTheRoundTrip) {
  for (const AgentPhase phase :
       {AgentPhase::Ready,
        AgentPhase::Running,
        AgentPhase::Done,
        AgentPhase::Stopped,
        AgentPhase::Failed,
        AgentPhase::Left,
        AgentPhase::Unstarted}) {
    const auto decoded = decode_node_report(encode(NodeReport{.phase = phase}));
    ASSERT_TRUE(decoded) << decoded.error().message;
    EXPECT_EQ(decoded->phase, phase);
  }
}

TEST(Messages, NodeReportsAndDirectivesSurviveTheRoundTrip) {
  NodeReport report{
      .node = 2, .beat = 9, .round = 1, .phase = AgentPhase::Failed, .stop_requested = true
  };
  report.failure = Failure{
      .node = 2, .rank = 5, .exit_code = 70, .signal = 9, .follow_on = true, .reason = "Error"
  };
  report.failure->stderr_tail = "bytes \xff\xfe";
  const auto decoded = decode_node_report(encode(report));
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(decoded->phase, AgentPhase::Failed);
  EXPECT_EQ(decoded->beat, 9);
  EXPECT_TRUE(decoded->stop_requested);
  EXPECT_EQ(decoded->failure->signal, 9);
  EXPECT_TRUE(decoded->failure->follow_on);

  for (const auto kind :
       {DirectiveKind::Prepare, DirectiveKind::Run, DirectiveKind::Stop, DirectiveKind::Leave}) {
    const Directive directive{
        .kind = kind,
        .round = 3,
        .exit_code = 75,
        .message = "why",
        .restarts = {{1, 2}, {12, 1}},
        .servers = {{.server = 0, .restart = 2, .address = "10.0.0.7:29600"}}
    };
    EXPECT_EQ(decode_directive(encode(directive)).value(), directive);
  }
}

// The list of `servers` as a directive and as a message to ranks.
bool is_refused(const std::vector<LiveServer>& servers) {
  Directive directive;
  directive.servers = servers;
  const bool refused = !decode_agent_message(encode(servers));
  EXPECT_EQ(!decode_directive(encode(directive)), refused);
  return refused;
}

TEST(Messages, AServerIsRefusedThatBreaksABoundOrIsAnother) {
  const ServerReport report{
      .server = {.server = 3, .restart = 1, .address = "[fd00::7]:29600"},
      .beat = 4,
      .leaving = true
  };
  EXPECT_EQ(decode_server_report(encode(report), 3).value(), report);
  EXPECT_FALSE(decode_server_report(encode(report), 2));
  EXPECT_FALSE(decode_server_report(encode(report) + std::string(kLongestServerReport, ' '), 3));
  EXPECT_EQ(
      decode_agent_message(encode(std::vector{report.server})).value().servers->at(0), report.server
  );

  const std::string long_name(kLongestServerAddress - 5, 'a');
  const LiveServer longest{.server = kMostServers - 1, .address = long_name + ":9999"};
  const std::vector<LiveServer> most(static_cast<size_t>(kMostServers), longest);
  EXPECT_FALSE(is_refused(most));
  EXPECT_LT(encode(most).size(), kLongestAgentMessage);
  std::vector<LiveServer> more = most;
  more.push_back(longest);
  EXPECT_TRUE(is_refused(more));
  EXPECT_TRUE(is_refused({{.server = kMostServers, .address = "a:1"}}));
  EXPECT_TRUE(is_refused({{.server = -1, .address = "a:1"}}));
  EXPECT_TRUE(is_refused({{.server = 0, .restart = -1, .address = "a:1"}}));
  EXPECT_TRUE(is_refused({{.server = 0, .restart = 1'000'001, .address = "a:1"}}));
  for (const std::string& address :
       {std::string(),
        std::string("a"),
        std::string(":1"),
        std::string("a:0"),
        std::string("a b:1"),
        std::string("a\n:1"),
        long_name + "a:9999"})
    EXPECT_TRUE(is_refused({{.server = 0, .address = address}})) << address;
  for (const char* text :
       {"{\"servers\":1}", "{\"servers\":[1]}", "{\"servers\":[[0]]}", "[]", "stop "})
    EXPECT_FALSE(decode_agent_message(text).value_or(AgentMessage{}).servers) << text;
}

TEST(Messages, AReportWithoutMarksHasNone) {
  EXPECT_EQ(decode_node_report(encode(NodeReport{.marks = 8})).value().marks, 8);
  const auto decoded = decode_node_report(R"({"node":1,"beat":2,"round":0,"phase":"running"})");
  EXPECT_EQ(decoded.value().marks, 0);
}

TEST(MarksOfRound, AreThoseOfItsRanksAlone) {
  EXPECT_EQ(
      marks_of_round(
          {NodeReport{.round = 1, .marks = 5},
           std::nullopt,
           NodeReport{.round = 0, .marks = 100},
           NodeReport{.round = 1, .marks = 7}},
          1
      ),
      12
  );
}

TEST(Messages, RejectsWhatIsNotAMessage) {
  for (const char* text :
       {"", "{", "[]", "1", "{\"report\":1}", "{\"report\":{\"phase\":7}}", "\xff"}) {
    EXPECT_FALSE(decode_rank_message(text)) << text;
    EXPECT_FALSE(decode_node_report(text)) << text;
    EXPECT_FALSE(decode_directive(text)) << text;
    EXPECT_FALSE(decode_server_report(text, 0)) << text;
  }
}

}  // namespace
}  // namespace gnn::agent
