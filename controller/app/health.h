#pragma once

#include "common/host_port.h"
#include "common/http/server.h"
#include "common/result.h"

#include <functional>
#include <memory>
#include <string>

namespace gnn::app {

/// Serves /metrics until the server is destroyed.
/// Errors: Network if the address cannot be bound.
[[nodiscard]] Result<std::unique_ptr<http::Server>> start_metrics_server(
    const HostPort& address, std::function<std::string()> metrics
);

/// What keeps the process from being alive or ready; empty: nothing.
struct HealthRoutes {
  std::function<std::string()> not_alive;
  std::function<std::string()> not_ready;
};

/// Serves /healthz and /readyz until the server is destroyed; 503 with the reason if there is one.
/// On a port of their own: whoever may read metrics could otherwise keep all its threads busy until
/// the kubelet kills the process.
/// Errors: Network if the address cannot be bound.
[[nodiscard]] Result<std::unique_ptr<http::Server>> start_health_server(
    const HostPort& address, HealthRoutes routes
);

}  // namespace gnn::app
