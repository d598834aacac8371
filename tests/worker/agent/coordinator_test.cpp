#include "worker/agent/coordinator.h"

#include "common/contract.h"

#include <gtest/gtest.h>

namespace gnn::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kTick{100};

// A job of three nodes whose agents are played by the test.
class CoordinatorTest : public testing::Test {
 protected:
  CoordinatorTest() {
    for (int64_t n = 0; n < 3; ++n) come(n);
  }

  void come(int64_t n) {
    reports_[static_cast<size_t>(n)] = NodeReport{.node = n};
    silent_[static_cast<size_t>(n)] = false;
  }
  NodeReport& node(int64_t n) { return *reports_[static_cast<size_t>(n)]; }

  const Directive& tick(milliseconds duration = kTick) {
    for (milliseconds passed{0}; passed < duration; passed += kTick) {
      now_ += kTick;
      for (size_t n = 0; n < 3; ++n)
        if (reports_[n] && !silent_[n]) reports_[n]->beat += 1;
      coordinator_.step(reports_, now_);
    }
    return coordinator_.directive();
  }

  // What honest agents do with a directive.
  void follow() {
    for (int64_t n = 0; n < 3; ++n) {
      const auto& directive = coordinator_.directive();
      if (directive.action == Action::Prepare)
        node(n) = NodeReport{.node = n, .beat = node(n).beat, .round = directive.round};
      if (directive.action == Action::Run) node(n).phase = NodePhase::Running;
    }
  }
  void run() {
    tick();
    follow();
    tick();
    ASSERT_EQ(coordinator_.directive().action, Action::Run);
  }
  void set_phase(NodePhase phase) {
    for (int64_t n = 0; n < 3; ++n) node(n).phase = phase;
  }
  void fail_node(int64_t n, int64_t rank, int64_t code, bool follow_on = false) {
    node(n).phase = NodePhase::Failed;
    node(n).failure = Failure{.node = n, .rank = rank, .exit_code = code, .follow_on = follow_on};
  }

  MonotonicPoint now_{};
  Coordinator coordinator_{
      {.nodes = 3,
       .rounds_left = 2,
       .rendezvous_timeout = seconds(60),
       .peer_timeout = seconds(10),
       .blame_window = seconds(12),
       .grace = seconds(30)},
      now_
  };
  std::vector<std::optional<NodeReport>> reports_{3};
  std::vector<bool> silent_ = std::vector<bool>(3, false);
};

TEST_F(CoordinatorTest, RunsOnlyWhenEveryNodeIsThere) {
  reports_[1].reset();
  EXPECT_EQ(tick(seconds(30)).action, Action::Prepare);
  come(1);
  EXPECT_EQ(tick().action, Action::Run);
}

TEST_F(CoordinatorTest, NamesTheNodesThatNeverCame) {
  reports_[1].reset();
  reports_[2].reset();
  const auto& directive = tick(seconds(61));
  EXPECT_EQ(directive.action, Action::Leave);
  EXPECT_EQ(directive.exit_code, contract::kExitPeerLost);
  EXPECT_NE(directive.message.find("missing at round 0: 1, 2"), std::string::npos)
      << directive.message;
}

TEST_F(CoordinatorTest, LeavesWhenAllAreDone) {
  run();
  node(0).phase = NodePhase::Done;
  node(2).phase = NodePhase::Done;
  EXPECT_EQ(tick().action, Action::Run);
  node(1).phase = NodePhase::Done;
  EXPECT_EQ(tick().action, Action::Leave);
  EXPECT_EQ(coordinator_.directive().exit_code, contract::kExitDone);
}

TEST_F(CoordinatorTest, ARankThatDiesStartsANewRoundOnAllNodes) {
  run();
  fail_node(1, 3, contract::kExitOther);
  EXPECT_EQ(tick().action, Action::Prepare);
  EXPECT_EQ(coordinator_.directive().round, 1);
  ASSERT_TRUE(coordinator_.directive().failure);
  EXPECT_EQ(coordinator_.directive().failure->rank, 3);
  // Not before every node has ended its old ranks.
  node(0) = NodeReport{.node = 0, .beat = node(0).beat, .round = 1};
  node(1) = NodeReport{.node = 1, .beat = node(1).beat, .round = 1};
  EXPECT_EQ(tick(seconds(2)).action, Action::Prepare);
  follow();
  EXPECT_EQ(tick().action, Action::Run);
  EXPECT_EQ(coordinator_.directive().round, 1);
}

TEST_F(CoordinatorTest, EndsWithTheCulpritWhenNoRestartIsLeft) {
  for (int64_t round = 0; round < 2; ++round) {
    run();
    fail_node(2, 5, contract::kExitOther);
    tick();
    follow();
  }
  run();
  EXPECT_EQ(coordinator_.directive().round, 2);
  fail_node(0, 1, contract::kExitOther);
  EXPECT_EQ(tick().action, Action::Leave);
  EXPECT_EQ(coordinator_.directive().exit_code, contract::kExitOther);
  EXPECT_EQ(coordinator_.directive().failure->rank, 1);
}

