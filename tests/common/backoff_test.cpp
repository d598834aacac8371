#include "common/backoff.h"

#include "tests/support/fixed_random.h"

#include <gtest/gtest.h>

namespace gnn {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr BackoffOptions kOptions{
    .initial = milliseconds(800), .factor = 2.0, .cap = seconds(5), .jitter = 1.0
};

TEST(Backoff, DoublesUpToTheCapWithoutJitter) {
  testing::FixedRandom random({0});
  Backoff backoff(kOptions);
  EXPECT_EQ(backoff.next(random), milliseconds(800));
  EXPECT_EQ(backoff.next(random), milliseconds(1600));
  EXPECT_EQ(backoff.next(random), milliseconds(3200));
  EXPECT_EQ(backoff.next(random), seconds(5));
  EXPECT_EQ(backoff.next(random), seconds(5));
  EXPECT_EQ(backoff.attempts(), 5);
}

TEST(Backoff, JitterStretchesADelay) {
  testing::FixedRandom random({uint64_t{1} << 63U});  // 0.5
  Backoff backoff(kOptions);
  EXPECT_EQ(backoff.next(random), milliseconds(1200));
}

TEST(Backoff, StartsAnewAfterReset) {
  testing::FixedRandom random({0});
  Backoff backoff(kOptions);
  (void)backoff.next(random);
  backoff.reset();
  EXPECT_EQ(backoff.next(random), milliseconds(800));
}

TEST(Backoff, ManyAttemptsDoNotOverflow) {
  EXPECT_EQ(exponential_delay(kOptions, 100'000), seconds(5));
}

}  // namespace
}  // namespace gnn
