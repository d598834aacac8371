#include "common/rfc3339.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>

namespace gnn {
namespace {

using std::chrono::days;
using std::chrono::floor;
using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

std::string format_seconds(TimePoint time) {
  const auto day = floor<days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(floor<seconds>(time) - day);
  std::array<char, 48> buffer{};
  std::snprintf(
      buffer.data(),
      buffer.size(),
      "%04d-%02u-%02uT%02d:%02d:%02d",
      static_cast<int>(date.year()),
      static_cast<unsigned>(date.month()),
      static_cast<unsigned>(date.day()),
      static_cast<int>(clock.hours().count()),
      static_cast<int>(clock.minutes().count()),
      static_cast<int>(clock.seconds().count())
  );
  return buffer.data();
}

// Takes exactly `count` digits off the front of `text`.
std::optional<int> take_digits(std::string_view& text, size_t count) {
  if (text.size() < count) return std::nullopt;
  int value = 0;
  for (size_t i = 0; i < count; ++i) {
    if (text[i] < '0' || text[i] > '9') return std::nullopt;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(count);
  return value;
}

bool take(std::string_view& text, char wanted) {
  if (text.empty() || text.front() != wanted) return false;
  text.remove_prefix(1);
  return true;
}

std::optional<nanoseconds> take_fraction(std::string_view& text) {
  if (!take(text, '.')) return nanoseconds(0);
  int64_t value = 0;
  size_t digits = 0;
  for (; !text.empty() && text.front() >= '0' && text.front() <= '9'; ++digits) {
    if (digits < 9) value = value * 10 + (text.front() - '0');
    text.remove_prefix(1);
  }
  if (digits == 0) return std::nullopt;
  for (; digits < 9; ++digits) value *= 10;
  return nanoseconds(value);
}

std::optional<minutes> take_offset(std::string_view& text) {
  if (take(text, 'Z') || take(text, 'z')) return minutes(0);
  const bool east = !text.empty() && text.front() == '+';
  if (!take(text, '+') && !take(text, '-')) return std::nullopt;
  const auto hour = take_digits(text, 2);
  if (!hour || *hour > 23 || !take(text, ':')) return std::nullopt;
  const auto minute = take_digits(text, 2);
  if (!minute || *minute > 59) return std::nullopt;
  const minutes offset = hours(*hour) + minutes(*minute);
  return east ? offset : -offset;
}

struct Moment {
  std::chrono::year_month_day date;
  nanoseconds since_midnight;
};

std::optional<Moment> parse_moment(std::string_view text) {
  const auto year = take_digits(text, 4);
  if (!year || !take(text, '-')) return std::nullopt;
  const auto month = take_digits(text, 2);
  if (!month || !take(text, '-')) return std::nullopt;
  const auto day = take_digits(text, 2);
  if (!day || !(take(text, 'T') || take(text, 't'))) return std::nullopt;
  const auto hour = take_digits(text, 2);
  if (!hour || *hour > 23 || !take(text, ':')) return std::nullopt;
  const auto minute = take_digits(text, 2);
  if (!minute || *minute > 59 || !take(text, ':')) return std::nullopt;
  const auto second = take_digits(text, 2);
  if (!second || *second > 60) return std::nullopt;  // 60: a leap second
  const auto fraction = take_fraction(text);
  if (!fraction) return std::nullopt;
  const auto offset = take_offset(text);
  if (!offset || !text.empty()) return std::nullopt;
  const std::chrono::year_month_day date(
      std::chrono::year(*year),
      std::chrono::month(static_cast<unsigned>(*month)),
      std::chrono::day(static_cast<unsigned>(*day))
  );
  if (!date.ok()) return std::nullopt;
  return Moment{
      .date = date,
      .since_midnight = hours(*hour) + minutes(*minute) + seconds(*second) + *fraction - *offset
  };
}

TimePoint time_of(const Moment& moment) {
  return TimePoint(std::chrono::sys_days(moment.date)) + moment.since_midnight;
}

}  // namespace

std::string format_rfc3339(TimePoint time) {
  return format_seconds(time) + "Z";
}

std::string format_rfc3339_micro(TimePoint time) {
  const auto fraction = floor<microseconds>(time) - floor<seconds>(time);
  std::array<char, 16> buffer{};
  std::snprintf(
      buffer.data(), buffer.size(), ".%06dZ", static_cast<int>(microseconds(fraction).count())
  );
  return format_seconds(time) + buffer.data();
}

std::optional<TimePoint> parse_rfc3339(std::string_view text) {
  const auto moment = parse_moment(text);
  // Nanoseconds since 1970 in 64 bits end in 1677 and 2262.
  constexpr std::chrono::year kFirst(1678);
  constexpr std::chrono::year kLast(2261);
  if (!moment || moment->date.year() < kFirst || moment->date.year() > kLast) return std::nullopt;
  return time_of(*moment);
}

std::optional<TimePoint> parse_stored_rfc3339(std::string_view text) {
  constexpr std::chrono::year kFirst(1900);
  constexpr std::chrono::year kLast(2150);
  const auto moment = parse_moment(text);
  if (!moment) return std::nullopt;
  const auto new_year = [](std::chrono::year year) {
    return TimePoint(std::chrono::sys_days(year / std::chrono::January / 1));
  };
  if (moment->date.year() < kFirst) return new_year(kFirst);
  if (moment->date.year() >= kLast) return new_year(kLast);
  return time_of(*moment);
}

}  // namespace gnn
