#pragma once

#include "worker/agent/agent_options.h"
#include "worker/agent/node_progress.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>

/// What /progress and the result have in common (docs/schemas).
namespace gnn::agent {

/// The object that both begin with: the contract's version, and who reports.
[[nodiscard]] nlohmann::ordered_json begin_report(const AgentOptions& options, int64_t round);

/// Adds those of the numbers that are known and that both have.
void add_numbers(nlohmann::ordered_json& report, const JobNumbers& numbers);

/// A number as the schemas want it: NaN, Inf and -Inf are words.
[[nodiscard]] std::string decimal(double value);

}  // namespace gnn::agent
