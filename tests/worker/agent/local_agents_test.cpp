#include "worker/agent/local_agents.h"

#include "common/contract.h"

#include <gtest/gtest.h>

namespace gnn::agent {
namespace {

TEST(RunAgentsLocally, RejectsAWrongTimeOutBeforeAnyAgentStarts) {
  const LocalJob job{.environment = {{"GNN_PEER_TIMEOUT", "abc"}}, .rank_command = {"rank"}};
  const ConnectorFactory never = [](const AgentOptions&, int) -> StoreConnector {
    ADD_FAILURE() << "no agent starts";
    return {};
  };
  EXPECT_EQ(run_agents_locally(job, never), contract::kExitConfiguration);
}

}  // namespace
}  // namespace gnn::agent
