#include "worker/agent/pages.h"

#include "common/contract.h"
#include "common/host_port.h"

#include <utility>

namespace gnn::agent {

Result<std::unique_ptr<http::Server>> serve_pages(const std::string& address, Pages pages) {
  const auto where = parse_host_port(address);
  if (!where) {
    return tl::unexpected<Error>(with_context(where.error(), contract::kEnvHttpAddress));
  }
  http::ServerOptions options{.host = where->host, .port = where->port};
  options.pages = {
      {.path = std::string(contract::kMetricsPath),
       .answer =
           [page = std::move(pages.metrics)] {
             return http::Response{.content_type = "text/plain; version=0.0.4", .body = page()};
           }},
      {.path = std::string(contract::kProgressPath),
       .answer = [page = std::move(pages.progress
                  )] { return http::Response{.content_type = "application/json", .body = page()}; }
      },
      {.path = std::string(contract::kHealthPath),
       .answer =
           [healthy = std::move(pages.healthy), why_not = pages.unhealthy + "\n"] {
             if (healthy()) return http::Response{.body = "ok\n"};
             return http::Response{.status = 503, .body = why_not};
           }},
  };
  return http::Server::start(std::move(options));
}

}  // namespace gnn::agent
