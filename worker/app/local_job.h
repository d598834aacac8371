#pragma once

#include "common/api/gnn_job.h"

#include <string>
#include <vector>

namespace gnn::app {

/// Runs `job` on this machine with one agent per node and its sampling servers, as in pods.
/// `rank_command`, `server_command`: program and arguments of a rank, and of a server. Signals, threads and the result: see agent::run_agents_locally().
[[nodiscard]] int run_local_job(
    const api::GnnJob& job,
    std::vector<std::string> rank_command,
    std::vector<std::string> server_command = {}
);

}  // namespace gnn::app
