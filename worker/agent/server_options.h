#pragma once

#include "common/result.h"
#include "worker/agent/agent_options.h"
#include "worker/rendezvous/rendezvous.h"

#include <cstdint>

namespace gnn::agent {

/// A sampling server's configuration, checked.
struct ServerOptions {
  /// As node: the server's number, by which reports name it. It has no attempt of its own, and starts
  /// no ranks.
  AgentOptions pod;
  int64_t restart = 0;  ///< how many pods of this server there were before

  [[nodiscard]] int64_t server() const { return pod.node; }
};

/// Reads the environment that the controller sets (docs/worker-contract.md).
/// Errors: Configuration, naming the variable, what was expected and what was found.
[[nodiscard]] Result<ServerOptions> parse_server_options(
    const rendezvous::EnvironmentLookup& environment
);

}  // namespace gnn::agent
