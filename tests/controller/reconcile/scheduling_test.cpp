#include "controller/reconcile/scheduling.h"

#include "tests/controller/reconcile/builders.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>

namespace gnn::reconcile {
namespace {

using std::chrono::seconds;

Observed half_placed() {
  Observed observed = running();
  observed.job.status = {};
  observed.pods[1] = pod_of(observed.job, 1);
  add_condition(observed.pods[1], "PodScheduled", false, "Unschedulable", "no room");
  observed.job.status = plan(observed).status;
  return observed;
}

TEST(Scheduling, ReleasesAGangThatIsNotScheduledInTime) {
  Observed observed = half_placed();
  EXPECT_EQ(observed.now + *plan(observed).requeue_after, at(600));
  observed.now = at(600);
  const Plan released = plan(observed);
  EXPECT_TRUE(released.actions.empty());
  EXPECT_EQ(released.status.state, "Released");
  EXPECT_EQ(released.status.attempt, 2);
  EXPECT_EQ(released.status.restarts, 0);
  EXPECT_EQ(released.status.releases, 1);
  EXPECT_NE(released.status.message.find("no room"), std::string::npos);
  ASSERT_TRUE(released.status.next_attempt_time);

  const Plan clears = plan(next(observed, released));
  EXPECT_EQ(count_of<DeletePod>(clears), 2);
  Observed waiting = next(observed, released);
  waiting.pods.clear();
  EXPECT_EQ(count_of<CreatePod>(plan(waiting)), 0);
  waiting.now = *released.status.next_attempt_time;
  const Plan tries = plan(waiting);
  EXPECT_EQ(count_of<CreatePod>(tries), 2);
  EXPECT_EQ(reason_of(tries, condition::kScheduled), reason::kPlacing);
}

TEST(Scheduling, ReleasesAGangWhoseNodesGaveUpWaitingForOthersWithoutAPlace) {
  Observed unscheduled = half_placed();
  end_container(unscheduled.pods[0], contract::kExitPeerLost, "", at(29));
  Observed missing = unscheduled;
  missing.pods.pop_back();
  set_condition(
      missing.job.status,
      {.type = condition::kScheduled,
       .holds = false,
       .reason = reason::kQuotaExceeded,
       .message = "exceeded quota"},
      1,
      missing.now
  );
  for (const Observed& observed : {unscheduled, missing}) {
    const Plan released = plan(observed);
    EXPECT_EQ(released.status.state, "Released");
    EXPECT_EQ(released.status.attempt, 2);
    EXPECT_EQ(released.status.restarts, 0);
    EXPECT_EQ(released.status.releases, 1);
    EXPECT_FALSE(released.status.last_failure);
    EXPECT_NE(released.status.message.find("1 of 2 nodes were not scheduled"), std::string::npos);
  }
}

TEST(Scheduling, AReleasedGangLetsAnOlderOneGoFirst) {
  Observed observed = half_placed();
  observed.now = at(600);
  Observed waiting = next(observed, plan(observed));
  waiting.pods.clear();
  waiting.now = *waiting.job.status.next_attempt_time;
  waiting.older_gang = "elder";
  const Plan waits = plan(waiting);
  EXPECT_TRUE(waits.actions.empty());
  EXPECT_NE(waits.status.message.find("elder"), std::string::npos);
  ASSERT_TRUE(waits.requeue_after);
}

TEST(Scheduling, AReleasedGangDoesNotWaitForAnOlderOneForEver) {
  Observed observed = half_placed();
  observed.now = at(600);
  Observed waiting = next(observed, plan(observed));
  waiting.pods.clear();
  waiting.older_gang = "elder";
  const TimePoint longest = *waiting.job.status.next_attempt_time + seconds(600);
  waiting.now = longest - seconds(2);
  const Plan waits = plan(waiting);
  EXPECT_EQ(count_of<CreatePod>(waits), 0);
  EXPECT_EQ(waiting.now + *waits.requeue_after, longest);
  waiting.now = longest;
  EXPECT_EQ(count_of<CreatePod>(plan(waiting)), 2);
}

TEST(Scheduling, TheOldestGangComesBackFirst) {
  Observed observed = half_placed();
  observed.now = at(600);
  const TimePoint oldest = *plan(observed).status.next_attempt_time;
  observed.older_gang = "elder";
  EXPECT_LE(oldest, at(600) + observed.config.release_backoff + seconds(1));
  EXPECT_GE(*plan(observed).status.next_attempt_time, at(600) + observed.config.release_backoff);
}

TEST(Scheduling, TheBackOffGrowsAndDiffersByJob) {
  Observed observed = half_placed();
  observed.now = at(600);
  std::set<int64_t> waits;
  for (int i = 0; i < 20; ++i) {
    observed.job.metadata.uid = "uid-" + std::to_string(i);
    observed.job.status.releases = 4;
    for (objects::Pod& pod : observed.pods) {
      pod.metadata.owner_references[0].uid = observed.job.metadata.uid;
    }
    const Duration wait = *plan(observed).status.next_attempt_time - observed.now;
    EXPECT_GE(wait, observed.config.release_backoff * 8);
    EXPECT_LE(wait, observed.config.release_backoff_cap);
    waits.insert(wait.count());
  }
  EXPECT_GT(waits.size(), 10U);
}

TEST(Scheduling, NeverReleasesAScheduledGang) {
  Observed observed = running();
  observed.now = at(100000);
  EXPECT_TRUE(plan(observed).actions.empty());
  EXPECT_EQ(plan(observed).status.attempt, 1);
}

TEST(Scheduling, RecognisesOlderGangsInPlacement) {
  const api::GnnJob young = [] {
    api::GnnJob job = small_job();
    job.metadata.creation_timestamp = at(10);
    return job;
  }();
  api::GnnJob old = half_placed().job;
  old.metadata.uid = "uid-of-elder";
  EXPECT_TRUE(is_older_gang_in_placement(old, young));
  EXPECT_FALSE(is_older_gang_in_placement(young, old));
  EXPECT_FALSE(is_older_gang_in_placement(young, young));
  api::GnnJob suspended = old;
  suspended.spec.suspend = true;
  EXPECT_FALSE(is_older_gang_in_placement(suspended, young));
  api::GnnJob placed = running().job;
  placed.metadata.uid = "uid-of-placed";
  EXPECT_FALSE(is_older_gang_in_placement(placed, young));
  api::GnnJob untold = old;
  untold.status = {};
  EXPECT_TRUE(is_older_gang_in_placement(untold, young)) << "it may have pods";
  api::GnnJob elsewhere = old;
  elsewhere.metadata.namespace_ = "another";
  EXPECT_TRUE(is_in_placement(elsewhere));
  EXPECT_FALSE(is_older_gang_in_placement(elsewhere, young)) << "another tenant's";
}

TEST(Scheduling, LooksAtOtherGangsOnlyWhereTheyMatter) {
  Observed observed = half_placed();
  EXPECT_TRUE(wants_competitors(observed));
  EXPECT_FALSE(wants_competitors(running()));
  observed.now = at(600);
  Observed released = next(observed, plan(observed));
  released.pods.clear();
  EXPECT_FALSE(wants_competitors(released)) << "before its time";
  released.now = *released.job.status.next_attempt_time;
  EXPECT_TRUE(wants_competitors(released));
  observed.pods.clear();
  EXPECT_FALSE(wants_competitors(observed)) << "without pods it is never released";
}

}  // namespace
}  // namespace gnn::reconcile
