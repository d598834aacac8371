#pragma once

#include "worker/agent/store_link.h"

namespace gnn::app {

/// Hosts (node 0) or joins a c10d::TCPStore. `listening_socket`: for node 0, a bound socket to
/// serve on; -1: serve on the options' port.
[[nodiscard]] agent::StoreConnector make_tcp_connector(
    const agent::AgentOptions& options, int listening_socket
);

}  // namespace gnn::app
