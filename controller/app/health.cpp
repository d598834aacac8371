#include "controller/app/health.h"

#include <utility>

namespace gnn::app {

Result<std::unique_ptr<HttpServer>> start_health_server(
    const HostPort& address, HealthRoutes routes
) {
  HttpServerOptions options{.host = address.host, .port = address.port};
  options.pages = {
      {.path = "/metrics",
       .answer =
           [metrics = std::move(routes.metrics)] {
             return HttpAnswer{
                 .content_type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics()
             };
           }},
      {.path = "/healthz", .answer = [] { return HttpAnswer{.body = "ok\n"}; }},
      {.path = "/readyz",
       .answer =
           [not_ready = std::move(routes.not_ready)] {
             const std::string missing = not_ready();
             if (missing.empty()) return HttpAnswer{.body = "ok\n"};
             return HttpAnswer{.status = 503, .body = missing + "\n"};
           }},
  };
  return HttpServer::start(std::move(options));
}

}  // namespace gnn::app
