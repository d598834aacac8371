#pragma once

#include "common/api/gnn_job.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gnn::api {

/// What a worker reports to the controller: the body of GET /progress, and a pod's termination
/// message. docs/schemas says which fields each of the two has.
struct ProgressReport {
  std::string job = {};
  std::string job_uid = {};
  int64_t attempt = 0;
  int64_t round = 0;
  int64_t node = 0;
  std::string phase = {};  ///< /progress only
  /// /progress in phase Prepare only: what is done now, and how much of it is.
  std::string doing = {};
  std::optional<int64_t> percent = {};
  /// /progress of node 0 only: whether it waits where another node is lost, until that node's pod is
  /// replaced; and for which node it does now.
  bool restarts_nodes = false;
  std::optional<int64_t> awaited_node = {};
  std::optional<int64_t> exit_code = {};  ///< termination message only, as all below but progress
  std::string reason = {};                ///< word for the exit code
  std::optional<int64_t> rank = {};       ///< the rank that failed first
  JobProgress progress = {};
  std::string parameters_hash = {};
  /// Where nodes read data from each other: bytes that training read from other nodes per step, of all
  /// ranks; of the feature rows that no node had itself, the share in caches, and what was expected.
  std::optional<std::string> remote_bytes_per_step = {};
  std::optional<std::string> cache_hit_rate = {};
  std::optional<std::string> expected_cache_hit_rate = {};
  std::string message = {};      ///< what went wrong, in a sentence
  std::string stderr_tail = {};  ///< end of the failed rank's stderr
  bool truncated = false;        ///< a text was cut to fit
  friend bool operator==(const ProgressReport&, const ProgressReport&) = default;
};

/// The report as a JSON object without the fields that are empty. It has at most `max_bytes`, as
/// long as the other fields fit: `message` loses its end and `stderr_tail` its start where needed,
/// and `truncated` is set then.
[[nodiscard]] std::string encode(const ProgressReport& report, size_t max_bytes);

/// Reads hostile input: numbers are bounded, text is made printable and short, and fields that
/// break the schema count as absent. Nothing unless the text is a JSON object of the contract's
/// version that names job UID, attempt, round and node.
[[nodiscard]] std::optional<ProgressReport> decode_report(std::string_view text);

/// A number as reports have it: a decimal of six digits, or NaN, Inf, -Inf.
[[nodiscard]] std::string encode_decimal(double value);

}  // namespace gnn::api
