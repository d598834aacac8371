#include "worker/tracking/tracker_thread.h"

#include "common/log.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fixed_random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gnn::tracking {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

// What a tracker has been told, by all of them.
struct Told {
  std::vector<int64_t> steps{};
  std::vector<RunEnd> ends{};
  int64_t calls = 0;
};

// Answers as a function says.
class FakeTracker final : public Tracker {
 public:
  using Answer = std::function<Status(int64_t call)>;
  FakeTracker(Told& told, Answer answer) : told_(told), answer_(std::move(answer)) {}
  ~FakeTracker() override {
    if (gone) gone->set_value();
  }
  FakeTracker(const FakeTracker&) = delete;
  FakeTracker& operator=(const FakeTracker&) = delete;

  [[nodiscard]] Status write(std::span<const Record> records, MonotonicPoint) override {
    Status answer = answer_(told_.calls++);
    if (answer)
      for (const Record& record : records) told_.steps.push_back(record.step);
    return answer;
  }
  [[nodiscard]] Status close(RunEnd end, MonotonicPoint) override {
    told_.ends.push_back(end);
    return {};
  }

  std::shared_ptr<std::promise<void>> gone;

 private:
  Told& told_;
  Answer answer_;
};

class TrackerThreadTest : public ::testing::Test {
 protected:
  std::unique_ptr<TrackerThread> make(FakeTracker::Answer answer, size_t capacity = 8) {
    return make_opened(
        [this, answer = std::move(answer)]() -> Result<std::unique_ptr<Tracker>> {
          return std::make_unique<FakeTracker>(told_, answer);
        },
        capacity
    );
  }
  std::unique_ptr<TrackerThread> make_opened(TrackerThread::Open open, size_t capacity = 8) {
    return std::make_unique<TrackerThread>(
        "fake", std::move(open), TrackerThreadOptions{.capacity = capacity}, clock_, random_
    );
  }
  // Calls `wait`, which waits until so much time has passed.
  template <class Wait>
  auto after(Duration time, Wait wait) {
    auto waited = std::async(std::launch::async, wait);
    clock_->await_waiters(1);
    clock_->advance(time);
    return waited.get();
  }

  std::vector<std::string> log_;
  ScopedLogOutput output_{[this](std::string_view line) { log_.emplace_back(line); }};
  std::shared_ptr<gnn::testing::FakeClock> clock_ = std::make_shared<gnn::testing::FakeClock>();
  std::shared_ptr<RandomSource> random_ = std::make_shared<gnn::testing::FixedRandom>();
  Told told_;
};

