#pragma once

#include "common/result.h"
#include "worker/agent/agent_options.h"
#include "worker/agent/messages.h"
#include "worker/agent/node_progress.h"

#include <cstdint>
#include <optional>
#include <string>

namespace gnn::agent {

/// How a node's part of an attempt ended.
struct NodeResult {
  int64_t round = 0;
  int64_t exit_code = 0;
  std::string message{};
  std::optional<Failure> failure{};
  JobNumbers numbers{};
};

/// The termination message (docs/schemas/result.v1.json): one JSON object of at most `most` bytes,
/// fixed keys first, the end of long strings cut and `truncated` set where that happened.
[[nodiscard]] std::string encode_result(
    const AgentOptions& options, const NodeResult& result, size_t most
);

/// Writes it; the kubelet reads the file when the container has ended.
[[nodiscard]] Status write_result(const AgentOptions& options, const NodeResult& result);

}  // namespace gnn::agent
