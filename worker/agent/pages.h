#pragma once

#include "common/http/server.h"
#include "common/result.h"

#include <functional>
#include <memory>
#include <string>

namespace gnn::agent {

/// The contents of the agent's HTTP pages.
/// Threads: called on the server's threads.
struct Pages {
  std::function<std::string()> metrics;   ///< Prometheus text
  std::function<std::string()> progress;  ///< JSON
  std::function<bool()> healthy;
  /// What /healthz says otherwise.
  std::string unhealthy = "the agent's loop is stuck";
};

/// Serves /metrics, /progress and /healthz until the server is destroyed. `address`: see
/// parse_host_port(); port 0 takes a free one.
/// Errors: Configuration if the address is malformed; Network if the port cannot be opened.
[[nodiscard]] Result<std::unique_ptr<http::Server>> serve_pages(
    const std::string& address, Pages pages
);

}  // namespace gnn::agent
