#include "controller/runtime/leader_elector.h"

#include "tests/support/fake_clock.h"
#include "tests/support/fake_transport.h"
#include "tests/support/fixed_random.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

namespace gnn::runtime {
namespace {

using namespace std::chrono_literals;
using gnn::testing::FakeTransport;

LeaderOptions options() {
  LeaderOptions options;
  options.lease = {"ns", "l"};
  options.identity = "me";
  return options;
}

objects::Lease lease(const std::string& holder, const std::string& version) {
  objects::Lease lease;
  lease.metadata.name = "l";
  lease.metadata.namespace_ = "ns";
  lease.metadata.uid = "u";
  lease.metadata.resource_version = version;
  lease.holder_identity = holder;
  lease.lease_duration_seconds = 15;
  return lease;
}

TEST(JudgeLease, AnothersLeaseIsFreeOnlyAfterItsSilenceByOurClock) {
  LeaseView view;
  MonotonicPoint now{1h};
  EXPECT_EQ(judge_lease(lease("other", "1"), view, now, options()), LeaseVerdict::Taken);
  now += 14s;
  EXPECT_EQ(judge_lease(lease("other", "1"), view, now, options()), LeaseVerdict::Taken);
  EXPECT_EQ(judge_lease(lease("other", "2"), view, now, options()), LeaseVerdict::Taken);
  now += 14s;
  EXPECT_EQ(judge_lease(lease("other", "2"), view, now, options()), LeaseVerdict::Taken);
  now += 1s;
  EXPECT_EQ(judge_lease(lease("other", "2"), view, now, options()), LeaseVerdict::Free);
}

TEST(JudgeLease, ALongerLeaseOfAnotherIsRespected) {
  LeaseView view;
  MonotonicPoint now{1h};
  objects::Lease longer = lease("other", "1");
  longer.lease_duration_seconds = 60;
  static_cast<void>(judge_lease(longer, view, now, options()));
  now += 59s;
  EXPECT_EQ(judge_lease(longer, view, now, options()), LeaseVerdict::Taken);
}

TEST(JudgeLease, AReleasedLeaseIsFreeAtOnce) {
  LeaseView view;
  EXPECT_EQ(judge_lease(lease("", "1"), view, MonotonicPoint{1h}, options()), LeaseVerdict::Free);
  EXPECT_EQ(judge_lease(lease("me", "1"), view, MonotonicPoint{1h}, options()), LeaseVerdict::Mine);
}

class LeaderElectorTest : public ::testing::Test {
 protected:
  static std::string written(const std::string& version) {
    objects::Json json = encode(lease("me", version));
    return json.dump();
  }

  gnn::testing::FakeClock clock_;
  gnn::testing::FixedRandom random_;
  FakeTransport transport_;
  MetricsRegistry metrics_;
  client::TokenSource tokens_{client::KubeConfig{}, clock_};
  client::ApiClient api_{transport_, tokens_, clock_, metrics_};
  std::promise<void> started_;
  std::promise<void> lost_;
  LeaderElector elector_{
      api_,
      options(),
      clock_,
      random_,
      metrics_,
      [this] { started_.set_value(); },
      [this] { lost_.set_value(); }
  };
};

TEST_F(LeaderElectorTest, CreatesRenewsAndReleases) {
  transport_.reply(404, R"({"reason":"NotFound"})").reply(201, written("1"));
  elector_.start();
  started_.get_future().wait();
  EXPECT_TRUE(elector_.is_leader());
  transport_.reply(200, written("1")).reply(200, written("2"));
  clock_.await_waiters(1);
  clock_.advance(2s);
  transport_.await_requests(4);
  clock_.await_waiters(1);
  transport_.reply(200, written("3"));
  elector_.stop();
  EXPECT_FALSE(elector_.is_leader());
  const auto requests = transport_.requests();
  EXPECT_EQ(requests.at(1).method, "POST");
  EXPECT_EQ(requests.at(3).method, "PUT");
  const objects::Json released = objects::Json::parse(requests.at(4).body);
  EXPECT_EQ(released["spec"]["holderIdentity"], "");
  EXPECT_EQ(released["metadata"]["resourceVersion"], "2");
}

TEST_F(LeaderElectorTest, StopsLeadingAtTheRenewDeadlineEvenIfItsThreadSleeps) {
  transport_.reply(404, R"({"reason":"NotFound"})").reply(201, written("1"));
  elector_.start();
  started_.get_future().wait();
  clock_.await_waiters(1);
  clock_.advance(10s);  // As after SIGSTOP and SIGCONT: nothing else has run yet.
  EXPECT_FALSE(elector_.is_leader());
  lost_.get_future().wait();
  elector_.stop();
  EXPECT_EQ(transport_.requests().back().method, "GET") << "a lost lease is not released";
}

TEST_F(LeaderElectorTest, LosesTheRaceOnAConflict) {
  transport_.reply(200, encode(lease("", "1")).dump()).reply(409, R"({"reason":"Conflict"})");
  elector_.start();
  transport_.await_requests(2);
  clock_.await_waiters(1);
  EXPECT_FALSE(elector_.is_leader());
  elector_.stop();
}

}  // namespace
}  // namespace gnn::runtime
