#include "controller/reconcile/queue.h"

#include "controller/reconcile/scheduling.h"
#include "tests/controller/reconcile/simulation.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace gnn::reconcile {
namespace {

Simulation queued_simulation(api::GnnJob job) {
  job.metadata.labels["kueue.x-k8s.io/queue-name"] = "queue";
  Simulation simulation(std::move(job));
  Observed& world = simulation.world();
  world.config.kueue = true;
  world.kueue = objects::KueueVersion::V1Beta2;
  world.flavors["flavor"] = {.node_labels = {{"flavor", "spot"}}, .tolerations = {}};
  return simulation;
}

void ready_all(Simulation& simulation) {
  for (size_t i = 0; i < simulation.world().pods.size(); ++i) simulation.ready_pod(i);
}

Simulation running_simulation(api::GnnJob job) {
  Simulation simulation = queued_simulation(std::move(job));
  (void)simulation.run_until_idle();
  simulation.admit_workloads();
  (void)simulation.run_until_idle();
  ready_all(simulation);
  (void)simulation.run_until_idle();
  return simulation;
}

const api::Condition& condition_of(const Simulation& simulation, std::string_view type) {
  return *find_condition(simulation.status(), type);
}

const objects::Workload& workload_of(Simulation& simulation) {
  return simulation.world().workloads.at(0);
}

TEST(Queue, AJobHasNoPodBeforeItIsAdmittedAndThenWhereItsFlavorSays) {
  Simulation simulation = queued_simulation(small_job());
  EXPECT_TRUE(simulation.run_until_idle());
  EXPECT_TRUE(simulation.world().pods.empty());
  EXPECT_EQ(simulation.status().attempt, 0);
  EXPECT_FALSE(simulation.status().start_time);
  EXPECT_EQ(condition_of(simulation, condition::kScheduled).reason, "Queued");
  EXPECT_EQ(simulation.status().scheduling->workload, workload_of(simulation).metadata.name);
  EXPECT_FALSE(is_in_placement(simulation.world().job));
  simulation.advance(100);
  simulation.admit_workloads();
  EXPECT_TRUE(simulation.run_until_idle());
  ASSERT_EQ(simulation.world().pods.size(), 2U);
  EXPECT_EQ(simulation.world().pods[0].metadata.name, "arxiv-1-0");
  EXPECT_EQ(simulation.world().pods[0].spec.node_selector.at("flavor"), "spot");
  EXPECT_EQ(simulation.status().scheduling->cluster_queue, "cluster-queue");
  // The time in the queue does not count.
  EXPECT_EQ(simulation.status().start_time, at(100));
}

TEST(Queue, AnEvictedJobLeavesInGoodOrderAndComesBackWithoutACharge) {
  Simulation simulation = running_simulation(job_with_servers());
  EXPECT_TRUE(is_true(simulation.status(), condition::kRunning));
  simulation.evict_workloads("Preempted");
  (void)simulation.run_until_idle();
  EXPECT_EQ(condition_of(simulation, condition::kScheduled).reason, "Evicted");
  EXPECT_EQ(condition_of(simulation, condition::kScheduled).message, "Preempted: says Kueue");
  EXPECT_TRUE(workload_of(simulation).admission) << "its pods still stop";
  for (int i = 0; i < 3; ++i) {
    simulation.finish_leaving();
    (void)simulation.run_until_idle();
  }
  EXPECT_TRUE(simulation.world().pods.empty());
  EXPECT_FALSE(simulation.gave_back_with_pods());
  const objects::Workload& workload = workload_of(simulation);
  EXPECT_FALSE(workload.admission);
  EXPECT_FALSE(objects::is_true(workload, "QuotaReserved"));
  EXPECT_EQ(objects::find_condition(workload, "QuotaReserved")->reason, "Pending");
  EXPECT_TRUE(objects::is_true(workload, "Requeued"));
  EXPECT_EQ(objects::find_condition(workload, "PodsReady")->reason, "WaitForStart");
  simulation.admit_workloads();
  (void)simulation.run_until_idle();
  ready_all(simulation);
  (void)simulation.run_until_idle();
  EXPECT_TRUE(is_true(simulation.status(), condition::kRunning));
  EXPECT_EQ(simulation.status().attempt, 2);
  EXPECT_EQ(simulation.status().restarts, 0);
}

TEST(Queue, AUsersSuspensionAndAnAdministratorsDoNotOverwriteEachOther) {
  Simulation simulation = running_simulation(small_job());
  simulation.world().job.spec.suspend = true;
  for (int i = 0; i < 3; ++i) {
    (void)simulation.run_until_idle();
    simulation.finish_leaving();
  }
  EXPECT_TRUE(is_true(simulation.status(), condition::kSuspended));
  EXPECT_FALSE(workload_of(simulation).active);
  EXPECT_FALSE(workload_of(simulation).admission);
  simulation.world().job.spec.suspend = false;
  EXPECT_TRUE(simulation.run_until_idle());
  EXPECT_TRUE(workload_of(simulation).active);
  EXPECT_EQ(condition_of(simulation, condition::kScheduled).reason, "Queued");
  // Now somebody else deactivates it: neither a resumption nor time changes that.
  simulation.set_workloads_active(false);
  for (const bool suspend : {true, false}) {
    simulation.world().job.spec.suspend = suspend;
    EXPECT_TRUE(simulation.run_until_idle());
    EXPECT_FALSE(workload_of(simulation).active);
  }
  EXPECT_TRUE(simulation.world().pods.empty());
}

TEST(Queue, SaysWhyAJobCannotWaitInIt) {
  Simulation unserved = queued_simulation(small_job());
  unserved.world().kueue.reset();
  EXPECT_TRUE(unserved.run_until_idle());
  EXPECT_TRUE(unserved.world().pods.empty());
  EXPECT_NE(unserved.status().message.find("does not serve"), std::string::npos);
  EXPECT_TRUE(unserved.reconcile().requeue_after) << "nobody else says that it is served";
  // Where Kueue is not known for a while, what was admitted runs on.
  Simulation running = running_simulation(small_job());
  running.world().kueue.reset();
  EXPECT_TRUE(running.run_until_idle());
  EXPECT_TRUE(is_true(running.status(), condition::kRunning));
  Simulation taken = queued_simulation(small_job());
  objects::Workload foreign;
  foreign.metadata.name = objects::workload_name("arxiv", "uid-of-arxiv");
  foreign.metadata.owner_references.emplace_back().controller = true;
  taken.world().workloads = {foreign};
  taken.admit_workloads();
  EXPECT_TRUE(taken.run_until_idle());
  EXPECT_TRUE(taken.world().pods.empty());
  EXPECT_EQ(condition_of(taken, condition::kScheduled).reason, "NameTaken");
}

TEST(Queue, WhatTheQuotaWasGivenForStaysUntilItIsGivenBack) {
  Simulation simulation = running_simulation(job_with_servers(2, 2));
  simulation.world().job.spec.servers->nodes = 3;
  simulation.world().job.metadata.labels["kueue.x-k8s.io/queue-name"] = "another";
  EXPECT_TRUE(simulation.run_until_idle());
  EXPECT_EQ(simulation.world().pods.size(), 4U);
  EXPECT_EQ(workload_of(simulation).queue, "queue");
  EXPECT_EQ(condition_of(simulation, condition::kAccepted).reason, "AwaitsQueue");
  EXPECT_NE(
      condition_of(simulation, condition::kAccepted).message.find("servers.nodes 3"),
      std::string::npos
  );
  simulation.world().job.metadata.labels.clear();
  EXPECT_TRUE(simulation.run_until_idle());
  EXPECT_EQ(simulation.world().pods.size(), 4U);
  simulation.world().job.metadata.labels["kueue.x-k8s.io/queue-name"] = "another";
  simulation.evict_workloads("Preempted");
  for (int i = 0; i < 4; ++i) {
    (void)simulation.run_until_idle();
    simulation.finish_leaving();
  }
  EXPECT_EQ(workload_of(simulation).queue, "another");
  EXPECT_EQ(workload_of(simulation).pod_sets.at(1).count, 3);
}

// A label of the job may name another Workload at any time.
TEST(Queue, AWorkloadThatIsNotWantedAnyMoreGivesItsQuotaBackOnceNoPodIsLeft) {
  Simulation simulation = running_simulation(small_job());
  simulation.world().job.metadata.labels["kueue.x-k8s.io/prebuilt-workload-name"] = "none-such";
  (void)simulation.run_until_idle();
  ASSERT_EQ(simulation.world().workloads.size(), 1U);
  EXPECT_TRUE(workload_of(simulation).admission) << "its pods still stop";
  simulation.finish_leaving();
  (void)simulation.run_until_idle();
  EXPECT_TRUE(simulation.world().pods.empty());
  EXPECT_TRUE(simulation.world().workloads.empty());
  EXPECT_EQ(
      condition_of(simulation, condition::kScheduled).message, "Waiting for Workload none-such"
  );
  // And back.
  simulation.world().job.metadata.labels.erase("kueue.x-k8s.io/prebuilt-workload-name");
  (void)simulation.run_until_idle();
  simulation.admit_workloads();
  (void)simulation.run_until_idle();
  EXPECT_EQ(simulation.world().pods.size(), 2U);
}

TEST(Queue, TheWorkloadThatPreparedTheDataStaysFinished) {
  Simulation simulation = queued_simulation(job_with_prepare());
  (void)simulation.run_until_idle();
  simulation.admit_workloads();
  (void)simulation.run_until_idle();
  ready_all(simulation);
  simulation.end_pod(0, 0);
  (void)simulation.run_until_idle();
  simulation.admit_workloads();
  (void)simulation.run_until_idle();
  ASSERT_EQ(simulation.world().workloads.size(), 2U);
  EXPECT_TRUE(objects::is_true(workload_of(simulation), "Finished"));
}

// Its flavor cannot be read, so that it has no pod: none was deleted.
TEST(Queue, AGroupThatIsNotMadeForLackOfAFlavorHasLostNoPod) {
  api::GnnJob job = small_job();
  job.spec.scheduling.emplace().provider = api::GangProvider::Coscheduling;
  Simulation simulation = queued_simulation(job);
  simulation.world().config.group_apis = {objects::GroupApi::Coscheduling};
  simulation.world().group_apis = {objects::GroupApi::Coscheduling};
  simulation.world().flavors.clear();
  (void)simulation.run_until_idle();
  simulation.admit_workloads();
  for (int i = 0; i < 5; ++i) {
    (void)simulation.run_until_idle();
    simulation.advance(60);
  }
  EXPECT_LE(simulation.status().attempt, 1);
  EXPECT_TRUE(simulation.status().failures.empty());
  const api::Condition& scheduled = condition_of(simulation, condition::kScheduled);
  EXPECT_EQ(scheduled.reason, "Queued");
  EXPECT_NE(scheduled.message.find("flavor"), std::string::npos) << scheduled.message;
  simulation.world().flavors["flavor"] = {};
  (void)simulation.run_until_idle();
  EXPECT_EQ(simulation.world().pods.size(), 2U);
  EXPECT_EQ(simulation.status().scheduling->group, "arxiv-1");
  // From now on a missing pod was deleted.
  simulation.world().pods.pop_back();
  (void)simulation.run_until_idle();
  EXPECT_EQ(simulation.status().attempt, 2);
}

TEST(Queue, PreparationHasAWorkloadOfItsOwn) {
  Simulation simulation = queued_simulation(job_with_prepare());
  EXPECT_TRUE(simulation.run_until_idle());
  ASSERT_EQ(simulation.world().workloads.size(), 1U);
  EXPECT_EQ(workload_of(simulation).pod_sets.at(0).name, "prepare");
  EXPECT_EQ(workload_of(simulation).pod_sets.at(0).count, 1);
  simulation.admit_workloads();
  (void)simulation.run_until_idle();
  ASSERT_EQ(simulation.world().pods.size(), 1U);
  ready_all(simulation);
  simulation.end_pod(0, 0);
  EXPECT_TRUE(simulation.run_until_idle());
  ASSERT_EQ(simulation.world().workloads.size(), 2U);
  EXPECT_TRUE(objects::is_true(workload_of(simulation), "Finished"));
  EXPECT_TRUE(workload_of(simulation).metadata.finalizers.empty());
  EXPECT_EQ(simulation.world().workloads[1].pod_sets.at(0).name, "workers");
  // The pod that has prepared the data stays for its log, and is in nobody's way.
  EXPECT_EQ(simulation.world().pods.size(), 1U);
  simulation.admit_workloads();
  EXPECT_TRUE(simulation.run_until_idle());
  EXPECT_EQ(simulation.world().pods.size(), 3U);
}

TEST(Queue, AGroupIsMadeOnceTheJobIsAdmitted) {
  api::GnnJob job = small_job();
  job.spec.scheduling.emplace();
  Simulation simulation = queued_simulation(job);
  simulation.world().config.group_apis = {objects::GroupApi::Native};
  simulation.world().group_apis = {objects::GroupApi::Native};
  EXPECT_TRUE(simulation.run_until_idle());
  EXPECT_TRUE(simulation.world().groups.empty());
  simulation.admit_workloads();
  EXPECT_TRUE(simulation.run_until_idle());
  EXPECT_EQ(simulation.live_groups(), 1);
  EXPECT_EQ(simulation.status().scheduling->group, "arxiv-1");
  EXPECT_EQ(simulation.status().scheduling->cluster_queue, "cluster-queue");
}

TEST(Queue, ALabelThatIsSetAndTakenOffWhilePodsLeaveIsNoFailure) {
  for (const bool gone : {false, true}) {
    Simulation simulation = queued_simulation(job_with_servers());
    simulation.world().job.metadata.labels.clear();
    simulation.world().job.spec.run_policy.failure_policy.rules = {
        {.reasons = {api::FailureReason::PodDeleted, api::FailureReason::Preempted},
         .action = api::FailureAction::Fail},
        {.role = api::FailureRole::Server,
         .reasons = {api::FailureReason::PodDeleted, api::FailureReason::Preempted},
         .action = api::FailureAction::Fail}
    };
    (void)simulation.run_until_idle();
    ready_all(simulation);
    (void)simulation.run_until_idle();
    ASSERT_EQ(simulation.status().state, "Running");
    simulation.world().job.metadata.labels["kueue.x-k8s.io/queue-name"] = "queue";
    (void)simulation.reconcile();
    (void)simulation.reconcile();
    (void)simulation.reconcile();
    if (gone) simulation.finish_leaving();
    simulation.world().job.metadata.labels.clear();
    (void)simulation.run_until_idle();
    simulation.finish_leaving();
    (void)simulation.run_until_idle();
    simulation.finish_leaving();
    (void)simulation.run_until_idle();
    ready_all(simulation);
    (void)simulation.run_until_idle();
    EXPECT_TRUE(simulation.status().failures.empty());
    EXPECT_EQ(simulation.status().attempt, 2);
    EXPECT_EQ(simulation.status().state, "Running") << simulation.status().message;
  }
}

}  // namespace
}  // namespace gnn::reconcile
