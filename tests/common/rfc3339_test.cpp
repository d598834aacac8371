#include "common/rfc3339.h"

#include <gtest/gtest.h>

#include <chrono>

namespace gnn {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

TimePoint at(int64_t unix_seconds) {
  return TimePoint(seconds(unix_seconds));
}

TEST(Rfc3339, FormatsSecondsAndMicroseconds) {
  EXPECT_EQ(format_rfc3339(at(0)), "1970-01-01T00:00:00Z");
  EXPECT_EQ(format_rfc3339(at(1795260536)), "2026-11-21T11:28:56Z");
  EXPECT_EQ(format_rfc3339(at(-1)), "1969-12-31T23:59:59Z");
  EXPECT_EQ(format_rfc3339_micro(at(0) + microseconds(123)), "1970-01-01T00:00:00.000123Z");
}

TEST(Rfc3339, ReadsWhatItWrites) {
  const TimePoint time = at(1795260536) + microseconds(42);
  EXPECT_EQ(parse_rfc3339(format_rfc3339_micro(time)), time);
  EXPECT_EQ(parse_rfc3339(format_rfc3339(time)), at(1795260536));
}

TEST(Rfc3339, ReadsOffsetsAndFractions) {
  EXPECT_EQ(parse_rfc3339("1970-01-01T01:30:00+01:30"), at(0));
  EXPECT_EQ(parse_rfc3339("1969-12-31T23:00:00-01:00"), at(0));
  EXPECT_EQ(parse_rfc3339("1970-01-01T00:00:00.5Z"), at(0) + std::chrono::milliseconds(500));
}

TEST(Rfc3339, RefusesWhatIsNoTime) {
  for (const char* text :
       {"",
        "now",
        "2026-02-30T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:60:00Z",
        "2026-01-01T00:00:00",
        "2026-01-01T00:00:00Zx",
        "2026-01-01 00:00:00Z",
        "2026-01-01T00:00:00.Z",
        "0000-01-01T00:00:00Z",
        "9999-01-01T00:00:00Z"}) {
    EXPECT_FALSE(parse_rfc3339(text)) << text;
  }
}

// Kubernetes writes the year 1 for "never", and a pod may be deleted with centuries of grace.
TEST(Rfc3339, AStoredTimeOfAnyYearIsReadAndNeverFarFromToday) {
  const auto first = parse_rfc3339("1900-01-01T00:00:00Z");
  const auto last = parse_rfc3339("2150-01-01T00:00:00Z");
  EXPECT_EQ(parse_stored_rfc3339("0001-01-01T00:00:00Z"), first);
  EXPECT_EQ(parse_stored_rfc3339("1677-01-01T00:00:00Z"), first);
  EXPECT_EQ(parse_stored_rfc3339("2150-06-01T00:00:00Z"), last);
  EXPECT_EQ(parse_stored_rfc3339("2279-06-01T00:00:00Z"), last);
  EXPECT_EQ(parse_stored_rfc3339("9999-12-31T23:59:59Z"), last);
  EXPECT_EQ(parse_stored_rfc3339("2026-11-21T11:28:56Z"), at(1795260536));
  EXPECT_FALSE(parse_stored_rfc3339("2026-02-30T00:00:00Z"));
}

}  // namespace
}  // namespace gnn
