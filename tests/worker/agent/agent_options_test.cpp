#include "worker/agent/agent_options.h"

#include "common/api/environment.h"
#include "common/api/fields.h"
#include "common/contract.h"
#include "worker/agent/messages.h"
#include "worker/agent/server_options.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace gnn::agent {
namespace {

using namespace std::chrono_literals;

using Variables = std::map<std::string, std::string>;

rendezvous::EnvironmentLookup lookup_in(const Variables& variables) {
  return [&variables](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(std::string(name));
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

// What the controller sets for the only node of a job, and `own` beside it.
Result<AgentOptions> parsed_with(const Variables& own) {
  Variables variables = {
      {"GNN_CONTRACT", std::to_string(contract::kVersion)},
      {"GNN_JOB", "arxiv"},
      {"GNN_JOB_UID", "6f0c"},
      {"GNN_ATTEMPT", "1"},
      {"GNN_NNODES", "1"},
      {"GNN_NODE_RANK", "0"},
      {"GNN_NPROC_PER_NODE", "2"},
      {"MASTER_ADDR", "arxiv-0.arxiv-gnn"},
  };
  for (const auto& [name, value] : own) variables[name] = value;
  return parse_agent_options(lookup_in(variables), {"rank"});
}

Variables variables_of(const api::StageTimeouts& timeouts) {
  Variables variables;
  for (const api::EnvVar& timeout : api::timeout_environment(timeouts))
    variables[timeout.name] = timeout.value.value_or("");
  return variables;
}

TEST(AgentOptions, LetRanksWaitForEachOtherLongerThanAnyStageMayTake) {
  const auto options = parsed_with(
      variables_of({.setup_seconds = 900, .step_seconds = 7200, .checkpoint_seconds = 3600})
  );
  ASSERT_TRUE(options.has_value()) << options.error().message;
  EXPECT_EQ(options->timeouts.step, 7200s);
  EXPECT_GT(options->collective_timeout, 7200s);
}

TEST(AgentOptions, WaitForASilentPeerAsLongAsTheJobSays) {
  const auto options = parsed_with(variables_of({.peer_seconds = 120}));
  ASSERT_TRUE(options.has_value()) << options.error().message;
  EXPECT_EQ(options->peer_timeout, 120s);
}

TEST(AgentOptions, HaveAJobsTimeoutsByDefault) {
  const auto untold = parsed_with({});
  const auto told = parsed_with(variables_of({}));
  ASSERT_TRUE(untold.has_value() && told.has_value());
  EXPECT_EQ(untold->rendezvous_timeout, told->rendezvous_timeout);
  EXPECT_EQ(untold->timeouts.setup, told->timeouts.setup);
  EXPECT_EQ(untold->timeouts.step, told->timeouts.step);
  EXPECT_EQ(untold->timeouts.evaluation, told->timeouts.evaluation);
  EXPECT_EQ(untold->timeouts.checkpoint, told->timeouts.checkpoint);
  EXPECT_EQ(untold->collective_timeout, told->collective_timeout);
  EXPECT_EQ(untold->peer_timeout, told->peer_timeout);
}

TEST(AgentOptions, TakesTheLongestTimeoutsThatAJobMaySet) {
  constexpr int64_t kYear = 31'536'000;  // the CRD's maximum
  const auto options = parsed_with(variables_of(
      {.rendezvous_seconds = kYear,
       .setup_seconds = kYear,
       .step_seconds = kYear,
       .checkpoint_seconds = kYear,
       .peer_seconds = api::kMaxPeerSeconds}
  ));
  ASSERT_TRUE(options.has_value()) << options.error().message;
  EXPECT_EQ(options->timeouts.setup, std::chrono::seconds(kYear));
  EXPECT_EQ(options->peer_timeout, std::chrono::seconds(api::kMaxPeerSeconds));
}

TEST(AgentOptions, NamesAMalformedTimeout) {
  const auto options = parsed_with({{"GNN_PEER_TIMEOUT", "abc"}});
  ASSERT_FALSE(options.has_value());
  EXPECT_EQ(options.error().kind, ErrorKind::Configuration);
  EXPECT_NE(options.error().message.find("GNN_PEER_TIMEOUT"), std::string::npos);
}

TEST(ServerOptions, AreReadAsTheControllerWritesThemOrTheirVariableIsNamed) {
  const Variables variables = {
      {"GNN_CONTRACT", std::to_string(contract::kVersion)},
      {"GNN_JOB", "arxiv"},
      {"GNN_JOB_UID", "6f0c"},
      {"GNN_SERVER", std::to_string(kMostServers - 1)},
      {"GNN_SERVER_RESTART", "2"},
      {"GNN_NNODES", "4"},
      {"GNN_NPROC_PER_NODE", "2"},
      {"GNN_GRACE_SECONDS", "40"},
      {"GNN_PEER_TIMEOUT", "7"},
      {"MASTER_ADDR", "arxiv-0.arxiv-gnn"},
  };
  const auto options = parse_server_options(lookup_in(variables));
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->server(), kMostServers - 1);
  EXPECT_EQ(options->restart, 2);
  EXPECT_EQ(options->pod.world_size(), 8);
  EXPECT_EQ(options->pod.grace, 40s);
  EXPECT_EQ(options->pod.peer_timeout, 7s);
  const auto expect_named = [](Variables wrong, const std::string& name) {
    const auto refused = parse_server_options(lookup_in(wrong));
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().kind, ErrorKind::Configuration);
    EXPECT_NE(refused.error().message.find(name), std::string::npos) << refused.error().message;
  };
  for (const auto* name : {"GNN_CONTRACT", "GNN_SERVER", "GNN_SERVER_RESTART", "MASTER_ADDR"}) {
    Variables without = variables;
    without.erase(name);
    expect_named(without, name);
  }
  Variables beyond = variables;
  beyond["GNN_SERVER"] = std::to_string(kMostServers);
  expect_named(beyond, "GNN_SERVER");
}

}  // namespace
}  // namespace gnn::agent
