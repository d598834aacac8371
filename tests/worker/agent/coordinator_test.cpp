#include "worker/agent/coordinator.h"

#include "common/contract.h"

#include <gtest/gtest.h>

namespace gnn::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kTick{100};

// A job of three nodes whose agents are played by the test.
class CoordinatorTest : public ::testing::Test {
 protected:
  explicit CoordinatorTest(bool replaces_nodes = false)
      : coordinator_(
            {.nodes = 3,
             .rounds_left = 2,
             .rendezvous_timeout = seconds(60),
             .peer_timeout = seconds(10),
             .blame_window = seconds(12),
             .grace = seconds(30),
             .replaces_nodes = replaces_nodes},
            now_
        ) {
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
      coordinator_.decide(reports_, now_);
    }
    return coordinator_.directive();
  }

  // Does what agents do with a directive.
  void follow() {
    for (int64_t n = 0; n < 3; ++n) {
      const auto& directive = coordinator_.directive();
      if (directive.kind == DirectiveKind::Prepare)
        node(n) = NodeReport{.node = n, .beat = node(n).beat, .round = directive.round};
      if (directive.kind == DirectiveKind::Run) node(n).phase = AgentPhase::Running;
    }
  }
  void run() {
    tick();
    follow();
    tick();
    ASSERT_EQ(coordinator_.directive().kind, DirectiveKind::Run);
  }
  void set_phase(AgentPhase phase) {
    for (int64_t n = 0; n < 3; ++n) node(n).phase = phase;
  }
  void fail_node(int64_t n, int64_t rank, int64_t code, bool follow_on = false) {
    node(n).phase = AgentPhase::Failed;
    node(n).failure = Failure{.node = n, .rank = rank, .exit_code = code, .follow_on = follow_on};
  }

  MonotonicPoint now_{};
  Coordinator coordinator_;
  std::vector<std::optional<NodeReport>> reports_{3};
  std::vector<bool> silent_ = std::vector<bool>(3, false);
};

TEST_F(CoordinatorTest, StartsTheRanksOnceEveryNodeIsReady) {
  reports_[1].reset();
  EXPECT_EQ(tick(seconds(30)).kind, DirectiveKind::Prepare);
  come(1);
  EXPECT_EQ(tick().kind, DirectiveKind::Run);
}

TEST_F(CoordinatorTest, NamesTheNodesThatNeverCame) {
  reports_[1].reset();
  reports_[2].reset();
  const auto& directive = tick(seconds(61));
  EXPECT_EQ(directive.kind, DirectiveKind::Leave);
  EXPECT_EQ(directive.exit_code, contract::kExitPeerLost);
  EXPECT_NE(directive.message.find("not reached the barrier of round 0: 1, 2"), std::string::npos)
      << directive.message;
  ASSERT_TRUE(directive.failure);
  EXPECT_EQ(directive.failure->node, 1);
}

TEST_F(CoordinatorTest, LeavesWhenAllAreDone) {
  run();
  node(0).phase = AgentPhase::Done;
  node(2).phase = AgentPhase::Done;
  EXPECT_EQ(tick().kind, DirectiveKind::Run);
  node(1).phase = AgentPhase::Done;
  EXPECT_EQ(tick().kind, DirectiveKind::Leave);
  EXPECT_EQ(coordinator_.directive().exit_code, contract::kExitDone);
}

TEST_F(CoordinatorTest, ARankThatDiesStartsANewRoundOnAllNodes) {
  run();
  fail_node(1, 3, contract::kExitOther);
  EXPECT_EQ(tick().kind, DirectiveKind::Prepare);
  EXPECT_EQ(coordinator_.directive().round, 1);
  ASSERT_TRUE(coordinator_.directive().failure);
  EXPECT_EQ(coordinator_.directive().failure->rank, 3);
  // The new round waits until every node has killed its old ranks.
  node(0) = NodeReport{.node = 0, .beat = node(0).beat, .round = 1};
  node(1) = NodeReport{.node = 1, .beat = node(1).beat, .round = 1};
  EXPECT_EQ(tick(seconds(2)).kind, DirectiveKind::Prepare);
  follow();
  EXPECT_EQ(tick().kind, DirectiveKind::Run);
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
  EXPECT_EQ(tick().kind, DirectiveKind::Leave);
  EXPECT_EQ(coordinator_.directive().exit_code, contract::kExitOther);
  EXPECT_EQ(coordinator_.directive().failure->rank, 1);
}

