#include "worker/rpc/liveness.h"

#include <gtest/gtest.h>

#include <chrono>

namespace gnn::rpc {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using Verdict = Liveness::Verdict;

constexpr auto kLimit = milliseconds(1'000);
constexpr auto kLook = milliseconds(50);
constexpr MonotonicPoint kBegin{hours(3)};

// What look() says first that is not in `expected`, and after how long.
struct Found {
  Verdict verdict;
  Duration after;
  friend bool operator==(const Found&, const Found&) = default;
};

Found look_until_lost(Liveness& liveness, const Liveness::Traffic& traffic) {
  for (Duration passed = kLook; passed < 5 * kLimit; passed += kLook) {
    const auto verdict = liveness.look(kBegin + passed, traffic);
    if (verdict == Verdict::Heartbeat) liveness.sent();
    if (verdict == Verdict::Silent || verdict == Verdict::TakesNothing) return {verdict, passed};
  }
  return {Verdict::Well, Duration(0)};
}

TEST(Liveness, BlamesAPeerForSilenceAndForBytesItDoesNotTakeAlone) {
  Liveness silent(kBegin, kLimit);
  EXPECT_EQ(look_until_lost(silent, {}), (Found{Verdict::Silent, kLimit + kLook}));

  // While this end does not read, it cannot hear.
  Liveness unread(kBegin, kLimit);
  EXPECT_EQ(look_until_lost(unread, {.reads = false}), (Found{Verdict::Well, Duration(0)}));
  Liveness untaken(kBegin, kLimit);
  EXPECT_EQ(
      look_until_lost(untaken, {.reads = false, .writes = true, .must_take = true}),
      (Found{Verdict::TakesNothing, kLimit + kLook})
  );
  Liveness busy(kBegin, kLimit);
  EXPECT_EQ(
      look_until_lost(busy, {.reads = false, .writes = true}), (Found{Verdict::Well, Duration(0)})
  );

  // Heartbeats keep a peer quiet, and time in which this process stood still does not count.
  Liveness liveness(kBegin, kLimit);
  MonotonicPoint now = kBegin;
  int heartbeats = 0;
  for (int i = 0; i < 100; ++i) {
    liveness.heard();
    if (liveness.look(now += kLook, {}) == Verdict::Heartbeat) {
      ++heartbeats;
      liveness.sent();
    }
  }
  EXPECT_EQ(heartbeats, 100 / 5);  // each quarter of the limit

  now += hours(1);  // frozen
  EXPECT_NE(liveness.look(now, {}), Verdict::Silent);
  liveness.heard();
  EXPECT_NE(liveness.look(now += kLook, {}), Verdict::Silent);
  EXPECT_LE(Liveness::interval(kLimit) * 5, kLimit / 4);
}

}  // namespace
}  // namespace gnn::rpc
