#pragma once

#include "controller/app/connection.h"
#include "controller/app/options.h"
#include "controller/runtime/leader_elector.h"

#include <string>

namespace gnn::app {

/// --identity, or the host's name, and a suffix that tells processes on one host apart.
[[nodiscard]] std::string lease_identity(const Options& options, const std::string& suffix);

/// The Lease by the options; without --lease-namespace, in the namespace of the credentials.
[[nodiscard]] runtime::LeaderOptions lease_options(
    const Options& options, const Connection& connection, std::string identity
);

}  // namespace gnn::app
