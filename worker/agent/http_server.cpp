#include "worker/agent/http_server.h"

#include "common/contract.h"

#include <charconv>
#include <utility>

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

Result<std::unique_ptr<HttpServer>> start_http_server(const std::string& address, HttpPages pages) {
  GNN_ASSIGN_OR_RETURN(const Address where, parse_address(address));
  HttpServerOptions options{.host = where.host, .port = where.port};
  options.pages = {
      {.path = std::string(contract::kMetricsPath),
       .answer =
           [page = std::move(pages.metrics)] {
             return HttpAnswer{.content_type = "text/plain; version=0.0.4", .body = page()};
           }},
      {.path = std::string(contract::kProgressPath),
       .answer = [page = std::move(pages.progress
                  )] { return HttpAnswer{.content_type = "application/json", .body = page()}; }},
      {.path = std::string(contract::kHealthPath),
       .answer =
           [healthy = std::move(pages.healthy)] {
             if (healthy()) return HttpAnswer{.body = "ok\n"};
             return HttpAnswer{.status = 503, .body = "the agent's loop stands still\n"};
           }},
  };
  return HttpServer::start(std::move(options));
}

}  // namespace gnn::agent