TEST_F(CoordinatorTest, ErrorsThatARestartCannotMendEndTheJob) {
  for (const int code :
       {contract::kExitConfiguration, contract::kExitData, contract::kExitOutOfMemory}) {
    CoordinatorTest::SetUp();
    Coordinator fresh({.nodes = 1, .rounds_left = 5}, now_);
    std::vector<std::optional<NodeReport>> one{NodeReport{.beat = 1}};
    fresh.step(one, now_);
    one[0]->phase = NodePhase::Failed;
    one[0]->failure = Failure{.exit_code = code};
    EXPECT_EQ(fresh.step(one, now_).action, Action::Leave);
    EXPECT_EQ(fresh.directive().exit_code, code);
  }
}

TEST_F(CoordinatorTest, FollowOnFailuresDoNotHideTheFirstOne) {
  run();
  fail_node(0, 0, contract::kExitPeerLost, true);
  fail_node(2, 4, contract::kExitPeerLost, true);
  EXPECT_EQ(tick(seconds(3)).action, Action::Run) << "waits for the one that they follow from";
  fail_node(1, 2, contract::kExitOther);
  EXPECT_EQ(tick().action, Action::Prepare);
  EXPECT_EQ(coordinator_.directive().failure->rank, 2);
}

TEST_F(CoordinatorTest, FollowOnFailuresAloneAreBlamedAfterAWhile) {
  run();
  fail_node(0, 0, contract::kExitPeerLost, true);
  EXPECT_EQ(tick(seconds(11)).action, Action::Run);
  EXPECT_EQ(tick(seconds(2)).action, Action::Prepare);
  EXPECT_EQ(coordinator_.directive().failure->rank, 0);
}

TEST_F(CoordinatorTest, AnAgentThatFallsSilentEndsTheAttemptAndIsNamedBeforeItsPeersAreBlamed) {
  run();
  silent_[1] = true;
  fail_node(0, 0, contract::kExitPeerLost, true);
  EXPECT_EQ(tick(seconds(9)).action, Action::Run);
  EXPECT_EQ(tick(seconds(2)).action, Action::Leave);
  EXPECT_EQ(coordinator_.directive().exit_code, contract::kExitPeerLost);
  EXPECT_EQ(coordinator_.directive().failure->node, 1);
}

TEST_F(CoordinatorTest, AnAgentThatLeavesByItselfEndsTheAttempt) {
  run();
  node(2).phase = NodePhase::Left;
  EXPECT_EQ(tick().action, Action::Leave);
  EXPECT_EQ(coordinator_.directive().failure->node, 2);
}

TEST_F(CoordinatorTest, SigtermOnOnePodStopsAllAndAllLeavePreempted) {
  run();
  node(2).stop_requested = true;
  EXPECT_EQ(tick().action, Action::Stop);
  node(0).phase = NodePhase::Stopped;
  node(1).phase = NodePhase::Stopped;
  EXPECT_EQ(tick().action, Action::Stop);
  node(2).phase = NodePhase::Stopped;
  EXPECT_EQ(tick().action, Action::Leave);
  EXPECT_EQ(coordinator_.directive().exit_code, contract::kExitPreempted);
}

TEST_F(CoordinatorTest, AStopThatOvertakesTheStartOfANodeEndsTheRanksThatWaitForIt) {
  tick();
  node(0).phase = NodePhase::Running;
  node(2).phase = NodePhase::Running;
  node(0).stop_requested = true;
  EXPECT_EQ(tick().action, Action::Stop);
  node(1).phase = NodePhase::Unstarted;  // it saw prepare, then stop
  EXPECT_EQ(tick().action, Action::Leave);
  EXPECT_EQ(coordinator_.directive().exit_code, contract::kExitPreempted);
}

TEST_F(CoordinatorTest, AJobThatEndsWhileItIsStoppedIsDone) {
  run();
  node(1).stop_requested = true;
  tick();
  set_phase(NodePhase::Done);
  EXPECT_EQ(tick().exit_code, contract::kExitDone);
}

TEST_F(CoordinatorTest, RanksThatDoNotStopAreLeftBehindAfterTheGracePeriod) {
  run();
  node(1).stop_requested = true;
  EXPECT_EQ(tick(seconds(29)).action, Action::Stop);
  EXPECT_EQ(tick(seconds(2)).action, Action::Leave);
  EXPECT_EQ(coordinator_.directive().exit_code, contract::kExitPreempted);
}

TEST_F(CoordinatorTest, SigtermAtTheBarrierLeavesAtOnce) {
  reports_[1].reset();
  node(0).stop_requested = true;
  EXPECT_EQ(tick().exit_code, contract::kExitPreempted);
}

TEST_F(CoordinatorTest, LeavingIsFinal) {
  run();
  set_phase(NodePhase::Done);
  tick();
  silent_ = std::vector<bool>(3, true);
  EXPECT_EQ(tick(seconds(60)).exit_code, contract::kExitDone);
}

}  // namespace
}  // namespace gnn::agent
