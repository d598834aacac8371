#include "controller/reconcile/pacing.h"

#include "tests/controller/reconcile/builders.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace gnn::reconcile {
namespace {

using namespace std::chrono_literals;

// When the action is carried out if it is wanted all the time, in seconds from the first.
std::vector<int64_t> writes_within(Duration time, const std::function<Action(int)>& action) {
  WriteHistory history;
  std::vector<int64_t> written;
  for (TimePoint now = at(0); now < at(0) + time; now += 1s) {
    forget_old_writes(history, now);
    const Action wanted = action(static_cast<int>(written.size()));
    if (next_write(history, wanted, now)) continue;
    count_write(history, wanted, now);
    written.push_back(std::chrono::duration_cast<std::chrono::seconds>(now - at(0)).count());
  }
  return written;
}

Action relabel(const std::string& uid = "u") {
  return RelabelPod{.name = "arxiv-1-0", .uid = uid, .labels = {}};
}

Action workload_in_queue(const std::string& queue) {
  objects::Workload workload;
  workload.metadata.name = "w";
  workload.queue = queue;
  return UpdateWorkload{workload};
}

TEST(Pacing, AWriteThatDoesNotLastIsRepeatedWithBackOff) {
  const auto times = writes_within(1h, [](int) { return relabel(); });
  ASSERT_GT(times.size(), 6U);
  EXPECT_EQ(
      std::vector<int64_t>(times.begin(), times.begin() + 6),
      (std::vector<int64_t>{0, 1, 2, 4, 8, 16})
  );
  EXPECT_LT(times.size(), 25U);
  EXPECT_EQ(times.back() - times[times.size() - 2], 300);
}

TEST(Pacing, WritesOfDifferentContentFollowEachOtherButNotWithoutEnd) {
  const auto times = writes_within(1h, [](int n) { return workload_in_queue(std::to_string(n)); });
  ASSERT_GT(times.size(), 16U);
  EXPECT_EQ(times[15], 15);
  EXPECT_LT(times.size(), 40U);
}

TEST(Pacing, ARowEndsWithTime) {
  WriteHistory history;
  for (int i = 0; i < 3; ++i) count_write(history, relabel(), at(i));
  EXPECT_EQ(next_write(history, relabel(), at(3)), at(4));
  EXPECT_FALSE(next_write(history, relabel("another pod"), at(3)));
  EXPECT_FALSE(next_write(history, relabel(), at(4)));
  forget_old_writes(history, at(61));
  EXPECT_FALSE(history.empty());
  forget_old_writes(history, at(63));
  EXPECT_TRUE(history.empty());
  // A clock that is set back holds up nothing.
  for (int i = 0; i < 9; ++i) count_write(history, relabel(), at(3600));
  EXPECT_FALSE(next_write(history, relabel(), at(0)));
}

TEST(Pacing, WhatIsContestedIsToldOnce) {
  WriteHistory history;
  int64_t told = 0;
  for (int i = 0; i < 20; ++i) told += count_write(history, relabel(), at(i)).has_value() ? 1 : 0;
  EXPECT_EQ(told, 1);
  EXPECT_EQ(contested_writes(history), std::vector<std::string>{"the labels of pod arxiv-1-0"});
}

// Pods do not start before what they need is there.
TEST(Pacing, NoPodIsCreatedBesideAChildThatIsHeldBack) {
  Observed observed;
  observed.job = small_job();
  observed.now = at(10);
  const Plan first = plan(observed);
  EXPECT_EQ(count_of<CreatePod>(first), 2);
  for (int i = 0; i < 4; ++i) {
    count_write(observed.writes, CreateService{desired_service(observed.job)}, at(10));
  }
  const Plan held = plan(observed);
  EXPECT_EQ(count_of<CreateService>(held), 0);
  EXPECT_EQ(count_of<CreatePod>(held), 0);
  EXPECT_EQ(reason_of(held, condition::kScheduled), reason::kCreateFailed);
  EXPECT_NE(message_of(held, condition::kScheduled).find("service arxiv-gnn"), std::string::npos);
  EXPECT_EQ(held.requeue_after, Duration(4s));
}

TEST(Pacing, StatusesThatAreChangedWaitOnceThereAreMany) {
  EXPECT_EQ(pause_after_cut_statuses(7), Duration::zero());
  EXPECT_EQ(pause_after_cut_statuses(8), Duration(1s));
  EXPECT_EQ(pause_after_cut_statuses(100), Duration(30s));
  EXPECT_EQ(count_cut_status(9, at(0), at(5)), 10);
  EXPECT_EQ(count_cut_status(9, at(0), at(60)), 1);
  Observed observed = running();
  observed.job.spec.suspend = true;
  observed.status_written = observed.now;
  observed.cut_status = {.sent = {}, .kept = observed.job.status, .in_a_row = 10};
  const Plan held = plan(observed);
  EXPECT_EQ(held.status, observed.job.status);
  EXPECT_EQ(held.requeue_after, Duration(4s));
  observed.now += 4s;
  EXPECT_NE(plan(observed).status, observed.job.status);
}

}  // namespace
}  // namespace gnn::reconcile
