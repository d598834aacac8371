#include "controller/reconcile/progress_turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <vector>

namespace gnn::reconcile {
namespace {

using namespace std::chrono_literals;

// Jobs that always have news, some of them every second, the others 25 s after their last write.
class ProgressTurnsTest : public ::testing::Test {
 protected:
  struct Written {
    MonotonicPoint time;
    std::string job;
  };

  void add_jobs(const std::string& prefix, int count, Duration interval) {
    for (int i = 0; i < count; ++i) {
      const std::string job = prefix + std::to_string(i);
      intervals_[job] = interval;
      due_.push({MonotonicPoint(0s), job});
    }
  }

  void run(Duration time) {
    while (due_.top().first < MonotonicPoint(time)) {
      const auto [now, job] = due_.top();
      due_.pop();
      const auto wait = turns_.ask(job, last_[job], now);
      if (!wait) {
        written_.push_back({now, job});
        last_[job] = TimePoint(now.time_since_epoch());
      }
      // A worker comes a little later.
      due_.push({now + wait.value_or(intervals_.at(job)) + 7ms, job});
    }
  }

  [[nodiscard]] size_t most_in_a_second() const {
    size_t most = 0;
    for (size_t first = 0, last = 0; last < written_.size(); ++last) {
      while (written_[last].time - written_[first].time >= 1s) ++first;
      most = std::max(most, last - first + 1);
    }
    return most;
  }

  // The longest time between two writes of a job, but for those before `from`.
  [[nodiscard]] Duration longest_gap(const std::string& prefix, Duration from) const {
    std::map<std::string, MonotonicPoint> before;
    Duration longest{};
    for (const Written& each : written_) {
      if (!each.job.starts_with(prefix)) continue;
      const auto found = before.find(each.job);
      if (found != before.end() && found->second >= MonotonicPoint(from)) {
        longest = std::max(longest, each.time - found->second);
      }
      before[each.job] = each.time;
    }
    return longest;
  }

  using Due = std::pair<MonotonicPoint, std::string>;
  ProgressTurns turns_;
  std::map<std::string, Duration> intervals_;
  std::map<std::string, std::optional<TimePoint>> last_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::vector<Written> written_;
};

TEST_F(ProgressTurnsTest, OneJobNeverWaits) {
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(turns_.ask("a/j", {}, MonotonicPoint(1s * i)));
}

TEST_F(ProgressTurnsTest, AHundredJobsMoveEveryHalfMinute) {
  add_jobs("j", 100, 25s);
  run(600s);
  EXPECT_LE(most_in_a_second(), 5U);
  EXPECT_LE(longest_gap("j", 60s), 30s);
}

TEST_F(ProgressTurnsTest, AThousandJobsTakeTurns) {
  add_jobs("j", 1000, 25s);
  run(1800s);
  EXPECT_LE(most_in_a_second(), 5U);
  EXPECT_GE(written_.size(), 1800U * 4) << "the budget is used";
  EXPECT_LE(longest_gap("j", 0s), 250s);
}

TEST_F(ProgressTurnsTest, JobsWithShortEpochsLeaveTheOthersTheirTurns) {
  add_jobs("long", 120, 25s);
  add_jobs("short", 200, 1s);
  run(1200s);
  EXPECT_LE(most_in_a_second(), 5U);
  EXPECT_LE(longest_gap("", 120s), 90s) << "oldest first: 320 jobs in 64 s";
}

TEST_F(ProgressTurnsTest, AFewJobsWithShortEpochsDoNotSlowDownThoseThatFit) {
  add_jobs("long", 100, 25s);
  add_jobs("short", 20, 1s);
  run(600s);
  EXPECT_LE(most_in_a_second(), 5U);
  EXPECT_LE(longest_gap("long", 60s), 30s);
}

TEST_F(ProgressTurnsTest, JobsThatEndWhileTheyWaitAreForgotten) {
  for (int i = 0; i < 1000; ++i) {
    static_cast<void>(turns_.ask("gone" + std::to_string(i), {}, MonotonicPoint(0s)));
  }
  EXPECT_EQ(turns_.waiting(), 999U);
  const TimePoint now{400s};
  EXPECT_FALSE(turns_.ask("young", now, MonotonicPoint(400s)));
  EXPECT_EQ(turns_.waiting(), 0U);
}

}  // namespace
}  // namespace gnn::reconcile
