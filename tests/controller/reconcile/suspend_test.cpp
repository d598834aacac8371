#include "controller/reconcile/suspend.h"

#include "tests/controller/reconcile/builders.h"

#include <gtest/gtest.h>

namespace gnn::reconcile {
namespace {

TEST(Suspend, StartsNothing) {
  Observed observed;
  observed.job = small_job();
  observed.job.spec.suspend = true;
  const Plan result = plan(observed);
  EXPECT_TRUE(result.actions.empty());
  EXPECT_EQ(result.status.state, "Suspended");
  EXPECT_EQ(result.status.attempt, 0);
  Observed resumed = next(observed, result);
  resumed.job.spec.suspend = false;
  const Plan starts = plan(resumed);
  EXPECT_EQ(count_of<CreatePod>(starts), 2);
  EXPECT_EQ(starts.status.attempt, 1);
  EXPECT_FALSE(is_true(starts.status, condition::kSuspended));
}

TEST(Suspend, IsTrueOnceNoPodIsLeft) {
  Observed observed = running();
  observed.job.spec.suspend = true;
  const Plan stops = plan(observed);
  EXPECT_EQ(count_of<DeletePod>(stops), 2);
  EXPECT_FALSE(is_true(stops.status, condition::kSuspended));
  EXPECT_EQ(stops.status.state, "Suspending");

  Observed leaving = next(observed, stops);
  for (objects::Pod& pod : leaving.pods) {
    pod.metadata.finalizers.clear();
    mark_deleted(pod, at(200));
  }
  EXPECT_TRUE(plan(leaving).actions.empty());
  EXPECT_FALSE(is_true(plan(leaving).status, condition::kSuspended));

  Observed gone = next(leaving, plan(leaving));
  gone.pods.clear();
  const Plan suspended = plan(gone);
  EXPECT_TRUE(is_true(suspended.status, condition::kSuspended));
  EXPECT_FALSE(suspended.status.start_time);
  EXPECT_EQ(suspended.status.restarts, 0);

  Observed resumed = next(gone, suspended, 500);
  resumed.job.spec.suspend = false;
  const Plan raises = plan(resumed);
  EXPECT_EQ(raises.status.attempt, 2);
  EXPECT_TRUE(raises.actions.empty());
  const Plan creates = plan(next(resumed, raises));
  EXPECT_EQ(count_of<CreatePod>(creates), 2);
  EXPECT_EQ(creates.status.start_time, at(533)) << "the deadline starts over";
}

TEST(Suspend, StopsTheDeadline) {
  Observed observed = running();
  observed.job.spec.suspend = true;
  observed.job.spec.run_policy.active_deadline_seconds = 1;
  observed.now = at(10000);
  EXPECT_FALSE(is_true(plan(observed).status, condition::kFailed));
}

TEST(Suspend, AJobThatSucceedsMeanwhileIsComplete) {
  Observed observed = running();
  observed.job.spec.suspend = true;
  for (objects::Pod& pod : observed.pods) end_container(pod, 0);
  EXPECT_TRUE(is_true(plan(observed).status, condition::kComplete));
}

TEST(Suspend, ResumingBeforeAllPodsAreGoneIsNotCharged) {
  Observed observed = running();
  observed.job.spec.suspend = true;
  Observed back = next(observed, plan(observed));
  back.job.spec.suspend = false;
  for (objects::Pod& pod : back.pods) mark_deleted(pod, at(31), 0);
  const Plan result = plan(back);
  EXPECT_EQ(result.status.attempt, 2);
  EXPECT_EQ(result.status.restarts, 0);
}

}  // namespace
}  // namespace gnn::reconcile
