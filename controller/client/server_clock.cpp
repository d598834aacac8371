#include "controller/client/server_clock.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>

namespace gnn::client {
namespace {

constexpr std::array<std::string_view, 12> kMonths = {
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"
};

// Digits that fill the field, up to a limit.
std::optional<int> number(std::string_view field, int limit) {
  int value = -1;
  const auto parsed = std::from_chars(field.data(), field.data() + field.size(), value);
  const bool is_whole = parsed.ptr == field.data() + field.size();
  if (parsed.ec != std::errc() || !is_whole || value < 0 || value > limit) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

std::optional<TimePoint> parse_http_date(std::string_view text) {
  // Each character but those of the day's name, which says nothing new, has its place.
  constexpr std::string_view kForm = "___, 00 ___ 0000 00:00:00 GMT";
  if (text.size() != kForm.size()) return std::nullopt;
  for (size_t i = 0; i < kForm.size(); ++i) {
    const bool free = kForm[i] == '_' || kForm[i] == '0';
    if (!free && text[i] != kForm[i]) return std::nullopt;
  }
  const auto* const month = std::find(kMonths.begin(), kMonths.end(), text.substr(8, 3));
  const auto day = number(text.substr(5, 2), 31);
  const auto year = number(text.substr(12, 4), 9999);
  const auto hour = number(text.substr(17, 2), 23);
  const auto minute = number(text.substr(20, 2), 59);
  const auto second = number(text.substr(23, 2), 60);  // a leap second
  if (month == kMonths.end() || !day || !year || !hour || !minute || !second) return std::nullopt;
  const std::chrono::year_month_day date(
      std::chrono::year(*year),
      std::chrono::month(static_cast<unsigned>(month - kMonths.begin()) + 1),
      std::chrono::day(static_cast<unsigned>(*day))
  );
  // The nanoseconds of a TimePoint last until 2262.
  if (!date.ok() || *year < 1970 || *year > 2261) return std::nullopt;
  return std::chrono::sys_days(date) + std::chrono::hours(*hour) + std::chrono::minutes(*minute) +
         std::chrono::seconds(*second);
}

ServerClock::ServerClock(Clock& machine)
    : machine_(machine), zero_(machine.now() - machine.monotonic().time_since_epoch()) {}

void ServerClock::see(TimePoint date, Duration took) {
  auto zero = zero_.lock();
  const Duration passed = machine_.monotonic().time_since_epoch();
  // The reply may have been made at any moment since it was asked for, and the date is cut to whole
  // seconds. What lies within is left alone, so that time does not tremble.
  const TimePoint latest = date + took + std::chrono::seconds(1);
  *zero = std::clamp(*zero + passed, date, latest) - passed;
}

TimePoint ServerClock::now() const {
  return *zero_.lock() + machine_.monotonic().time_since_epoch();
}

MonotonicPoint ServerClock::monotonic() const {
  return machine_.monotonic();
}

bool ServerClock::wait_until(
    std::unique_lock<std::mutex>& lock,
    std::condition_variable& condition,
    MonotonicPoint deadline,
    const std::function<bool()>& ready
) {
  return machine_.wait_until(lock, condition, deadline, ready);
}

}  // namespace gnn::client
