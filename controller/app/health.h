#pragma once

#include "common/host_port.h"
#include "common/http/server.h"
#include "common/result.h"
#include "controller/app/options.h"

#include <functional>
#include <memory>
#include <string>

namespace gnn::app {

struct HealthRoutes {
  std::function<std::string()> metrics;
  /// What readiness waits for; empty: ready.
  std::function<std::string()> not_ready;
};

/// Serves /metrics, /healthz and /readyz until the server is destroyed.
/// Errors: Network if the address cannot be bound.
[[nodiscard]] Result<std::unique_ptr<http::Server>> start_health_server(
    const HostPort& address, HealthRoutes routes
);

}  // namespace gnn::app
