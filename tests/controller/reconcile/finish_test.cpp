#include "controller/reconcile/finish.h"

#include "tests/controller/reconcile/builders.h"

#include <gtest/gtest.h>

#include <chrono>
#include <utility>

namespace gnn::reconcile {
namespace {

using std::chrono::seconds;

TEST(Finish, NothingChangesAfterwards) {
  Observed observed = running();
  for (objects::Pod& pod : observed.pods) end_container(pod, 0);
  observed.job.status = plan(observed).status;
  const api::GnnJobStatus finished = observed.job.status;
  observed.pods.clear();
  observed.now = at(100000);
  EXPECT_EQ(plan(observed).status, finished);
  EXPECT_TRUE(plan(observed).actions.empty());
  observed.job.spec.suspend = true;
  observed.job.spec.run_policy.active_deadline_seconds = 1;
  EXPECT_EQ(plan(observed).status, finished);
  // Later generations are observed, or `kubectl wait` would not trust the condition.
  observed.job.metadata.generation = 2;
  const Plan observed_again = plan(observed);
  EXPECT_EQ(observed_again.status.observed_generation, 2);
  for (const api::Condition& each : observed_again.status.conditions) {
    EXPECT_EQ(each.observed_generation, 2);
  }
}

TEST(Finish, CleanPodPolicyDecidesWhichPodsStay) {
  for (const auto& [policy, deletes] :
       {std::pair{api::CleanPodPolicy::Running, 1},
        std::pair{api::CleanPodPolicy::All, 2},
        std::pair{api::CleanPodPolicy::None, 0}}) {
    Observed observed = running();
    observed.job.spec.run_policy.clean_pod_policy = policy;
    end_container(observed.pods[0], 64);
    const Plan failed = plan(observed);
    EXPECT_TRUE(failed.actions.empty()) << "the condition is written before pods are deleted";
    const Plan cleans = plan(next(observed, failed));
    EXPECT_EQ(count_of<DeletePod>(cleans), deletes);
    EXPECT_EQ(count_of<ReleasePod>(cleans), 2);
  }
}

// The kubelet reports the container's end first and the pod's later; by then the job is Complete.
TEST(Finish, KeepsAFinishedPodWhosePhaseIsStillRunning) {
  Observed observed = running();
  for (objects::Pod& pod : observed.pods) {
    end_container(pod, 0);
    pod.status.phase = "Running";
  }
  const Plan completes = plan(observed);
  EXPECT_TRUE(is_true(completes.status, condition::kComplete));
  const Plan cleans = plan(next(observed, completes));
  EXPECT_EQ(count_of<DeletePod>(cleans), 0) << "its logs are read later";
  EXPECT_EQ(count_of<ReleasePod>(cleans), 2);
}

TEST(Finish, ASidecarDoesNotKeepAPod) {
  Observed observed = running();
  for (objects::Pod& pod : observed.pods) {
    end_container(pod, 0);
    pod.status.phase = "Running";
    objects::ContainerStatus sidecar;
    sidecar.name = "proxy";
    sidecar.state.running.emplace();
    pod.status.container_statuses.push_back(sidecar);
  }
  const Plan completes = plan(observed);
  EXPECT_TRUE(is_true(completes.status, condition::kComplete));
  EXPECT_EQ(count_of<DeletePod>(plan(next(observed, completes))), 2);

  observed.job.spec.run_policy.clean_pod_policy = api::CleanPodPolicy::None;
  EXPECT_EQ(count_of<DeletePod>(plan(next(observed, completes))), 0);
}

TEST(Finish, AFailedJobOccupiesNoMachine) {
  Observed observed = running(3);
  observed.job.spec.run_policy.clean_pod_policy = api::CleanPodPolicy::None;
  observed.pods[2].spec.node_name.clear();
  observed.job.spec.run_policy.active_deadline_seconds = 100;
  observed.job.status.start_time = at(0);
  observed.now = at(100);
  end_container(observed.pods[0], contract::kExitPeerLost);
  const Plan failed = plan(observed);
  EXPECT_TRUE(is_true(failed.status, condition::kFailed));
  Observed later = next(observed, failed);
  const Plan stops = plan(later);
  // The kubelet stops what runs, and its logs stay; an unscheduled pod has none.
  const auto stopped = actions_of<StopPod>(stops);
  ASSERT_EQ(stopped.size(), 1U);
  EXPECT_EQ(stopped[0].uid, observed.pods[1].metadata.uid);
  const auto deleted = actions_of<DeletePod>(stops);
  ASSERT_EQ(deleted.size(), 1U);
  EXPECT_EQ(deleted[0].uid, observed.pods[2].metadata.uid);
  later.pods[1].spec.active_deadline_seconds = 1;
  EXPECT_EQ(count_of<StopPod>(plan(later)), 0);
}

TEST(Finish, TimeToLiveDeletesOnlyFinishedJobs) {
  Observed observed = running();
  observed.job.spec.run_policy.ttl_seconds_after_finished = 60;
  observed.now = at(1000);
  EXPECT_EQ(count_of<DeleteJob>(plan(observed)), 0);
  observed.job.spec.suspend = true;
  EXPECT_EQ(count_of<DeleteJob>(plan(observed)), 0);
  observed.job.spec.suspend = false;
  for (objects::Pod& pod : observed.pods) end_container(pod, 0);
  Observed finished = next(observed, plan(observed), 0);
  EXPECT_EQ(plan(finished).requeue_after, Duration(seconds(60)));
  finished.now = at(1060);
  const auto deletes = actions_of<DeleteJob>(plan(finished));
  ASSERT_EQ(deletes.size(), 1U);
  EXPECT_EQ(deletes[0].uid, observed.job.metadata.uid);
}

TEST(Finish, TheDeadlineFailsTheJobAndThenRemovesItsPods) {
  Observed observed = running();
  observed.job.spec.run_policy.active_deadline_seconds = 100;
  observed.job.status.start_time = at(0);
  const Plan before = plan(observed);
  EXPECT_EQ(observed.now + *before.requeue_after, at(100));
  observed.now = at(100);
  const Plan ends = plan(observed);
  EXPECT_EQ(reason_of(ends, condition::kFailed), reason::kDeadlineExceeded);
  EXPECT_TRUE(ends.actions.empty());
  // Once that is written the pods are deleted, in as many passes as it takes.
  const Observed later = next(observed, ends);
  EXPECT_EQ(count_of<DeletePod>(plan(later)), 2);
  EXPECT_EQ(count_of<DeletePod>(plan(later)), 2);
}

TEST(Finish, DeletionReleasesEveryPod) {
  Observed observed = running();
  observed.job.metadata.deletion_timestamp = at(31);
  const Plan result = plan(observed);
  EXPECT_EQ(count_of<ReleasePod>(result), 2);
  EXPECT_EQ(count_of<DeletePod>(result), 2);
  EXPECT_EQ(result.status, observed.job.status);
}

TEST(Finish, AJobThatIsDeletedAloneReleasesItsPodsAndDeletesNone) {
  Observed observed = running();
  observed.job.metadata.deletion_timestamp = at(40);
  observed.job.metadata.finalizers = {"orphan"};
  const Plan result = plan(observed);
  EXPECT_EQ(count_of<ReleasePod>(result), 2);
  EXPECT_EQ(count_of<DeletePod>(result), 0);
  EXPECT_EQ(count_of<CreatePod>(result), 0);
  EXPECT_EQ(result.status, observed.job.status);
  for (const char* other : {"foregroundDeletion", "somebody.else/keeps"}) {
    observed.job.metadata.finalizers = {other};
    EXPECT_EQ(count_of<DeletePod>(plan(observed)), 2) << other;
  }
}

}  // namespace
}  // namespace gnn::reconcile
