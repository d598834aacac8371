#include "controller/app/health.h"

#include <utility>

namespace gnn::app {
namespace {

http::Page probe(std::string path, std::function<std::string()> obstacle) {
  return {.path = std::move(path), .answer = [obstacle = std::move(obstacle)] {
            const std::string found = obstacle();
            if (found.empty()) return http::Response{.body = "ok\n"};
            return http::Response{.status = 503, .body = found + "\n"};
          }};
}

}  // namespace

Result<std::unique_ptr<http::Server>> start_metrics_server(
    const HostPort& address, std::function<std::string()> metrics
) {
  http::ServerOptions options{.host = address.host, .port = address.port};
  options.pages.push_back({.path = "/metrics", .answer = [metrics = std::move(metrics)] {
                             return http::Response{
                                 .content_type = "text/plain; version=0.0.4; charset=utf-8",
                                 .body = metrics()
                             };
                           }});
  return http::Server::start(std::move(options));
}

Result<std::unique_ptr<http::Server>> start_health_server(
    const HostPort& address, HealthRoutes routes
) {
  http::ServerOptions options{.host = address.host, .port = address.port};
  options.pages.push_back(probe("/healthz", std::move(routes.not_alive)));
  options.pages.push_back(probe("/readyz", std::move(routes.not_ready)));
  return http::Server::start(std::move(options));
}

}  // namespace gnn::app
