#include "controller/app/health.h"

#include <utility>

namespace gnn::app {

Result<std::unique_ptr<http::Server>> start_health_server(
    const HostPort& address, HealthRoutes routes
) {
  http::ServerOptions options{.host = address.host, .port = address.port};
  options.pages = {
      {.path = "/metrics",
       .answer =
           [metrics = std::move(routes.metrics)] {
             return http::Response{
                 .content_type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics()
             };
           }},
      {.path = "/healthz", .answer = [] { return http::Response{.body = "ok\n"}; }},
      {.path = "/readyz",
       .answer =
           [not_ready = std::move(routes.not_ready)] {
             const std::string missing = not_ready();
             if (missing.empty()) return http::Response{.body = "ok\n"};
             return http::Response{.status = 503, .body = missing + "\n"};
           }},
  };
  return http::Server::start(std::move(options));
}

}  // namespace gnn::app