TEST_F(CoordinatorTest, ErrorsThatARestartCannotFixEndTheJob) {
  for (const int code :
       {contract::kExitConfiguration, contract::kExitData, contract::kExitOutOfMemory}) {
    CoordinatorTest::SetUp();
    Coordinator fresh({.nodes = 1, .rounds_left = 5}, now_);
    std::vector<std::optional<NodeReport>> one{NodeReport{.beat = 1}};
    fresh.decide(one, now_);
    one[0]->phase = AgentPhase::Failed;
    one[0]->failure = Failure{.exit_code = code};
    EXPECT_EQ(fresh.decide(one, now_).kind, DirectiveKind::Leave);
    EXPECT_EQ(fresh.directive().exit_code, code);
  }
}

TEST_F(CoordinatorTest, AFollowOnFailureDoesNotHideItsCause) {
  run();
  fail_node(0, 0, contract::kExitPeerLost, true);
  fail_node(2, 4, contract::kExitPeerLost, true);
  EXPECT_EQ(tick(seconds(3)).kind, DirectiveKind::Run) << "waits for their cause";
  fail_node(1, 2, contract::kExitOther);
  EXPECT_EQ(tick().kind, DirectiveKind::Prepare);
  EXPECT_EQ(coordinator_.directive().failure->rank, 2);
}

TEST_F(CoordinatorTest, AFollowOnFailureWithoutACauseIsBlamedAfterAWhile) {
  run();
  fail_node(0, 0, contract::kExitPeerLost, true);
  EXPECT_EQ(tick(seconds(11)).kind, DirectiveKind::Run);
  EXPECT_EQ(tick(seconds(2)).kind, DirectiveKind::Prepare);
  EXPECT_EQ(coordinator_.directive().failure->rank, 0);
}

TEST_F(CoordinatorTest, ASilentAgentEndsTheAttemptAndIsNamedBeforeItsPeers) {
  run();
  silent_[1] = true;
  fail_node(0, 0, contract::kExitPeerLost, true);
  EXPECT_EQ(tick(seconds(9)).kind, DirectiveKind::Run);
  EXPECT_EQ(tick(seconds(2)).kind, DirectiveKind::Leave);
  EXPECT_EQ(coordinator_.directive().exit_code, contract::kExitPeerLost);
  EXPECT_EQ(coordinator_.directive().failure->node, 1);
}

TEST_F(CoordinatorTest, AnAgentThatLeavesOnItsOwnEndsTheAttempt) {
  run();
  node(2).phase = AgentPhase::Left;
  EXPECT_EQ(tick().kind, DirectiveKind::Leave);
  EXPECT_EQ(coordinator_.directive().failure->node, 2);
}

TEST_F(CoordinatorTest, SigtermOnOnePodPreemptsAll) {
  run();
  node(2).stop_requested = true;
  EXPECT_EQ(tick().kind, DirectiveKind::Stop);
  node(0).phase = AgentPhase::Stopped;
  node(1).phase = AgentPhase::Stopped;
  EXPECT_EQ(tick().kind, DirectiveKind::Stop);
  node(2).phase = AgentPhase::Stopped;
  EXPECT_EQ(tick().kind, DirectiveKind::Leave);
  EXPECT_EQ(coordinator_.directive().exit_code, contract::kExitPreempted);
}

TEST_F(CoordinatorTest, AStopBeforeANodeHasStartedEndsTheRanksThatWaitForIt) {
  tick();
  node(0).phase = AgentPhase::Running;
  node(2).phase = AgentPhase::Running;
  node(0).stop_requested = true;
  EXPECT_EQ(tick().kind, DirectiveKind::Stop);
  node(1).phase = AgentPhase::Unstarted;  // it read prepare, then stop
  EXPECT_EQ(tick().kind, DirectiveKind::Leave);
  EXPECT_EQ(coordinator_.directive().exit_code, contract::kExitPreempted);
}

TEST_F(CoordinatorTest, AJobThatFinishesDuringAStopIsDone) {
  run();
  node(1).stop_requested = true;
  tick();
  set_phase(AgentPhase::Done);
  EXPECT_EQ(tick().exit_code, contract::kExitDone);
}

TEST_F(CoordinatorTest, LeavesAfterTheGracePeriodEvenIfRanksStillRun) {
  run();
  node(1).stop_requested = true;
  EXPECT_EQ(tick(seconds(29)).kind, DirectiveKind::Stop);
  EXPECT_EQ(tick(seconds(2)).kind, DirectiveKind::Leave);
  EXPECT_EQ(coordinator_.directive().exit_code, contract::kExitPreempted);
}

