#pragma once

#include "common/http_server.h"
#include "common/result.h"

#include <functional>
#include <memory>
#include <string>

namespace gnn::agent {

/// What the agent's HTTP server answers. Called on the server's threads.
struct HttpPages {
  std::function<std::string()> metrics;   ///< Prometheus text.
  std::function<std::string()> progress;  ///< JSON.
  std::function<bool()> healthy;
};

/// Serves /metrics, /progress and /healthz until the server is destroyed.
/// `address`: "host:port", or "[v6]:port"; port 0 takes a free one.
/// Errors: Configuration for an address that is none; Network.
[[nodiscard]] Result<std::unique_ptr<HttpServer>> start_http_server(
    const std::string& address, HttpPages pages
);

}  // namespace gnn::agent
