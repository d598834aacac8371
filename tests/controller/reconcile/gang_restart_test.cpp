#include "controller/reconcile/gang_restart.h"

#include "tests/controller/reconcile/builders.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gnn::reconcile {
namespace {

TEST(GangRestart, TakesTwoPasses) {
  Observed observed = running();
  end_container(observed.pods[1], 1);
  const Plan first = plan(observed);
  EXPECT_TRUE(first.actions.empty());
  EXPECT_EQ(first.status.state, "Restarting");
  EXPECT_EQ(event_reasons(first), (std::vector<std::string>{"Creating", "Restarting"}));

  Observed second = next(observed, first);
  const Plan clears = plan(second);
  EXPECT_EQ(count_of<ReleasePod>(clears), 2);
  EXPECT_EQ(count_of<DeletePod>(clears), 2);
  EXPECT_EQ(count_of<CreatePod>(clears), 0);
  // The second pass once more, after a crash: the same.
  EXPECT_EQ(plan(second).actions.size(), clears.actions.size());

  Observed one_left = next(second, clears);
  one_left.pods.erase(one_left.pods.begin());
  mark_deleted(one_left.pods[0], at(200));
  one_left.pods[0].metadata.finalizers.clear();
  EXPECT_TRUE(plan(one_left).actions.empty());

  Observed none_left = next(one_left, plan(one_left));
  none_left.pods.clear();
  const Plan creates = plan(none_left);
  ASSERT_EQ(count_of<CreatePod>(creates), 2);
  EXPECT_EQ(actions_of<CreatePod>(creates)[0].pod.metadata.name, "arxiv-2-0");
  EXPECT_EQ(creates.status.state, "Restarting");
}

TEST(GangRestart, EndsWhenTheNewAttemptRuns) {
  Observed observed = running();
  end_container(observed.pods[1], 1);
  Observed later = next(observed, plan(observed));
  later.pods = {pod_of(later.job, 0, 2), pod_of(later.job, 1, 2)};
  for (objects::Pod& pod : later.pods) make_ready(pod);
  const Plan result = plan(later);
  EXPECT_EQ(result.status.state, "Running");
  EXPECT_FALSE(is_true(result.status, condition::kRestarting));
  EXPECT_EQ(reason_of(result, condition::kRestarting), reason::kRestarted);
}

TEST(GangRestart, WaitsForADeletedPodToStop) {
  Observed observed = running();
  mark_deleted(observed.pods[1], at(150));
  const Plan leaving = plan(observed);
  EXPECT_TRUE(leaving.actions.empty());
  EXPECT_EQ(leaving.status.attempt, 1);
  EXPECT_EQ(leaving.status.state, "Running");
  ASSERT_TRUE(leaving.requeue_after);
  EXPECT_EQ(observed.now + *leaving.requeue_after, at(180));

  Observed later = next(observed, leaving);
  end_container(later.pods[1], contract::kExitPreempted);
  const Plan restarts = plan(later);
  EXPECT_EQ(restarts.status.attempt, 2);
  EXPECT_EQ(restarts.status.restarts, 0);
  EXPECT_EQ(reason_of(restarts, condition::kRestarting), reason::kPodDeleted);
}

TEST(GangRestart, FollowsAVanishedPodInsteadOfRecreatingIt) {
  Observed observed = running();
  observed.pods.pop_back();
  const Plan result = plan(observed);
  EXPECT_EQ(count_of<CreatePod>(result), 0);
  EXPECT_EQ(result.status.attempt, 2);
  EXPECT_EQ(reason_of(result, condition::kRestarting), reason::kPodDeleted);
}

TEST(GangRestart, WaitsForPodsOfAnEarlierJob) {
  api::GnnJob old = small_job();
  old.metadata.uid = "uid-of-the-old-one";
  Observed observed;
  observed.job = small_job();
  objects::Pod left = pod_of(old, 0);
  make_ready(left);
  mark_deleted(left, at(100));
  observed.pods = {left};
  const Plan waits = plan(observed);
  EXPECT_EQ(count_of<CreatePod>(waits), 0);
  EXPECT_EQ(count_of<DeletePod>(waits), 0);
  ASSERT_EQ(count_of<ReleasePod>(waits), 1);
  EXPECT_EQ(actions_of<ReleasePod>(waits)[0].uid, left.metadata.uid);
  Observed later = next(observed, waits);
  later.pods.clear();
  EXPECT_EQ(count_of<CreatePod>(plan(later)), 2);
}

TEST(GangRestart, ForceDeletesALostPodOfAnEarlierJob) {
  api::GnnJob old = small_job();
  old.metadata.uid = "uid-of-the-old-one";
  Observed observed;
  observed.job = small_job();
  observed.now = at(110);
  objects::Pod left = pod_of(old, 0);
  make_ready(left);
  mark_deleted(left, at(100));
  std::erase(left.metadata.finalizers, std::string(contract::kPodFinalizer));
  observed.pods = {left};
  const Plan waits = plan(observed);
  EXPECT_TRUE(waits.actions.empty());
  ASSERT_TRUE(waits.requeue_after);
  EXPECT_EQ(observed.now + *waits.requeue_after, at(130));
  EXPECT_EQ(reason_of(waits, condition::kScheduled), reason::kCreating);
  EXPECT_EQ(
      message_of(waits, condition::kScheduled),
      "Waiting for pod arxiv-1-0 of an earlier GNNJob of this name to terminate on machine"
  );

  const Plan takes = plan(next(observed, waits, 20));
  EXPECT_EQ(count_of<CreatePod>(takes), 0);
  const auto deletes = actions_of<DeletePod>(takes);
  ASSERT_EQ(deletes.size(), 1U);
  EXPECT_EQ(deletes[0].uid, left.metadata.uid);
  EXPECT_EQ(deletes[0].grace_period_seconds, 0);
}

TEST(GangRestart, APodThatOnlyAnothersFinalizerKeepsIsNotWaitedFor) {
  Observed observed = running();
  end_container(observed.pods[0], 1);
  observed.pods[0].metadata.finalizers.emplace_back("somebody.else/keeps");
  Observed later = next(observed, plan(observed));
  const Plan removes = plan(later);
  EXPECT_EQ(count_of<CreatePod>(removes), 0);
  EXPECT_EQ(count_of<DeletePod>(removes), 2);
  later = next(later, removes);
  later.pods.pop_back();
  objects::Pod& kept = later.pods[0];
  kept.metadata.finalizers = {"somebody.else/keeps"};
  // As long as its containers may run, it is waited for, and the finalizer is named.
  Observed runs = later;
  runs.pods[0].status.phase = "Running";
  mark_deleted(runs.pods[0], at(200));
  const Plan waits = plan(runs);
  EXPECT_EQ(count_of<CreatePod>(waits), 0);
  EXPECT_EQ(
      message_of(waits, condition::kScheduled),
      "Waiting for pod arxiv-1-0 of an earlier attempt to terminate on machine; it has the "
      "finalizer "
      "somebody.else/keeps"
  );
  mark_deleted(kept, at(32));
  const Plan starts = plan(later);
  EXPECT_EQ(count_of<CreatePod>(starts), 2);
  EXPECT_EQ(count_of<DeletePod>(starts), 0);
}

TEST(GangRestart, APodThatOnlyAnothersFinalizerKeepsHoldsNoSuspensionUp) {
  Observed observed = running();
  observed.job.spec.suspend = true;
  observed = next(observed, plan(observed));
  observed = next(observed, plan(observed));
  observed.pods.pop_back();
  end_container(observed.pods[0], contract::kExitPreempted);
  observed.pods[0].metadata.finalizers = {"somebody.else/keeps"};
  mark_deleted(observed.pods[0], at(40));
  EXPECT_EQ(plan(observed).status.state, "Suspended");
}

}  // namespace
}  // namespace gnn::reconcile
