#pragma once

#include "common/clock.h"

#include <optional>
#include <string>
#include <string_view>

namespace gnn {

/// "2026-11-21T11:28:56Z", as Kubernetes' Time. Cuts off fractions of a second.
[[nodiscard]] std::string format_rfc3339(TimePoint time);

/// "2026-11-21T11:28:56.000123Z", as Kubernetes' MicroTime.
[[nodiscard]] std::string format_rfc3339_micro(TimePoint time);

/// Reads either form, with Z or a numeric offset and any fraction (cut to nanoseconds); nothing for
/// anything else.
[[nodiscard]] std::optional<TimePoint> parse_rfc3339(std::string_view text);

/// As parse_rfc3339(), for a time that is stored and may be of any year from 0 to 9999: one before 1900 or
/// after 2150 becomes that bound. From today to any of them it is less than 64 bits of nanoseconds.
[[nodiscard]] std::optional<TimePoint> parse_stored_rfc3339(std::string_view text);

}  // namespace gnn
