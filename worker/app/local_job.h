#pragma once

#include "common/api/gnn_job.h"

#include <string>
#include <vector>

namespace gnn::app {

/// Runs `job` on this machine with one agent per node, as in pods. `rank_command`: program and
/// arguments of a rank. Signals, threads and the result: see agent::run_agents_locally().
[[nodiscard]] int run_local_job(const api::GnnJob& job, std::vector<std::string> rank_command);

}  // namespace gnn::app
