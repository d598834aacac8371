#pragma once

#include "common/result.h"
#include "worker/report/run_record.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

namespace gnn::report {

/// The record as JSON. NaN becomes null.
[[nodiscard]] nlohmann::json to_json(const RunRecord& record);
[[nodiscard]] std::string to_text(const RunRecord& record);

/// A record that to_text() wrote. Its texts become single lines of at most kMaxTextBytes.
/// Errors: Data naming the field and what was expected; also for text beyond the limits of
/// api::parse_json(), more of anything than a record keeps, or another format.
[[nodiscard]] Result<RunRecord> parse_record(std::string_view text);

}  // namespace gnn::report
