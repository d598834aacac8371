#include "controller/reconcile/machines.h"

#include "tests/controller/reconcile/builders.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace gnn::reconcile {
namespace {

using std::chrono::seconds;

Observed avoiding(int64_t limit) {
  Observed observed = running();
  observed.job.spec.run_policy.max_restarts = 100;
  observed.job.spec.run_policy.failure_policy.max_restarts_per_node = limit;
  return observed;
}

// The next attempt, after node 0 failed on this machine.
Observed failed_on(Observed observed, const std::string& machine, int64_t exit_code = 1) {
  end_container(observed.pods[0], exit_code, "", observed.now);
  observed.pods[0].spec.node_name = machine;
  return restarted(observed, plan(observed));
}

using Names = std::vector<std::string>;

TEST(Machines, AreAvoidedAfterTheirShareOfRestarts) {
  Observed observed = failed_on(avoiding(1), "a");
  EXPECT_EQ(avoided_machines(observed.job), Names{});
  observed = failed_on(observed, "b");
  observed = failed_on(observed, "a");
  EXPECT_EQ(avoided_machines(observed.job), Names{"a"});
  EXPECT_EQ(avoided_machines(failed_on(avoiding(0), "c").job), Names{"c"});
}

TEST(Machines, AreNotAvoidedUnlessAsked) {
  Observed observed = avoiding(0);
  observed.job.spec.run_policy.failure_policy.max_restarts_per_node.reset();
  observed = failed_on(observed, "a");
  EXPECT_TRUE(observed.job.status.machines.empty());
}

TEST(Machines, AreNotBlamedForLostPeersDeletionsAndPreemption) {
  Observed gang = avoiding(0);
  for (const int64_t code : {contract::kExitPeerLost, contract::kExitPreempted}) {
    for (objects::Pod& pod : gang.pods) end_container(pod, code, "", gang.now);
    gang = restarted(gang, plan(gang));
  }
  mark_deleted(gang.pods[1], gang.now, 0);
  gang = restarted(gang, plan(gang));
  EXPECT_EQ(gang.job.status.attempt, 4);
  EXPECT_EQ(avoided_machines(gang.job), Names{});
}

TEST(Machines, PodsOfTheNextAttemptDoNotGoThere) {
  Observed observed = failed_on(avoiding(0), "a");
  observed = failed_on(observed, "b");
  observed.pods.clear();
  observed.job.status.conditions.clear();
  const auto creates = actions_of<CreatePod>(plan(observed));
  ASSERT_EQ(creates.size(), 2U);
  for (const CreatePod& action : creates) {
    EXPECT_EQ(action.pod.spec.avoided_node_names, (Names{"a", "b"}));
  }
}

TEST(Machines, AtMostEightAreRemembered) {
  Observed observed = failed_on(failed_on(avoiding(0), "often"), "often");
  for (int i = 0; i < 8; ++i) observed = failed_on(observed, "m" + std::to_string(i));
  const Names names = avoided_machines(observed.job);
  EXPECT_EQ(names, (Names{"often", "m1", "m2", "m3", "m4", "m5", "m6", "m7"}));
}

TEST(Machines, AreForgottenAfterAHealthyStretch) {
  Observed observed = failed_on(avoiding(0), "a");
  observed.now += seconds(600);
  EXPECT_EQ(avoided_machines(failed_on(observed, "b").job), Names{"b"});
}

TEST(Machines, AreForgottenIfTheGangFindsNoPlaceWithoutThem) {
  Observed observed = failed_on(avoiding(0), "a");
  end_container(observed.pods[0], 1, "", observed.now);
  Observed waiting = next(observed, plan(observed));
  waiting.now = *waiting.job.status.next_attempt_time;
  waiting.pods = {pod_of(waiting.job, 0, 3, waiting.now), pod_of(waiting.job, 1, 3, waiting.now)};
  schedule(waiting.pods[0]);
  add_condition(waiting.pods[1], "PodScheduled", false, "Unschedulable", "no room");
  waiting.job.status = plan(waiting).status;
  EXPECT_FALSE(waiting.job.status.machines.empty());
  waiting.now += seconds(600);
  const Plan released = plan(waiting);
  EXPECT_EQ(released.status.state, "Released");
  EXPECT_TRUE(released.status.machines.empty());
}

}  // namespace
}  // namespace gnn::reconcile
