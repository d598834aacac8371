#include "controller/runtime/leader_elector.h"

#include "tests/support/fake_clock.h"
#include "tests/support/fake_transport.h"
#include "tests/support/fixed_random.h"

#include <gtest/gtest.h>

#include <atomic>
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

TEST(SeizeLease, TakesItFromItsHolderAndWaitsUntilThatOneMustHaveStopped) {
  gnn::testing::FakeClock clock;
  FakeTransport transport;
  MetricsRegistry metrics;
  client::TokenSource tokens(client::KubeConfig{}, clock);
  client::ApiClient api(transport, tokens, clock, metrics);
  LeaderOptions mine = options();
  mine.lease_duration = 180s;
  // The holder renews in between once.
  transport.reply(200, encode(lease("other", "1")).dump())
      .reply(409, R"({"kind":"Status","reason":"Conflict"})")
      .reply(200, encode(lease("other", "2")).dump())
      .reply(200, encode(lease("me", "3")).dump());
  std::atomic<bool> returned = false;
  std::thread caller([&] {
    EXPECT_TRUE(seize_lease(api, mine, clock));
    returned = true;
  });
  clock.await_waiters(1);
  EXPECT_FALSE(returned);
  clock.advance(15s);
  caller.join();
  const auto requests = transport.requests();
  ASSERT_EQ(requests.size(), 4U);
  const objects::Json written = objects::Json::parse(requests[3].body);
  EXPECT_EQ(written["metadata"]["resourceVersion"], "2");
  EXPECT_EQ(written["spec"]["holderIdentity"], "me");
  EXPECT_EQ(written["spec"]["leaseDurationSeconds"], 180);
}

TEST(SeizeLease, WaitsForNobodyWhereNobodyLeads) {
  gnn::testing::FakeClock clock;
  FakeTransport transport;
  MetricsRegistry metrics;
  client::TokenSource tokens(client::KubeConfig{}, clock);
  client::ApiClient api(transport, tokens, clock, metrics);
  transport.reply(404, R"({"kind":"Status","reason":"NotFound"})").reply(201, "{}");
  EXPECT_TRUE(seize_lease(api, options(), clock));
  EXPECT_EQ(transport.requests().at(1).method, "POST");
  for (const char* holder : {"", "me"}) {
    transport.reply(200, encode(lease(holder, "1")).dump()).reply(200, "{}");
    EXPECT_TRUE(seize_lease(api, options(), clock));
  }
  transport.reply(403, R"({"kind":"Status","reason":"Forbidden"})");
  EXPECT_FALSE(seize_lease(api, options(), clock));
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

TEST_F(LeaderElectorTest, StandsStillWhenACallOutlivesItsDeadline) {
  gnn::testing::ScriptedReply silence;
  silence.hangs = true;
  transport_.reply(404, R"({"reason":"NotFound"})").reply(403, "{}").reply(silence);
  elector_.start();
  clock_.await_waiters(1);
  clock_.advance(10s);
  transport_.await_requests(3);
  EXPECT_FALSE(elector_.stands_still());
  clock_.advance(kHeartbeatPatience + 1s);
  EXPECT_TRUE(elector_.stands_still());
  api_.cancel();
  elector_.stop();
  EXPECT_FALSE(elector_.stands_still());
}

TEST_F(LeaderElectorTest, TakesASilentLeaseAtTheMomentThatItIsFree) {
  transport_.reply(200, encode(lease("other", "1")).dump());
  elector_.start();
  clock_.await_waiters(1);
  for (int tries = 2; tries <= 8; ++tries) {
    transport_.reply(200, encode(lease("other", "1")).dump());
    clock_.advance(2s);
    transport_.await_requests(static_cast<size_t>(tries));
    clock_.await_waiters(1);
  }
  // 14 s have passed of the 15 s that the holder asked for.
  transport_.reply(200, encode(lease("other", "1")).dump()).reply(200, written("2"));
  clock_.advance(1s);
  ASSERT_EQ(started_.get_future().wait_for(10s), std::future_status::ready);
  EXPECT_TRUE(elector_.is_leader());
  elector_.stop();
}

TEST_F(LeaderElectorTest, GivesItsLeaseUpWhenTheServersVersionsGoBack) {
  transport_.reply(404, R"({"reason":"NotFound"})").reply(201, written("1000"));
  elector_.start();
  started_.get_future().wait();
  clock_.await_waiters(1);
  transport_.reply(200, written("700")).reply(200, written("999")).reply(200, written("1001"));
  clock_.advance(2s);
  ASSERT_EQ(lost_.get_future().wait_for(10s), std::future_status::ready);
  EXPECT_FALSE(elector_.is_leader());
  elector_.stop();
  const objects::Json released = objects::Json::parse(transport_.requests().back().body);
  EXPECT_EQ(released["metadata"]["resourceVersion"], "999");
  EXPECT_EQ(released["spec"].value("holderIdentity", ""), "");
}

TEST_F(LeaderElectorTest, DoesNotStandStillWhileItWaitsForALongRetryPeriod) {
  LeaderOptions slow = options();
  slow.retry_period = 2 * kHeartbeatPatience;
  LeaderElector elector(api_, slow, clock_, random_, metrics_, [] {}, [] {});
  transport_.reply(403, "{}");
  elector.start();
  clock_.await_waiters(1);
  clock_.advance(2 * kHeartbeatPatience - 1s);
  EXPECT_FALSE(elector.stands_still());
  elector.stop();
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
