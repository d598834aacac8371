#include "controller/app/health.h"

#include "common/http_server.h"

#include <utility>

namespace gnn::app {
namespace {

class Server final : public HealthServer {
 public:
  explicit Server(std::unique_ptr<HttpServer> server) : server_(std::move(server)) {}
  [[nodiscard]] int port() const override { return server_->port(); }

 private:
  std::unique_ptr<HttpServer> server_;
};

}  // namespace

Result<std::unique_ptr<HealthServer>> HealthServer::start(
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
  GNN_ASSIGN_OR_RETURN(auto server, HttpServer::start(std::move(options)));
  return std::make_unique<Server>(std::move(server));
}

}  // namespace gnn::app
