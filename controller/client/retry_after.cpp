#include "controller/client/retry_after.h"

#include "controller/client/server_clock.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace gnn::client {
namespace {

constexpr int64_t kMaxSeconds = std::chrono::floor<std::chrono::seconds>(kMaxRetryAfter).count();

std::optional<int64_t> seconds_in(std::string_view text) {
  int64_t seconds = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (parsed.ptr != text.data() + text.size()) return std::nullopt;
  // All of it is a number, though one that is too large for us.
  if (parsed.ec == std::errc::result_out_of_range) return text.front() == '-' ? -1 : kMaxSeconds;
  return parsed.ec == std::errc() ? std::optional(seconds) : std::nullopt;
}

}  // namespace

std::optional<Duration> bounded_retry_after(int64_t seconds) {
  if (seconds < 0) return std::nullopt;
  return std::chrono::seconds(std::min(seconds, kMaxSeconds));
}

std::optional<Duration> retry_after_in(const std::map<std::string, std::string>& headers) {
  const auto header = headers.find("retry-after");
  if (header == headers.end()) return std::nullopt;
  if (const auto seconds = seconds_in(header->second)) return bounded_retry_after(*seconds);
  const auto date = headers.find("date");
  const auto until = parse_http_date(header->second);
  const auto from = date == headers.end() ? std::nullopt : parse_http_date(date->second);
  if (!until || !from) return std::nullopt;
  return std::clamp<Duration>(*until - *from, Duration::zero(), kMaxRetryAfter);
}

}  // namespace gnn::client
