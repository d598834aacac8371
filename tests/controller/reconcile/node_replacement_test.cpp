#include "controller/reconcile/node_replacement.h"

#include "common/rfc3339.h"
#include "tests/controller/reconcile/builders.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gnn::reconcile {
namespace {

using Nodes = std::vector<int64_t>;

// A running job of three nodes that replaces lost nodes, and what its node 0 says.
class NodeReplacement : public ::testing::Test {
 protected:
  NodeReplacement() {
    in_ = running(3);
    in_.job.spec.run_policy.failure_policy.rules = {
        {.reasons =
             {api::FailureReason::Error,
              api::FailureReason::Disrupted,
              api::FailureReason::PodDeleted,
              api::FailureReason::NodeLost},
         .action = api::FailureAction::RestartNode}
    };
    say(0, "");
  }

  void say(int64_t round, const std::string& more) {
    in_.progress = api::decode_report(result_message(
        in_.job, 1, 0, R"(, "restartsNodes": true, "round": )" + std::to_string(round) + more
    ));
  }
  void say_awaited(int64_t node, int64_t round = 1) {
    say(round, R"(, "awaitedNode": )" + std::to_string(node));
  }

  static void fail(objects::Pod& pod) { end_container(pod, contract::kExitOther); }
  static void evict(objects::Pod& pod) {
    pod.status.phase = "Failed";
    pod.status.reason = "Evicted";
  }

  // Writes the status and looks again.
  Plan go_on(const Plan& before) {
    in_ = next(in_, before);
    return plan(in_);
  }

