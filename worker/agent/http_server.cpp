#include "worker/agent/http_server.h"

#include "common/contract.h"

#include <atomic>
#include <charconv>
#include <httplib.h>
#include <thread>

namespace gnn::agent {
namespace {

struct Address {
  std::string host;
  int port = 0;
};

Result<Address> parse_address(const std::string& text) {
  const auto colon = text.rfind(':');
  Address address;
  if (colon != std::string::npos) {
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data() + colon + 1, end, address.port);
    address.host = text.substr(0, colon);
    if (address.host.size() > 2 && address.host.front() == '[')
      address.host = address.host.substr(1, address.host.size() - 2);
    if (parsed.ec == std::errc() && parsed.ptr == end && address.port >= 0 && address.port < 65536)
      return address;
  }
  return fail(
      ErrorKind::Configuration,
      std::string(contract::kEnvHttpAddress) + " must be host:port, found '" + text + "'"
  );
}

}  // namespace

struct HttpServer::Impl {
  httplib::Server server;
  HttpPages pages;
  int port = 0;
  std::atomic<bool> ended{false};
  std::thread thread;
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const std::string& address, HttpPages pages) {
  GNN_ASSIGN_OR_RETURN(const Address where, parse_address(address));
  auto impl = std::make_unique<Impl>();
  impl->pages = std::move(pages);
  auto& server = impl->server;
  // Few and short requests: a scraper, the controller, a probe.
  server.new_task_queue = [] { return new httplib::ThreadPool(2); };
  server.set_keep_alive_max_count(1);
  server.set_read_timeout(5, 0);
  server.set_write_timeout(5, 0);
  server.set_payload_max_length(1024);
  Impl* shown = impl.get();
  server.Get(
      std::string(contract::kMetricsPath),
      [shown](const auto&, httplib::Response& response) {
        response.set_content(shown->pages.metrics(), "text/plain; version=0.0.4");
      }
  );
  server.Get(
      std::string(contract::kProgressPath),
      [shown](const auto&, httplib::Response& response) {
        response.set_content(shown->pages.progress(), "application/json");
      }
  );
  server.Get(std::string(contract::kHealthPath), [shown](const auto&, httplib::Response& response) {
    const bool healthy = shown->pages.healthy();
    response.status = healthy ? 200 : 503;
    response.set_content(healthy ? "ok\n" : "the agent's loop stands still\n", "text/plain");
  });
  if (where.port == 0) {
    impl->port = server.bind_to_any_port(where.host.c_str());
  } else {
    impl->port = server.bind_to_port(where.host.c_str(), where.port) ? where.port : -1;
  }
  if (impl->port <= 0) return fail(ErrorKind::Network, "can't listen on " + address);
  impl->thread = std::thread([shown] {
    shown->server.listen_after_bind();
    shown->ended.store(true);
  });
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::~HttpServer() {
  // stop() before the thread reached its loop would be lost.
  while (!impl_->server.is_running() && !impl_->ended.load()) std::this_thread::yield();
  impl_->server.stop();
  impl_->thread.join();
}

uint16_t HttpServer::port() const {
  return static_cast<uint16_t>(impl_->port);
}

}  // namespace gnn::agent
