#include "controller/client/server_clock.h"

#include "common/rfc3339.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>

namespace gnn::client {

std::optional<TimePoint> parse_http_date(std::string_view text) {
  constexpr std::array<std::string_view, 12> kMonths = {
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"
  };
  // "Tue, 14 Nov 2023 22:13:20 GMT": each part has its place, and the day's name says nothing new.
  const bool has_form = text.size() == 29 && text.substr(3, 2) == ", " && text[7] == ' ' &&
                        text[11] == ' ' && text[16] == ' ' && text.substr(25) == " GMT";
  if (!has_form) return std::nullopt;
  const auto* const month = std::find(kMonths.begin(), kMonths.end(), text.substr(8, 3));
  if (month == kMonths.end()) return std::nullopt;
  const auto number = static_cast<int>(month - kMonths.begin()) + 1;
  const std::string year(text.substr(12, 4));
  const std::string day(text.substr(5, 2));
  const std::string time(text.substr(17, 8));
  const auto found = parse_rfc3339(
      year + (number < 10 ? "-0" : "-") + std::to_string(number) + "-" + day + "T" + time + "Z"
  );
  return found && *found >= TimePoint() ? found : std::nullopt;
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