  Observed in_;
};

TEST_F(NodeReplacement, ANodeOfAnUnknownSpecIsNotReplacedAlone) {
  in_.job.unknown_words = {{.path = "spec.model.type", .word = R"("GAT")"}};
  evict(in_.pods[1]);
  say_awaited(1);
  const Plan decided = plan(in_);
  EXPECT_TRUE(decided.status.replaced_nodes.empty());
  EXPECT_EQ(decided.status.attempt, 2);
}

TEST_F(NodeReplacement, APodThatWouldHaveAnotherDataKeyIsNotReplacedAlone) {
  in_.job.spec.dataset = api::sample_partitioned_job().spec.dataset;
  in_.job.spec.placement = api::Placement{.topology = api::PlacementMode::Partitioned};
  in_.job.status.data_key_secret = contract::data_key_name("arxiv", std::string(32, 'a'));
  for (objects::Pod& pod : in_.pods) {
    pod.metadata.labels[std::string(contract::kLabelDataKey)] = std::string(32, 'a');
  }
  evict(in_.pods[1]);
  say_awaited(1);
  EXPECT_EQ(plan(in_).status.replaced_nodes, Nodes{1});
  in_.job.status.data_key_secret = contract::data_key_name("arxiv", std::string(32, 'b'));
  const Plan anew = plan(in_);
  EXPECT_EQ(anew.status.attempt, 2);
  EXPECT_NE(message_of(anew, condition::kRestarting).find("data key"), std::string::npos);
  in_.job.status.data_key_secret.reset();
  EXPECT_EQ(plan(in_).status.attempt, 2);
}

TEST_F(NodeReplacement, ALostNodesPodIsReplacedAlone) {
  const int64_t rounds = in_.job.spec.run_policy.max_restarts;
  fail(in_.pods[1]);
  say_awaited(1);
  const Plan decided = plan(in_);
  EXPECT_TRUE(decided.actions.empty()) << "the status is written before the pod is created";
  EXPECT_EQ(decided.status.attempt, 1);
  EXPECT_EQ(decided.status.restarts, 1);
  EXPECT_EQ(decided.status.round, 1);
  EXPECT_EQ(decided.status.replaced_nodes, Nodes{1});
  EXPECT_EQ(reason_of(decided, condition::kRestarting), "Error");
  EXPECT_EQ(decided.status.last_failure->node, 1);
  EXPECT_TRUE(decided.status.failures.back().charged);
  EXPECT_EQ(decided.status.backoff.charged, 1);

  const Plan made = go_on(decided);
  const auto created = actions_of<CreatePod>(made);
  ASSERT_EQ(created.size(), 1U);
  EXPECT_EQ(created[0].pod.metadata.name, "arxiv-1-1-r1");
  EXPECT_EQ(created[0].pod.spec.hostname, "arxiv-1");
  EXPECT_EQ(created[0].pod.metadata.labels.at("gnn.dev/node-restart"), "1");
  EXPECT_EQ(env_of(created[0].pod, contract::kEnvRoundsLeft), std::to_string(rounds))
      << "the same as its peers': agents count the attempt's rounds themselves";
  ASSERT_EQ(count_of<ReleasePod>(made), 1);
  EXPECT_EQ(actions_of<DeletePod>(made).at(0).name, "arxiv-1-1");

  objects::Pod fresh = pod_of(in_.job, 1, 1, in_.now, 1);
  in_.pods.push_back(make_ready(fresh));
  const Plan running_again = go_on(made);
  EXPECT_EQ(reason_of(running_again, condition::kRestarting), "Restarted");
  EXPECT_TRUE(is_true(running_again.status, condition::kRunning));
  EXPECT_EQ(running_again.status.attempt, 1);
  EXPECT_EQ(running_again.status.restarts, 1);
}

TEST_F(NodeReplacement, ARoundThatAgentsReportCostsTheReplacementNothingMore) {
  say_awaited(1);
  in_.job.status = plan(in_).status;  // the round is known before the pod's end
  ASSERT_EQ(in_.job.status.restarts, 0) << "what it costs is judged with the node";
  fail(in_.pods[1]);
  const Plan decided = plan(in_);
  EXPECT_EQ(decided.status.restarts, 1);
  EXPECT_EQ(decided.status.replaced_nodes, Nodes{1});
  in_ = next(in_, decided);
  say(1, "");  // the new pod has come
  EXPECT_EQ(plan(in_).status.restarts, 1);
}

TEST_F(NodeReplacement, AWorkerThatReportsNoRoundPaysForEachReplacement) {
  fail(in_.pods[1]);
  say_awaited(1, 0);
  Plan decided = plan(in_);
  EXPECT_EQ(decided.status.restarts, 1);
  in_ = next(in_, decided);
  objects::Pod second = pod_of(in_.job, 1, 1, in_.now, 1);
  make_ready(second);
  fail(second);
  in_.pods[1] = second;
  decided = plan(in_);
  EXPECT_EQ(decided.status.restarts, 2);
  EXPECT_EQ(decided.status.replaced_nodes, (Nodes{1, 1}));
  EXPECT_EQ(reason_of(decided, condition::kScheduled), "BackOff");
}

TEST_F(NodeReplacement, WhatIsFreeForAGangIsFreeForANode) {
  in_.job.spec.run_policy.max_restarts = 2;
  // More drains than restarts, each with the round that the others wait in.
  for (int64_t drain = 1; drain <= 6; ++drain) {
    objects::Pod& pod = in_.pods[1];
    evict(pod);
    say_awaited(1, drain);
    const Plan decided = plan(in_);
    ASSERT_EQ(decided.status.replaced_nodes.size(), static_cast<size_t>(drain));
    EXPECT_EQ(decided.status.restarts, 0) << drain;
    EXPECT_EQ(decided.status.round, drain);
    EXPECT_FALSE(decided.status.failures.back().charged);
    EXPECT_NE(
        message_of(decided, condition::kRestarting).find("does not count"), std::string::npos
    );
    in_ = next(in_, decided, 1000);
    objects::Pod fresh = pod_of(in_.job, 1, 1, in_.now, drain);
    in_.pods[1] = make_ready(fresh);
    say(drain, "");
    in_.job.status = plan(in_).status;
    EXPECT_EQ(in_.job.status.restarts, 0) << drain;
  }
  // A failure of the worker is charged, as ever.
  fail(in_.pods[1]);
  say_awaited(1, 7);
  EXPECT_EQ(plan(in_).status.restarts, 1);
}

TEST_F(NodeReplacement, WhatIsFreeForAGangIsFreeWhereItRestartsInTheNodesPlace) {
  in_.job.spec.run_policy.max_restarts = 0;
  evict(in_.pods[1]);
  evict(in_.pods[2]);
  const Plan decided = plan(in_);
  EXPECT_EQ(decided.status.attempt, 2);
  EXPECT_EQ(decided.status.restarts, 0);
}

TEST_F(NodeReplacement, ARuleMayMakeAnyReasonFree) {
  in_.job.spec.run_policy.failure_policy.rules[0].charge = false;
  fail(in_.pods[1]);
  say_awaited(1);
  const Plan decided = plan(in_);
  EXPECT_EQ(decided.status.restarts, 0);
  EXPECT_EQ(decided.status.replaced_nodes, Nodes{1});
}

TEST_F(NodeReplacement, WaitsUntilNode0SaysThatItWaits) {
  evict(in_.pods[1]);
  const Plan waits = plan(in_);
  EXPECT_EQ(waits.status.attempt, 1);
  EXPECT_TRUE(waits.status.replaced_nodes.empty());
  ASSERT_TRUE(waits.awaits_culprit_since);
  in_ = next(in_, waits, 89);
  EXPECT_EQ(plan(in_).status.attempt, 1);
  in_.now += std::chrono::seconds(2);
  EXPECT_EQ(plan(in_).status.attempt, 2) << "the whole gang";
}

TEST_F(NodeReplacement, TheWholeGangRestartsWhereAgentsCannotWait) {
  evict(in_.pods[1]);
  in_.progress = api::decode_report(result_message(in_.job, 1, 0));
  const Plan decided = plan(in_);
  EXPECT_EQ(decided.status.attempt, 2);
  EXPECT_EQ(decided.status.restarts, 0);
  EXPECT_NE(
      message_of(decided, condition::kRestarting).find("the worker cannot restart a node alone"),
      std::string::npos
  );
}

TEST_F(NodeReplacement, NodeZeroIsNeverReplaced) {
  evict(in_.pods[0]);
  say_awaited(1);
  EXPECT_EQ(plan(in_).status.attempt, 2);
}

TEST_F(NodeReplacement, TwoLostNodesRestartTheWholeGang) {
  evict(in_.pods[1]);
  evict(in_.pods[2]);
  say_awaited(1);
  EXPECT_EQ(plan(in_).status.attempt, 2);
}

TEST_F(NodeReplacement, ASecondLostNodeRestartsTheWholeGang) {
  evict(in_.pods[1]);
  say_awaited(1);
  in_ = next(in_, plan(in_));
  evict(in_.pods[2]);
  EXPECT_EQ(plan(in_).status.attempt, 2) << "before the first has its new pod";
}

TEST_F(NodeReplacement, NodesThatLeaveTogetherRestartTogether) {
  end_container(in_.pods[1], 70);
  end_container(in_.pods[0], contract::kExitPeerLost);
  say_awaited(1);
  EXPECT_EQ(plan(in_).status.attempt, 2);
}

TEST_F(NodeReplacement, AFailureThatNoRuleNamesRestartsTheWholeGang) {
  end_container(in_.pods[1], contract::kExitOutOfMemory);
  say_awaited(1);
  EXPECT_EQ(plan(in_).status.attempt, 2);
}

TEST_F(NodeReplacement, WithoutARestartLeftTheJobFails) {
  in_.job.spec.run_policy.max_restarts = 0;
  fail(in_.pods[1]);
  say_awaited(1);
  EXPECT_EQ(reason_of(plan(in_), condition::kFailed), "MaxRestartsExceeded");
}

TEST_F(NodeReplacement, ASilentMachinesNodeIsReplacedWhileItsPodStillExists) {
  in_.pods[1].status.container_statuses = {
      {.name = std::string(contract::kWorkerContainer), .ready = true, .state = {}}
  };
  add_condition(in_.pods[1], "Ready", false);
  EXPECT_TRUE(plan(in_).status.replaced_nodes.empty()) << "node 0 has not lost it";
  say_awaited(1);
  const Plan decided = plan(in_);
  EXPECT_EQ(decided.status.replaced_nodes, Nodes{1});
  EXPECT_EQ(reason_of(decided, condition::kRestarting), "NodeLost");
  const Plan made = go_on(decided);
  EXPECT_EQ(count_of<CreatePod>(made), 1);
  // It stays for long, and nobody waits for it.
  mark_deleted(in_.pods[1], in_.now + std::chrono::seconds(120));
  objects::Pod fresh = pod_of(in_.job, 1, 1, in_.now, 1);
  in_.pods.push_back(make_ready(fresh));
  const Plan later = go_on(made);
  EXPECT_TRUE(is_true(later.status, condition::kRunning));
  EXPECT_EQ(later.status.attempt, 1);
}

TEST_F(NodeReplacement, OnlyTheNewestPodOfANodeCountsAsDone) {
  evict(in_.pods[1]);
  say_awaited(1);
  in_ = next(in_, plan(in_));
  end_container(in_.pods[0], 0);
  end_container(in_.pods[1], 0);
  end_container(in_.pods[2], 0);
  EXPECT_FALSE(is_true(plan(in_).status, condition::kComplete));
  objects::Pod fresh = pod_of(in_.job, 1, 1, in_.now, 1);
  end_container(fresh, 0);
  in_.pods.push_back(fresh);
  EXPECT_TRUE(is_true(plan(in_).status, condition::kComplete));
}

TEST_F(NodeReplacement, APodThatTheCachedStatusDoesNotKnowMakesItStale) {
  const objects::Pod fresh = pod_of(in_.job, 1, 1, in_.now, 1);
  in_.pods.push_back(fresh);
  const Plan made = plan(in_);
  EXPECT_TRUE(made.actions.empty());
  EXPECT_EQ(made.status, in_.job.status);
}

TEST_F(NodeReplacement, AnotherPodThatVanishesMeanwhileIsNotCreatedAgain) {
  evict(in_.pods[1]);
  say_awaited(1);
  in_ = next(in_, plan(in_));
  in_.pods.erase(in_.pods.begin() + 2);
  EXPECT_EQ(plan(in_).status.attempt, 2);
}

TEST_F(NodeReplacement, TheNewPodHasItsOwnTimeToBePlaced) {
  in_.now = at(5000);
  evict(in_.pods[1]);
  say_awaited(1);
  const Plan made = go_on(plan(in_));
  in_ = next(in_, made);
  objects::Pod fresh = pod_of(in_.job, 1, 1, in_.now, 1);
  in_.pods.push_back(fresh);
  EXPECT_EQ(plan(in_).status.attempt, 1);
  in_.now += std::chrono::seconds(in_.job.spec.run_policy.scheduling_timeout_seconds);
  EXPECT_EQ(reason_of(plan(in_), condition::kScheduled), "Released");
}

TEST_F(NodeReplacement, TheNextAttemptBeginsWithFirstPods) {
  evict(in_.pods[1]);
  say_awaited(1);
  in_ = next(in_, plan(in_));
  evict(in_.pods[0]);
  EXPECT_TRUE(plan(in_).status.replaced_nodes.empty());
}

TEST_F(NodeReplacement, PodsKnowTheirNumberOnlyWhereNodesAreReplaced) {
  const auto has_number = [](const objects::Pod& pod) {
    const auto& env = pod.spec.containers[0].env;
    return std::any_of(env.begin(), env.end(), [](const api::EnvVar& each) {
      return each.name == contract::kEnvNodeRestart;
    });
  };
  EXPECT_TRUE(has_number(pod_of(in_.job, 1)));
  EXPECT_FALSE(has_number(pod_of(small_job(), 1)));
}

}  // namespace
}  // namespace gnn::reconcile
