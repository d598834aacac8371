#include "controller/reconcile/restart_backoff.h"

#include "tests/controller/reconcile/builders.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace gnn::reconcile {
namespace {

using std::chrono::seconds;

Observed patient() {
  Observed observed = running();
  observed.job.spec.run_policy.max_restarts = 100;
  return observed;
}

void fail_node(Observed& observed) {
  end_container(observed.pods[0], 1, "", observed.now);
}

void evict_node(Observed& observed) {
  observed.pods[0].status.phase = "Failed";
  observed.pods[0].status.reason = "Evicted";
}

// How long the next attempt waits.
int64_t wait_of(const Observed& observed, const Plan& decided) {
  const TimePoint next = decided.status.next_attempt_time.value_or(observed.now);
  return std::chrono::duration_cast<seconds>(next - observed.now).count();
}

// The waits of restarts that follow each other.
std::vector<int64_t> waits(Observed observed, size_t count, void (*disturb)(Observed&)) {
  std::vector<int64_t> found;
  while (found.size() < count) {
    disturb(observed);
    const Plan decided = plan(observed);
    found.push_back(wait_of(observed, decided));
    observed = restarted(observed, decided);
  }
  return found;
}

TEST(RestartBackoff, DoublesWithEachRestartInARow) {
  const std::vector<int64_t> expected = {0, 10, 20, 40, 80, 160, 320, 360, 360};
  EXPECT_EQ(waits(patient(), expected.size(), fail_node), expected);
  EXPECT_EQ(waits(patient(), expected.size(), evict_node), expected);
}

TEST(RestartBackoff, FollowsTheJobsPolicy) {
  Observed observed = patient();
  observed.job.spec.run_policy.failure_policy.backoff = {
      .initial_seconds = 30, .max_seconds = 70, .healthy_seconds = 600
  };
  EXPECT_EQ(waits(observed, 4, fail_node), (std::vector<int64_t>{0, 30, 60, 70}));
}

TEST(RestartBackoff, CountsChargedAndFreeRestartsApart) {
  Observed observed = patient();
  fail_node(observed);
  observed = restarted(observed, plan(observed));
  evict_node(observed);
  const Plan free = plan(observed);
  EXPECT_EQ(wait_of(observed, free), 0);
  EXPECT_EQ(free.status.backoff, (api::RestartStreaks{.charged = 1, .free = 1}));
}

TEST(RestartBackoff, BeginsAgainAfterAHealthyStretch) {
  Observed observed = patient();
  fail_node(observed);
  observed = restarted(observed, plan(observed));
  Observed healthy = observed;
  observed.now += seconds(599);
  fail_node(observed);
  EXPECT_EQ(wait_of(observed, plan(observed)), 10);
  healthy.now += seconds(600);
  fail_node(healthy);
  EXPECT_EQ(wait_of(healthy, plan(healthy)), 0);
}

TEST(RestartBackoff, AnAttemptThatNeverRanIsNotHealthy) {
  Observed observed = patient();
  fail_node(observed);
  observed = restarted(observed, plan(observed));
  fail_node(observed);
  const Plan decided = plan(observed);
  Observed starting = next(observed, decided, 5000);
  starting.pods = {pod_of(starting.job, 0, 3), pod_of(starting.job, 1, 3)};
  for (objects::Pod& pod : starting.pods) schedule(pod);
  starting.job.status = plan(starting).status;
  fail_node(starting);
  EXPECT_EQ(wait_of(starting, plan(starting)), 20);
}

TEST(RestartBackoff, CreatesNoPodBeforeItsTimeAndSaysSo) {
  Observed observed = patient();
  fail_node(observed);
  observed = restarted(observed, plan(observed));
  fail_node(observed);
  const Plan decided = plan(observed);
  EXPECT_EQ(reason_of(decided, condition::kScheduled), reason::kBackOff);
  EXPECT_NE(
      message_of(decided, condition::kScheduled).find("Attempt 3 starts at"), std::string::npos
  );
  Observed waiting = next(observed, decided, 9);
  waiting.pods.clear();
  const Plan waits = plan(waiting);
  EXPECT_EQ(count_of<CreatePod>(waits), 0);
  EXPECT_EQ(waits.requeue_after, Duration(seconds(1)));
  EXPECT_EQ(reason_of(waits, condition::kScheduled), reason::kBackOff);
  waiting.now += seconds(1);
  EXPECT_EQ(count_of<CreatePod>(plan(waiting)), 2);
}

TEST(RestartBackoff, ASuspensionForgetsIt) {
  Observed observed = patient();
  fail_node(observed);
  Observed suspended = next(observed, plan(observed));
  suspended.pods.clear();
  suspended.job.spec.suspend = true;
  EXPECT_EQ(plan(suspended).status.backoff, api::RestartStreaks{});
}

// What a tenant may set to have no back-off at all.
Observed impatient() {
  Observed observed = patient();
  observed.job.spec.run_policy.failure_policy.backoff = {
      .initial_seconds = 1, .max_seconds = 1, .healthy_seconds = 1
  };
  return observed;
}

void leave_by_itself(Observed& observed) {
  end_container(observed.pods[0], contract::kExitPreempted, "", observed.now);
  end_container(observed.pods[1], contract::kExitPreempted, "", observed.now);
}

TEST(RestartBackoff, HasAFloorBelowWhateverTheJobSays) {
  for (const bool charges : {false, true}) {
    for (void (*disturb)(Observed&) : {fail_node, evict_node, leave_by_itself}) {
      Observed observed = impatient();
      if (!charges) {
        observed.job.spec.run_policy.failure_policy.rules = {
            {.reasons = {api::FailureReason::Error},
             .action = api::FailureAction::Restart,
             .charge = false}
        };
      }
      std::vector<int64_t> found;
      while (found.size() < 7) {
        observed.now += seconds(2);
        disturb(observed);
        const Plan decided = plan(observed);
        found.push_back(wait_of(observed, decided));
        observed = restarted(observed, decided);
      }
      EXPECT_EQ(found, (std::vector<int64_t>{0, 0, 10, 10, 10, 10, 10}));
    }
  }
}

TEST(RestartBackoff, TheFloorIsNotForRestartsThatAreFarApart) {
  Observed observed = impatient();
  for (int i = 0; i < 6; ++i) {
    observed.now += seconds(31);
    evict_node(observed);
    const Plan decided = plan(observed);
    EXPECT_EQ(wait_of(observed, decided), 0) << i;
    observed = restarted(observed, decided);
  }
}

TEST(RestartBackoff, ASuspensionDoesNotGetRoundTheFloor) {
  Observed observed = impatient();
  for (int i = 0; i < 3; ++i) {
    evict_node(observed);
    const Plan decided = plan(observed);
    observed = i < 2 ? restarted(observed, decided) : next(observed, decided);
  }
  observed.pods.clear();
  observed.job.spec.suspend = true;
  observed = next(observed, plan(observed));
  ASSERT_EQ(observed.job.status.state, "Suspended");
  observed.job.spec.suspend = false;
  const Plan resumes = plan(observed);
  EXPECT_GT(wait_of(observed, resumes), 5);
  EXPECT_EQ(count_of<CreatePod>(plan(next(observed, resumes))), 0);
  observed.now += seconds(60);
  EXPECT_EQ(wait_of(observed, plan(observed)), 0) << "long after the last failure";
}

}  // namespace
}  // namespace gnn::reconcile
