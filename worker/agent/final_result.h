#pragma once

#include "common/result.h"
#include "worker/agent/agent_options.h"
#include "worker/agent/job_numbers.h"
#include "worker/agent/messages.h"

#include <cstdint>
#include <optional>
#include <string>

namespace gnn::agent {

/// How an attempt ended on one node.
struct NodeResult {
  int64_t round = 0;
  int64_t exit_code = 0;
  std::string message{};
  std::optional<Failure> failure{};
  JobNumbers numbers{};
};

/// The termination message (docs/schemas/result.v1.json) of at most `max_bytes`.
[[nodiscard]] std::string encode_result(
    const AgentOptions& options, const NodeResult& result, size_t max_bytes
);

/// Writes it to the termination log, which the kubelet reads when the container has ended.
[[nodiscard]] Status write_result(const AgentOptions& options, const NodeResult& result);

}  // namespace gnn::agent
