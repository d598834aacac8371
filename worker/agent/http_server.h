#pragma once

#include "common/result.h"

#include <cstdint>
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

/// Serves /metrics, /progress and /healthz until it is destroyed.
class HttpServer {
 public:
  /// `address`: "host:port", or "[v6]:port"; port 0 takes a free one.
  [[nodiscard]] static Result<std::unique_ptr<HttpServer>> start(
      const std::string& address, HttpPages pages
  );
  ~HttpServer();

  [[nodiscard]] uint16_t port() const;

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gnn::agent
