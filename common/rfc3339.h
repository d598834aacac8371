#pragma once

#include "common/clock.h"

#include <optional>
#include <string>
#include <string_view>

namespace gnn {

/// "2026-11-21T11:28:56Z": the form of Kubernetes' Time; fractions of a second are cut off.
[[nodiscard]] std::string format_rfc3339(TimePoint time);

/// "2026-11-21T11:28:56.000123Z": the form of Kubernetes' MicroTime.
[[nodiscard]] std::string format_rfc3339_micro(TimePoint time);

/// Reads either form, with Z or a numeric offset and any fraction (cut to nanoseconds); nothing for
/// anything else.
[[nodiscard]] std::optional<TimePoint> parse_rfc3339(std::string_view text);

}  // namespace gnn