TEST_F(CoordinatorTest, SigtermAtTheBarrierLeavesAtOnce) {
  reports_[1].reset();
  node(0).stop_requested = true;
  EXPECT_EQ(tick().exit_code, contract::kExitPreempted);
}

TEST_F(CoordinatorTest, LeavingIsFinal) {
  run();
  set_phase(AgentPhase::Done);
  tick();
  silent_ = std::vector<bool>(3, true);
  EXPECT_EQ(tick(seconds(60)).exit_code, contract::kExitDone);
}

// The same job where the controller replaces lost nodes.
class ReplacingCoordinatorTest : public CoordinatorTest {
 protected:
  ReplacingCoordinatorTest() : CoordinatorTest(true) {}

  // The agent of a node is killed, and node 0 notices.
  const Directive& lose(int64_t n) {
    silent_[static_cast<size_t>(n)] = true;
    return tick(seconds(11));
  }
  // A new pod of a node joins. Its predecessor's reports are no longer read.
  void replace(int64_t n, int64_t restart) {
    coordinator_.admit(n, restart, now_);
    come(n);
  }
  [[nodiscard]] const Directive& directive() const { return coordinator_.directive(); }
};

TEST_F(ReplacingCoordinatorTest, ALostNodesNewPodTakesItsPlaceInTheNextRound) {
  run();
  EXPECT_EQ(lose(1).kind, DirectiveKind::Prepare);
  EXPECT_EQ(directive().round, 1);
  EXPECT_EQ(directive().failure->node, 1);
  EXPECT_EQ(coordinator_.awaited(), 1);
  follow();
  silent_[1] = true;
  EXPECT_EQ(tick(seconds(40)).kind, DirectiveKind::Prepare)
      << "what the lost pod said is no answer";
  replace(1, 1);
  EXPECT_EQ(tick().kind, DirectiveKind::Prepare) << "the new pod has to follow first";
  EXPECT_EQ(coordinator_.awaited(), std::nullopt);
  EXPECT_EQ(directive().restarts.at(1), 1);
  follow();
  EXPECT_EQ(tick().kind, DirectiveKind::Run);
  EXPECT_EQ(directive().round, 1);
}

TEST_F(ReplacingCoordinatorTest, WaitsForALostNodeNoLongerThanForTheRendezvous) {
  run();
  lose(2);
  EXPECT_EQ(tick(seconds(58)).kind, DirectiveKind::Prepare);
  EXPECT_EQ(tick(seconds(3)).kind, DirectiveKind::Leave);
  EXPECT_EQ(directive().exit_code, contract::kExitPeerLost);
  EXPECT_EQ(directive().failure->node, 2);
}

TEST_F(ReplacingCoordinatorTest, ASecondLostNodeEndsTheAttempt) {
  run();
  lose(1);
  EXPECT_EQ(lose(2).kind, DirectiveKind::Leave);
  EXPECT_EQ(directive().round, 1) << "no round begins for it";
  EXPECT_EQ(directive().exit_code, contract::kExitPeerLost);
}

TEST_F(ReplacingCoordinatorTest, TwoNodesLostAtOnceEndTheAttempt) {
  run();
  silent_[1] = true;
  EXPECT_EQ(lose(2).kind, DirectiveKind::Leave);
  EXPECT_EQ(directive().round, 1) << "no round begins for the second one";
  EXPECT_EQ(directive().exit_code, contract::kExitPeerLost);
}

TEST_F(ReplacingCoordinatorTest, NodesMayBeReplacedOneAfterTheOther) {
  run();
  lose(1);
  replace(1, 1);
  run();
  lose(2);
  replace(2, 1);
  run();
  EXPECT_EQ(directive().round, 2);
  EXPECT_EQ(lose(1).kind, DirectiveKind::Leave) << "no restart is left";
}

TEST_F(ReplacingCoordinatorTest, ANewPodThatComesBeforeTheLossIsNoticedEndsTheRound) {
  run();
  replace(1, 1);
  EXPECT_EQ(tick().kind, DirectiveKind::Prepare);
  EXPECT_EQ(directive().round, 1);
  follow();
  EXPECT_EQ(tick().kind, DirectiveKind::Run);
}

