#include "controller/client/retry_after.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gnn::client {
namespace {

using namespace std::chrono_literals;

std::optional<Duration> asked(const std::string& text) {
  return retry_after_in({{"retry-after", text}, {"date", "Tue, 14 Nov 2023 22:13:20 GMT"}});
}

TEST(RetryAfter, IsReadAsSecondsOrAsADate) {
  EXPECT_EQ(asked("0"), 0s);
  EXPECT_EQ(asked("1"), 1s);
  EXPECT_EQ(asked("Tue, 14 Nov 2023 22:13:25 GMT"), 5s);
}

TEST(RetryAfter, IsAtMostHalfAMinuteWhateverAReplySays) {
  for (const char* text :
       {"31",
        "3600",
        "9223372036854775807",
        "99999999999999999999999999",
        "Tue, 14 Nov 2023 23:13:20 GMT",
        "Wed, 01 Jan 2200 00:00:00 GMT"}) {
    EXPECT_EQ(asked(text), 30s) << text;
  }
  EXPECT_EQ(bounded_retry_after(INT64_MAX), 30s);
}

TEST(RetryAfter, InThePastIsNoWait) {
  EXPECT_EQ(asked("Tue, 14 Nov 2023 21:13:20 GMT"), 0s);
}

TEST(RetryAfter, IsNothingWhereItIsMalformed) {
  for (const char* text :
       {"", " ", "-1", "-99999999999999999999999999", "1.5", "1 s", "soon", "0x10", "+5", "nan"}) {
    EXPECT_EQ(asked(text), std::nullopt) << text;
  }
  EXPECT_EQ(bounded_retry_after(-1), std::nullopt);
  EXPECT_EQ(retry_after_in({}), std::nullopt);
  EXPECT_EQ(retry_after_in({{"retry-after", "Tue, 14 Nov 2023 22:13:25 GMT"}}), std::nullopt)
      << "there is no date to count from";
}

}  // namespace
}  // namespace gnn::client
