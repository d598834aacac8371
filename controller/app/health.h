#pragma once

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

/// Serves /metrics, /healthz and /readyz until it is destroyed.
class HealthServer {
 public:
  /// Errors: Network if the address cannot be bound.
  [[nodiscard]] static Result<std::unique_ptr<HealthServer>> start(
      const HostPort& address, HealthRoutes routes
  );
  virtual ~HealthServer() = default;

  /// The port that is listened on.
  [[nodiscard]] virtual int port() const = 0;
};

}  // namespace gnn::app
