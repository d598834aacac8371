#pragma once

#include "common/api/gnn_job.h"
#include "common/clock.h"
#include "common/result.h"
#include "worker/agent/messages.h"
#include "worker/rendezvous/rendezvous.h"
#include "worker/servers/directory.h"
#include "worker/tasks/data_network.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace gnn::app {

/// Gives `directory` the servers that an agent, or node 0, names.
[[nodiscard]] std::function<void(const std::vector<agent::LiveServer>& servers)> update_of(
    std::shared_ptr<servers::Directory> directory
);

/// How long a rank waits where no server holds what it needs: GNN_SERVER_TIMEOUT, else the job's.
/// Errors: Configuration naming the variable.
[[nodiscard]] Result<Duration> server_timeout_of(
    const api::GnnJobSpec& spec, const rendezvous::EnvironmentLookup& environment
);

/// Where this process serves data, and the file with the key. `own_address`: under which others reach
/// it; empty keeps the default.
/// Errors: Configuration naming the variable.
[[nodiscard]] Result<tasks::DataEndpoint> parse_data_endpoint(
    const rendezvous::EnvironmentLookup& environment, const std::string& own_address
);

}  // namespace gnn::app
