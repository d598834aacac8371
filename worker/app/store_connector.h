#pragma once

#include "worker/agent/store_link.h"

namespace gnn::app {

/// A connector that hosts (node 0) or joins a c10d::TCPStore. `listening_socket`: on node 0 a
/// socket to serve on; -1 to open the options' port.
[[nodiscard]] agent::StoreConnector make_tcp_connector(
    const agent::AgentOptions& options, int listening_socket
);

/// A connector that joins the store as a sampling server does, whichever attempt hosts it.
[[nodiscard]] agent::StoreConnector make_tcp_joiner(const agent::AgentOptions& options);

}  // namespace gnn::app