TEST_F(ReplacingCoordinatorTest, AnOlderPodThatAsksLaterIsNotAdmitted) {
  run();
  lose(1);
  replace(1, 2);
  EXPECT_EQ(directive().round, 2) << "the pod that never came has cost a restart, too";
  coordinator_.admit(1, 1, now_);
  coordinator_.admit(1, 2, now_);
  EXPECT_EQ(directive().restarts.at(1), 2);
  run();
  EXPECT_EQ(directive().round, 2);
}

TEST_F(ReplacingCoordinatorTest, ANewPodThatDiesBeforeItReportsIsLostAgain) {
  run();
  lose(1);
  coordinator_.admit(1, 1, now_);
  reports_[1].reset();
  EXPECT_EQ(tick(seconds(9)).kind, DirectiveKind::Prepare);
  EXPECT_EQ(coordinator_.awaited(), std::nullopt);
  tick(seconds(2));
  EXPECT_EQ(coordinator_.awaited(), 1);
  EXPECT_EQ(directive().round, 2);
  replace(1, 2);
  run();
  EXPECT_EQ(directive().round, 2);
}

TEST_F(ReplacingCoordinatorTest, ALostPodThatComesBackBeforeAnotherIsThereGoesOn) {
  run();
  lose(1);
  silent_[1] = false;
  tick();
  EXPECT_EQ(coordinator_.awaited(), std::nullopt);
  run();
  EXPECT_EQ(directive().round, 1);
}

TEST_F(ReplacingCoordinatorTest, NodeZeroIsNeverReplaced) {
  run();
  coordinator_.admit(0, 1, now_);
  EXPECT_EQ(directive().kind, DirectiveKind::Run);
  EXPECT_EQ(lose(0).kind, DirectiveKind::Leave);
}

TEST_F(ReplacingCoordinatorTest, ANodeLostDuringAStopEndsTheAttempt) {
  run();
  node(1).stop_requested = true;
  ASSERT_EQ(tick().kind, DirectiveKind::Stop);
  coordinator_.admit(1, 1, now_);
  EXPECT_EQ(directive().kind, DirectiveKind::Stop) << "nobody takes part any more";
  EXPECT_EQ(lose(1).kind, DirectiveKind::Leave);
  EXPECT_EQ(directive().exit_code, contract::kExitPeerLost);
}

TEST_F(ReplacingCoordinatorTest, ANodeThatAloneIsAskedToStopLeavesItsPlace) {
  run();
  node(2).stop_requested = true;
  ASSERT_EQ(tick().kind, DirectiveKind::Stop);
  set_phase(AgentPhase::Stopped);
  EXPECT_EQ(tick().kind, DirectiveKind::Prepare);
  EXPECT_EQ(directive().round, 1);
  EXPECT_EQ(directive().failure->node, 2);
  EXPECT_EQ(directive().failure->exit_code, contract::kExitPreempted);
  EXPECT_EQ(coordinator_.awaited(), 2);
  node(2).phase = AgentPhase::Left;
  EXPECT_EQ(tick(seconds(20)).kind, DirectiveKind::Prepare);
  EXPECT_EQ(coordinator_.awaited(), 2);
  replace(2, 1);
  run();
  EXPECT_EQ(directive().round, 1);
}

TEST_F(ReplacingCoordinatorTest, AStopOfSeveralNodesStopsTheJob) {
  run();
  node(1).stop_requested = true;
  node(2).stop_requested = true;
  tick();
  set_phase(AgentPhase::Stopped);
  EXPECT_EQ(tick().kind, DirectiveKind::Leave);
  EXPECT_EQ(directive().exit_code, contract::kExitPreempted);
}

TEST_F(ReplacingCoordinatorTest, AStopWhileANodeIsAwaitedLeavesAtOnce) {
  run();
  node(2).stop_requested = true;
  tick();
  set_phase(AgentPhase::Stopped);
  tick();
  ASSERT_EQ(coordinator_.awaited(), 2);
  node(0).stop_requested = true;
  EXPECT_EQ(tick().kind, DirectiveKind::Leave);
  EXPECT_EQ(directive().exit_code, contract::kExitPreempted);
}

TEST_F(CoordinatorTest, WithoutReplacementsNoNewPodIsAdmitted) {
  run();
  coordinator_.admit(1, 1, now_);
  EXPECT_EQ(coordinator_.directive().kind, DirectiveKind::Run);
  EXPECT_EQ(coordinator_.restart_of(1), 0);
}

}  // namespace
}  // namespace gnn::agent
