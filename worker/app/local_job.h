#pragma once

#include "common/api/gnn_job.h"

#include <string>
#include <vector>

namespace gnn::app {

/// Runs `job` on this machine with an agent for each of its nodes, as in pods. `rank_command`:
/// program and arguments of a rank. See agent::run_local_job for what happens on SIGINT, and who
/// calls it from where.
[[nodiscard]] int run_local_job(const api::GnnJob& job, std::vector<std::string> rank_command);

}  // namespace gnn::app
