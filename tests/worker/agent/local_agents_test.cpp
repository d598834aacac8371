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

TEST(VisibleGpusOfNode, AreOthersOnEachNode) {
  EXPECT_EQ(visible_gpus_of_node(0, 2, std::nullopt), "0,1");
  EXPECT_EQ(visible_gpus_of_node(1, 2, std::nullopt), "2,3");
}

TEST(VisibleGpusOfNode, AreAmongThoseThatTheUserChose) {
  EXPECT_EQ(visible_gpus_of_node(0, 1, "GPU-5,3"), "GPU-5");
  EXPECT_EQ(visible_gpus_of_node(1, 1, "GPU-5,3"), "3");
  EXPECT_EQ(visible_gpus_of_node(1, 2, "4,5,6"), "6");
  EXPECT_EQ(visible_gpus_of_node(2, 1, "GPU-5,3"), "");
  EXPECT_EQ(visible_gpus_of_node(0, 1, ""), "");
}

}  // namespace
}  // namespace gnn::agent
