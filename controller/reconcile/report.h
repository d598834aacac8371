#pragma once

#include "common/api/gnn_job.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gnn::reconcile {

/// What a worker says of itself: the body of GET /progress, or a pod's termination message
/// (docs/schemas). Everything in it is hostile input: numbers are bounded, text is printable and
/// short, and what does not fit its schema is as if it had not been said.
struct Report {
  std::string job_uid;
  std::int64_t attempt = 0;
  std::int64_t round = 0;
  std::int64_t node = 0;
  std::optional<std::int64_t> rank;  ///< the rank that failed first
  std::string message;
  api::JobProgress progress;
  friend bool operator==(const Report&, const Report&) = default;
};

/// Nothing if the text is no object of the contract's version with job, attempt, round and node.
[[nodiscard]] std::optional<Report> parse_report(std::string_view text);

/// At most `max_bytes` of the text, as printable UTF-8 on one line: what is not becomes a space,
/// and a cut ends with "…".
[[nodiscard]] std::string printable(std::string_view text, std::size_t max_bytes);

}  // namespace gnn::reconcile
