#pragma once

#include "common/clock.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace gnn::client {

/// Longest wait that a reply can ask for. Whoever answers may be a proxy in maintenance: what it says
/// is a hint, and blinds nobody for longer. The API server itself asks for a second.
inline constexpr Duration kMaxRetryAfter = std::chrono::seconds(30);

/// That many seconds, at most kMaxRetryAfter; nothing if they are negative.
[[nodiscard]] std::optional<Duration> bounded_retry_after(int64_t seconds);

/// How long the header `retry-after` asks to wait, at most kMaxRetryAfter: seconds, or a date, which
/// counts from the same reply's `date`. Nothing if it is neither.
[[nodiscard]] std::optional<Duration> retry_after_in(
    const std::map<std::string, std::string>& headers
);

}  // namespace gnn::client
