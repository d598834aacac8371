#include "controller/client/server_clock.h"

#include "common/rfc3339.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace gnn::client {
namespace {

constexpr size_t kFewSamples = 5;
constexpr size_t kManySamples = 31;
constexpr Duration kSampleInterval = std::chrono::seconds(4);
constexpr Duration kSampleAge = std::chrono::minutes(10);
// By how much two clocks that are set may differ.
constexpr Duration kAgreement = std::chrono::seconds(5);
// For how long dates must have said the same before they stand against the machine's clock.
constexpr Duration kConfirmation = std::chrono::minutes(1);

// The member's value that has `rank` values below it.
template <class Samples, class Member>
TimePoint ranked(const Samples& samples, Member member, size_t rank) {
  std::vector<TimePoint> values;
  values.reserve(samples.size());
  for (const auto& each : samples) values.push_back(std::invoke(member, each));
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

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
    : machine_(machine),
      state_(State{.zero = machine.now() - machine.monotonic().time_since_epoch()}) {}

void ServerClock::see(TimePoint date, Duration took) {
  auto state = state_.lock();
  auto& samples = state->samples;
  const MonotonicPoint came = machine_.monotonic();
  if (samples.size() >= kFewSamples && came - samples.back().came < kSampleInterval) return;
  // The reply may have been made at any moment since it was asked for, and the date is cut to whole
  // seconds. What lies within is left alone, so that time does not tremble.
  const TimePoint zero_from = date - came.time_since_epoch();
  samples.push_back(
      {.zero_from = zero_from, .zero_to = zero_from + took + std::chrono::seconds(1), .came = came}
  );
  const auto is_old = [&](const Sample& each) { return came - each.came > kSampleAge; };
  while (samples.size() > kManySamples || (samples.size() > kFewSamples && is_old(samples.front()))
  ) {
    samples.pop_front();
  }
  const size_t middle = (samples.size() - 1) / 2;
  state->zero = std::clamp(
      state->zero,
      ranked(samples, &Sample::zero_from, middle),
      ranked(samples, &Sample::zero_to, middle)
  );
}

TimePoint ServerClock::now() const {
  return state_.lock()->zero + machine_.monotonic().time_since_epoch();
}

ServerClock::Reading ServerClock::read() const {
  const auto state = state_.lock();
  const auto& samples = state->samples;
  const Duration passed = machine_.monotonic().time_since_epoch();
  const TimePoint now = state->zero + passed;
  const TimePoint own = machine_.now();
  Reading reading{.now = now, .earliest = std::min(now, own), .latest = std::max(now, own)};
  const bool confirmed =
      samples.size() >= kFewSamples && samples.back().came - samples.front().came >= kConfirmation;
  if (!confirmed) {
    for (const Sample& each : samples) {
      reading.earliest = std::min(reading.earliest, each.zero_to + passed);
      reading.latest = std::max(reading.latest, each.zero_from + passed);
    }
    return reading;
  }
  // Where the machine's clock does not agree, it says nothing: it may be off just as the dates are.
  if (std::chrono::abs(own - now) <= kAgreement) return reading;
  // Four of five dates say that it is not earlier, or not later.
  const size_t dissenters = samples.size() / 5;
  const TimePoint from = ranked(samples, &Sample::zero_from, dissenters) + passed;
  const TimePoint to = ranked(samples, &Sample::zero_to, samples.size() - 1 - dissenters) + passed;
  reading.earliest = std::min(now, from);
  reading.latest = std::max(now, to);
  return reading;
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
