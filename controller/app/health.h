#pragma once

#include "common/http_server.h"
#include "common/result.h"
#include "controller/app/options.h"

#include <functional>
#include <memory>
#include <string>

namespace gnn::app {

struct HealthRoutes {
  std::function<std::string()> metrics;
  /// Empty: ready; else what is missing.
  std::function<std::string()> not_ready;
};

/// Serves /metrics, /healthz and /readyz until the server is destroyed.
/// Errors: Network if the address cannot be bound.
[[nodiscard]] Result<std::unique_ptr<HttpServer>> start_health_server(
    const HostPort& address, HealthRoutes routes
);

}  // namespace gnn::app
