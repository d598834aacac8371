#include "controller/reconcile/stored_times.h"

#include "tests/controller/reconcile/builders.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace gnn::reconcile {
namespace {

using namespace std::chrono_literals;

// What ends a wait for good, and how one sees that it was done.
struct Decision {
  std::string name;
  Observed due;
  std::function<bool(const Plan&)> is_made;
};

Observed with_deadline() {
  Observed observed = running();
  observed.job.spec.run_policy.active_deadline_seconds = 100;
  observed.job.status.start_time = at(0);
  observed.now = at(101);
  return observed;
}

Observed finished_with_time_to_live() {
  Observed observed = running();
  observed.job.spec.run_policy.ttl_seconds_after_finished = 60;
  for (objects::Pod& pod : observed.pods) end_container(pod, 0);
  observed = next(observed, plan(observed));
  observed.pods.clear();
  observed.now += 100s;
  return observed;
}

Observed waiting_for_places() {
  Observed observed = running();
  observed.job.status = {};
  observed.pods = {pod_of(observed.job, 0), pod_of(observed.job, 1)};
  observed.now = at(1);
  observed = next(observed, plan(observed));
  observed.now = at(observed.job.spec.run_policy.scheduling_timeout_seconds + 1);
  return observed;
}

Observed waiting_to_start() {
  Observed observed = running();
  observed.job.status = {};
  for (objects::Pod& pod : observed.pods) {
    pod = pod_of(observed.job, pod.metadata.name.ends_with("0") ? 0 : 1);
    schedule(pod);
    objects::ContainerStatus waits;
    waits.name = contract::kWorkerContainer;
    waits.state.waiting.emplace();
    waits.state.waiting->reason = "ImagePullBackOff";
    pod.status.container_statuses = {waits};
  }
  observed.now = at(1);
  observed = next(observed, plan(observed));
  observed.now = at(observed.job.spec.run_policy.startup_deadline_seconds + 3);
  return observed;
}

Observed overdue_pod() {
  Observed observed = running();
  mark_deleted(observed.pods[1], at(20));
  observed.now = at(52);
  return observed;
}

Observed overdue_pod_of_an_earlier_attempt() {
  Observed observed = running();
  observed.job.status.attempt = 2;
  // The pods of that attempt have not been made yet.
  for (api::Condition& each : observed.job.status.conditions) {
    if (each.type != condition::kScheduled && each.type != condition::kRunning) continue;
    each.status = "False";
    each.reason = reason::kCreating;
  }
  mark_deleted(observed.pods[1], at(20));
  observed.pods.erase(observed.pods.begin());
  observed.now = at(52);
  return observed;
}

std::vector<Decision> final_decisions() {
  return {
      {"activeDeadlineSeconds",
       with_deadline(),
       [](const Plan& made) { return is_true(made.status, condition::kFailed); }},
      {"ttlSecondsAfterFinished",
       finished_with_time_to_live(),
       [](const Plan& made) { return count_of<DeleteJob>(made) == 1; }},
      {"schedulingTimeoutSeconds",
       waiting_for_places(),
       [](const Plan& made) { return made.status.releases == 1; }},
      {"startupDeadlineSeconds",
       waiting_to_start(),
       [](const Plan& made) { return made.status.restarts == 1; }},
      {"a machine that is lost",
       overdue_pod(),
       [](const Plan& made) { return made.status.last_failure.has_value(); }},
      {"a pod that is taken from its machine",
       overdue_pod_of_an_earlier_attempt(),
       [](const Plan& made) {
         const auto deletes = actions_of<DeletePod>(made);
         return deletes.size() == 1 && deletes[0].grace_period_seconds == 0;
       }},
  };
}

TEST(UncertainTime, EndsNothingBeforeItIsConfirmed) {
  for (Decision& each : final_decisions()) {
    EXPECT_TRUE(each.is_made(plan(each.due))) << each.name;
    each.due.now_ahead_at_most = 1h;
    const Plan waits = plan(each.due);
    EXPECT_FALSE(each.is_made(waits)) << each.name;
    ASSERT_TRUE(waits.requeue_after) << each.name;
    EXPECT_GT(*waits.requeue_after, 0s) << each.name;
    EXPECT_LE(*waits.requeue_after, 5s) << each.name;
    each.due.now_ahead_at_most = 100ms;
    EXPECT_TRUE(each.is_made(plan(each.due))) << each.name << ": it ended more than 100 ms ago";
  }
}

// The clock was an hour ahead when the failure was seen, and was set right then.
TEST(StoredTimes, ABackOffIsNotLongerThanTheLongestThatThereIs) {
  Observed observed = running();
  observed.job.spec.run_policy.failure_policy.backoff.max_seconds = 60;
  observed.job.spec.run_policy.failure_policy.backoff.healthy_seconds = 86'400;
  observed.job.status.backoff.charged = 1;
  observed.now += 1h;
  end_container(observed.pods[0], 1);
  Observed later = next(observed, plan(observed));
  ASSERT_GT(later.job.status.next_attempt_time, later.now);
  later.now -= 1h;
  later.pods.clear();
  const Plan waits = plan(later);
  EXPECT_LE(waits.status.next_attempt_time, later.now + 61s);
  EXPECT_LE(waits.requeue_after, 61s);
  EXPECT_EQ(count_of<CreatePod>(waits), 0);
}

TEST(StoredTimes, AReleasedGangWaitsNoLongerThanTheLongestRelease) {
  Observed observed = waiting_for_places();
  observed.now += 1h;
  Observed later = next(observed, plan(observed));
  later.now -= 1h;
  later.pods.clear();
  const Plan waits = plan(later);
  EXPECT_LE(waits.status.next_attempt_time, later.now + 15min + 1s);
}

TEST(StoredTimes, AServersNextPodWaitsNoLongerThanTheLongestBackOff) {
  Observed observed = running();
  observed.job = job_with_servers();
  observed.job.spec.run_policy.failure_policy.backoff.max_seconds = 60;
  observed.job.status = running().job.status;
  observed.job.status.servers.emplace();
  observed.job.status.servers->pods = {
      {.server = 0, .restart = 1, .failures = 3, .next_time = observed.now + 1h}
  };
  const Plan waits = plan(observed);
  ASSERT_FALSE(waits.status.servers->pods.empty());
  EXPECT_LE(waits.status.servers->pods[0].next_time, observed.now + 61s);
}

TEST(StoredTimes, StampsOfTheFutureBecomeNow) {
  Observed observed = running();
  observed.job.spec.run_policy.active_deadline_seconds = 100;
  observed.job.status.start_time = observed.now + 1h;
  for (api::Condition& each : observed.job.status.conditions) {
    each.last_transition_time = observed.now + 1h;
  }
  const Plan made = plan(observed);
  EXPECT_EQ(made.status.start_time, observed.now);
  EXPECT_EQ(made.requeue_after, 100s);
  for (const api::Condition& each : made.status.conditions) {
    EXPECT_LE(each.last_transition_time, observed.now) << each.type;
  }
}

// The clock was a year ahead when the job finished, or somebody who may write the status has done so.
TEST(StoredTimes, ATimeToLiveEndsInTimeWhateverTheCompletionTimeSays) {
  Observed observed = finished_with_time_to_live();
  observed.job.status.completion_time = observed.now + 8760h;
  const Plan cut = plan(observed);
  EXPECT_EQ(count_of<DeleteJob>(cut), 0);
  EXPECT_EQ(cut.requeue_after, 60s);
  Observed later = next(observed, cut);
  EXPECT_EQ(later.job.status.completion_time, observed.now);
  EXPECT_EQ(plan(later).status, later.job.status) << "it is cut once";
  later.now = observed.now + 60s;
  EXPECT_EQ(count_of<DeleteJob>(plan(later)), 1);

  observed.now_behind_at_most = 8761h;
  EXPECT_EQ(plan(observed).status, observed.job.status) << "that may be right";
}

TEST(StoredTimes, StayWhereTheClockMayBeBehind) {
  Observed observed = running();
  observed.job.status.start_time = observed.now + 1h;
  observed.job.status.next_attempt_time = observed.now + 2h;
  observed.now_behind_at_most = 2h;
  const Plan made = plan(observed);
  EXPECT_EQ(made.status.start_time, observed.job.status.start_time);
}

}  // namespace
}  // namespace gnn::reconcile
