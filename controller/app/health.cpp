#include "controller/app/health.h"

#include <httplib.h>
#include <thread>
#include <utility>

namespace gnn::app {
namespace {

class Server final : public HealthServer {
 public:
  explicit Server(HealthRoutes routes) : routes_(std::move(routes)) {
    server_.new_task_queue = [] { return new httplib::ThreadPool(2); };
    server_.set_read_timeout(5);
    server_.set_write_timeout(5);
    server_.set_payload_max_length(1024);
    server_.Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(routes_.metrics(), "text/plain; version=0.0.4; charset=utf-8");
    });
    server_.Get("/healthz", [](const httplib::Request&, httplib::Response& response) {
      response.set_content("ok\n", "text/plain");
    });
    server_.Get("/readyz", [this](const httplib::Request&, httplib::Response& response) {
      const std::string missing = routes_.not_ready();
      response.status = missing.empty() ? 200 : 503;
      response.set_content((missing.empty() ? "ok" : missing) + "\n", "text/plain");
    });
  }

  ~Server() override {
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }

  [[nodiscard]] Status bind(const HostPort& address) {
    if (address.port == 0) {
      port_ = server_.bind_to_any_port(address.host.c_str());
    } else if (server_.bind_to_port(address.host.c_str(), address.port)) {
      port_ = address.port;
    }
    if (port_ <= 0) {
      return fail(
          ErrorKind::Network,
          "cannot listen on " + address.host + ":" + std::to_string(address.port)
      );
    }
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    // stop() before the loop runs would be lost.
    while (!server_.is_running()) std::this_thread::yield();
    return {};
  }

  [[nodiscard]] int port() const override { return port_; }

 private:
  const HealthRoutes routes_;
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<HealthServer>> HealthServer::start(
    const HostPort& address, HealthRoutes routes
) {
  auto server = std::make_unique<Server>(std::move(routes));
  GNN_RETURN_IF_ERROR(server->bind(address));
  return server;
}

}  // namespace gnn::app