TEST_F(TrackerThreadTest, DropsAndCountsWhatASlowTrackerHasNoTimeFor) {
  std::promise<void> called;
  std::promise<void> answer;
  const auto thread = make([&](int64_t call) {
    if (call == 0) called.set_value();
    if (call == 0) answer.get_future().wait();
    return Status();
  });
  thread->add({.step = 1});
  called.get_future().wait();
  for (int64_t step = 2; step <= 12; ++step) thread->add({.step = step});
  EXPECT_EQ(thread->counts(), (progress::TrackerCounts{.dropped = 3}));
  answer.set_value();
  thread->finish(RunEnd::Done, std::chrono::seconds(1));
  thread->join();
  EXPECT_THAT(told_.steps, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(told_.ends, ElementsAre(RunEnd::Done));
  EXPECT_EQ(thread->counts().written, 9);
  EXPECT_THAT(log_, SizeIs(1)) << "the number at the end";
}

TEST_F(TrackerThreadTest, TriesAgainAfterABrokenConnectionAndLogsTheFirstOne) {
  std::array<std::promise<void>, 3> called;
  const auto thread = make([&](int64_t call) -> Status {
    called[static_cast<size_t>(call)].set_value();
    if (call < 2) return fail(ErrorKind::Network, "refused\nby the host");
    return {};
  });
  thread->add({.step = 1});
  for (size_t call = 0; call < 2; ++call) {
    called[call].get_future().wait();
    clock_->await_waiters(1);
    clock_->advance(std::chrono::minutes(1));
  }
  called[2].get_future().wait();
  thread->finish(RunEnd::Done, std::chrono::seconds(1));
  thread->join();
  EXPECT_THAT(told_.steps, ElementsAre(1));
  EXPECT_EQ(thread->counts(), (progress::TrackerCounts{.written = 1, .failures = 2}));
  ASSERT_THAT(log_, SizeIs(1));
  EXPECT_THAT(log_[0], ::testing::HasSubstr("refused by the host"));
}

TEST_F(TrackerThreadTest, GoesOnWithTheNextRecordsAfterOnesThatAreRefused) {
  std::promise<void> refused;
  const auto thread = make([&](int64_t call) -> Status {
    if (call > 0) return {};
    refused.set_value();
    return fail(ErrorKind::Io, "no space left");
  });
  thread->add({.step = 1});
  refused.get_future().wait();
  thread->add({.step = 2});
  thread->finish(RunEnd::Done, std::chrono::seconds(1));
  thread->join();
  EXPECT_THAT(told_.steps, ElementsAre(2));
  EXPECT_EQ(thread->counts(), (progress::TrackerCounts{.written = 1, .dropped = 1, .failures = 1}));
}

TEST_F(TrackerThreadTest, LeavesADeadTrackerAtTheEnd) {
  const auto thread = make([](int64_t) -> Status { return fail(ErrorKind::Timeout, "silent"); });
  thread->add({.step = 1});
  thread->finish(RunEnd::Done, std::chrono::hours(1));
  thread->join();
  EXPECT_LE(told_.calls, 2);
  EXPECT_THAT(told_.ends, SizeIs(0));
  EXPECT_EQ(thread->counts().dropped, 1);
}

TEST_F(TrackerThreadTest, LeavesACallThatNeverEndsAndHearsNoMoreOfIt) {
  std::promise<void> called;
  std::promise<void> dead;
  const auto gone = std::make_shared<std::promise<void>>();
  auto thread = make_opened([&]() -> Result<std::unique_ptr<Tracker>> {
    auto tracker = std::make_unique<FakeTracker>(told_, [&](int64_t) -> Status {
      called.set_value();
      dead.get_future().wait();
      return fail(ErrorKind::Io, "no such device");
    });
    tracker->gone = gone;
    return tracker;
  });
  thread->add({.step = 1});
  called.get_future().wait();
  thread->add({.step = 2});
  thread->finish(RunEnd::Done, std::chrono::seconds(1));
  after(std::chrono::milliseconds(3500), [&] { thread->join(); });
  EXPECT_EQ(thread->counts(), (progress::TrackerCounts{.dropped = 2}));
  ASSERT_THAT(log_, SizeIs(1));
  EXPECT_THAT(log_[0], ::testing::HasSubstr("left behind"));
  EXPECT_THAT(log_[0], ::testing::HasSubstr("dropped_records=2"));
  thread.reset();
  dead.set_value();
  gone->get_future().wait();
  EXPECT_EQ(told_.calls, 1);
  EXPECT_THAT(told_.ends, SizeIs(0));
  EXPECT_THAT(log_, SizeIs(1));
}

TEST_F(TrackerThreadTest, WaitsAtTheEndForACallThatKeepsItsTime) {
  std::promise<void> called;
  std::promise<void> answer;
  const auto thread = make([&](int64_t) {
    called.set_value();
    answer.get_future().wait();
    return Status();
  });
  thread->add({.step = 1});
  called.get_future().wait();
  thread->finish(RunEnd::Done, std::chrono::seconds(1));
  clock_->advance(std::chrono::seconds(3));
  const auto answered = std::async(std::launch::async, [&] {
    clock_->await_waiters(1);  // that is join()
    answer.set_value();
  });
  thread->join();
  EXPECT_EQ(thread->counts(), (progress::TrackerCounts{.written = 1}));
  EXPECT_THAT(told_.ends, SizeIs(0)) << "it was late";
}

TEST_F(TrackerThreadTest, TellsWhatWaitedToATrackerThatOpensLate) {
  std::promise<void> answer;
  const auto thread = make_opened([&]() -> Result<std::unique_ptr<Tracker>> {
    answer.get_future().wait();
    return std::make_unique<FakeTracker>(told_, [](int64_t) { return Status(); });
  });
  const Status opened =
      after(std::chrono::seconds(5), [&] { return thread->await_open(std::chrono::seconds(5)); });
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().kind, ErrorKind::Timeout);
  thread->add({.step = 1});
  answer.set_value();
  EXPECT_TRUE(thread->await_open(std::chrono::seconds(5)));
  thread->finish(RunEnd::Done, std::chrono::seconds(1));
  thread->join();
  EXPECT_THAT(told_.steps, ElementsAre(1));
  EXPECT_THAT(told_.ends, ElementsAre(RunEnd::Done));
}

TEST_F(TrackerThreadTest, SaysWhyATrackerCannotBeOpenedAndDropsItsRecords) {
  const auto thread = make_opened([]() -> Result<std::unique_ptr<Tracker>> {
    return fail(ErrorKind::Configuration, "no such folder");
  });
  const Status opened = thread->await_open(std::chrono::seconds(5));
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().kind, ErrorKind::Configuration);
  thread->add({.step = 1});
  EXPECT_EQ(thread->counts(), (progress::TrackerCounts{.dropped = 1, .failures = 1}));
}

}  // namespace
}  // namespace gnn::tracking
