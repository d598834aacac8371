#include "worker/agent/job_numbers.h"

#include "tests/support/schema.h"
#include "tests/support/source_dir.h"
#include "tests/worker/agent/sample_report.h"
#include "worker/progress/progress_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace gnn::agent {
namespace {

using nlohmann::json;
using testing::all_numbers;
using ::testing::IsEmpty;
using testing::Keys;
using testing::options;
using ::testing::UnorderedElementsAreArray;

const std::string kProgressSchema = gnn::testing::source_dir() + "/docs/schemas/progress.v1.json";

TEST(Progress, IsADocumentOfItsSchemaAndUsesAllOfIt) {
  const gnn::testing::Schema schema(kProgressSchema);
  Keys keys;
  std::vector<std::string> phases{"Rendezvous", "Leaving"};
  for (const auto phase :
       {progress::Phase::Setup,
        progress::Phase::Train,
        progress::Phase::Validate,
        progress::Phase::Test,
        progress::Phase::Checkpoint,
        progress::Phase::Done})
    phases.emplace_back(to_string(phase));
  for (const auto& phase : phases)
    for (const auto& numbers : {JobNumbers{}, all_numbers()})
      for (const double rate : {0.0, 0.25, 123456789.0}) {
        AgentOptions first = options();
        first.node = 0;
        first.node_restart = 0;
        const AgentState state{
            .round = 1, .phase = phase, .items_per_second = rate, .awaited_node = 1
        };
        const auto text = encode_progress(first, state, numbers);
        EXPECT_THAT(schema.problems(text), IsEmpty()) << text;
        keys.add(text);
      }
  // These are of a pod that prepares data.
  std::vector<std::string> properties = schema.properties();
  std::erase(properties, "doing");
  std::erase(properties, "percent");
  EXPECT_THAT(keys.seen(), UnorderedElementsAreArray(properties));
}

TEST(Progress, HoldsOnlyWhatIsKnown) {
  const auto early = json::parse(encode_progress(options(), {.phase = "Rendezvous"}, {}));
  EXPECT_EQ(early.at("phase"), "Rendezvous");
  EXPECT_FALSE(early.contains("loss"));
  JobNumbers numbers;
  numbers.epoch = 2;
  numbers.loss = 1.25;
  numbers.eta_seconds = 60;
  const AgentState state{.round = 1, .phase = "Train", .items_per_second = 1000};
  const auto later = json::parse(encode_progress(options(), state, numbers));
  EXPECT_EQ(later.at("loss"), "1.25");
  EXPECT_EQ(later.at("rate"), "1000");
  EXPECT_EQ(later.at("etaSeconds"), 60);
}

TEST(Progress, SaysThatNodesCanRestartOnlyWhereTheControllerReplacesThem) {
  AgentOptions first = options();
  first.node = 0;
  EXPECT_FALSE(json::parse(encode_progress(first, {}, {})).contains("restartsNodes"));
  first.node_restart = 0;
  const auto page = json::parse(encode_progress(first, {}, {}));
  EXPECT_EQ(page.at("restartsNodes"), true);
  EXPECT_FALSE(page.contains("awaitedNode"));
}

TEST(MakeReport, LeavesOutWhatOnlyAPageShows) {
  const api::ProgressReport report = make_report(options(), 3, all_numbers());
  EXPECT_EQ(report.job_uid, "6f0c");
  EXPECT_EQ(report.attempt, 2);
  EXPECT_EQ(report.round, 3);
  EXPECT_EQ(report.node, 1);
  EXPECT_EQ(report.progress.loss, "1.0731");
  EXPECT_FALSE(report.progress.rate);
  EXPECT_FALSE(report.progress.eta_seconds);
}

}  // namespace
}  // namespace gnn::agent
