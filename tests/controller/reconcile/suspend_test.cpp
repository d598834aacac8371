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
  const Plan says = plan(observed);
  EXPECT_TRUE(says.actions.empty()) << "the status tells of the stop before a pod is deleted";
  EXPECT_EQ(says.status.state, "Suspending");
  const Observed told = next(observed, says);
  const Plan stops = plan(told);
  EXPECT_EQ(count_of<DeletePod>(stops), 2);
  EXPECT_FALSE(is_true(stops.status, condition::kSuspended));
  EXPECT_EQ(stops.status.state, "Suspending");

  Observed leaving = next(told, stops);
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
  EXPECT_EQ(creates.status.start_time, at(534)) << "the deadline starts over";
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

// What can have become of a pod that the operator has deleted.
enum class Rest { Leaving, Gone, SavedAndLeft, Failed, OnlyHeld };

void leave(Observed& observed, Rest rest) {
  if (rest == Rest::Gone) return observed.pods.clear();
  for (objects::Pod& pod : observed.pods) {
    pod.metadata.finalizers.clear();
    mark_deleted(pod, at(150), rest == Rest::OnlyHeld ? 0 : 120);
    if (rest == Rest::SavedAndLeft) end_container(pod, contract::kExitPreempted);
    if (rest == Rest::Failed) end_container(pod, contract::kExitConfiguration);
  }
}

TEST(Suspend, AStopThatIsTakenBackBeforeThePodsAreGoneIsNoFailure) {
  for (const bool prepares : {false, true}) {
    for (const Rest rest :
         {Rest::Leaving, Rest::Gone, Rest::SavedAndLeft, Rest::Failed, Rest::OnlyHeld}) {
      Observed observed = running();
      if (prepares) {
        observed.job = job_with_prepare();
        objects::Pod pod = desired_prepare_pod(observed.job, 1);
        pod.metadata.uid = "uid-of-prepare";
        pod.metadata.creation_timestamp = at(0);
        observed.pods = {make_ready(pod)};
        observed.job.status = plan(observed).status;
        ASSERT_EQ(observed.job.status.state, "Preparing");
      }
      api::RunPolicy& policy = observed.job.spec.run_policy;
      policy.failure_policy.rules = {
          {.reasons =
               {api::FailureReason::PodDeleted,
                api::FailureReason::Preempted,
                api::FailureReason::Configuration},
           .action = api::FailureAction::Fail}
      };
      policy.active_deadline_seconds = 40;
      observed.job.spec.suspend = true;
      observed = next(observed, plan(observed));
      const Plan stops = plan(observed);
      ASSERT_GT(count_of<DeletePod>(stops), 0);
      // The one that follows is another controller: it knows nothing but the status and the pods.
      Observed back = next(observed, stops, 20);
      back.awaits_culprit_since.reset();
      leave(back, rest);
      back.job.spec.suspend = false;
      EXPECT_TRUE(vanished_pods(back).empty() || rest == Rest::Gone);
      const Plan resumes = plan(back);
      EXPECT_FALSE(is_true(resumes.status, condition::kFailed)) << static_cast<int>(rest);
      EXPECT_TRUE(resumes.status.failures.empty()) << static_cast<int>(rest);
      EXPECT_EQ(resumes.status.attempt, 2) << static_cast<int>(rest);
      EXPECT_EQ(resumes.status.restarts, 0);
      EXPECT_FALSE(resumes.status.next_attempt_time);
      back = next(back, resumes);
      back.pods.clear();
      EXPECT_EQ(count_of<CreatePod>(plan(back)), prepares ? 1 : 2) << static_cast<int>(rest);
    }
  }
}

TEST(Suspend, AFailureBeforeTheStopIsToldCountsOnceItIsTakenBackAtOnce) {
  Observed observed = running();
  observed.job.spec.suspend = true;
  (void)plan(observed);  // the status was never written: nothing was deleted
  observed.job.spec.suspend = false;
  EXPECT_EQ(plan(observed).status.attempt, 1);
  end_container(observed.pods[0], 1);
  EXPECT_EQ(plan(observed).status.failures.size(), 1U);
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
