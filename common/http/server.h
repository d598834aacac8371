#pragma once

#include "common/result.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace gnn::http {

struct Response {
  int status = 200;
  std::string content_type = "text/plain";
  std::string body{};
};

/// A page served on GET. `answer` is called on the server's threads.
struct Page {
  std::string path;
  std::function<Response()> answer;
};

/// What a single client may cost. Clients can be hostile.
struct Limits {
  int64_t request_bytes = 8192;  ///< most that is read of a request
  /// For the request to come, and again for the client to take the answer.
  std::chrono::milliseconds request_time{3'000};
  int64_t connections = 64;  ///< open at the same time; for another one the oldest is closed
};

struct ServerOptions {
  std::string host;  ///< empty: all addresses, of IPv6 (where the kernel has it) and IPv4
  int port = 0;      ///< 0 takes a free one
  std::vector<Page> pages{};
  Limits limits{};
};

/// Serves a few small pages to a scraper, a probe and the controller until it is destroyed, which
/// does not wait for clients. Each connection carries one request, within limits. cpp-httplib
/// implements the protocol.
class Server {
 public:
  /// Errors: Network if the address cannot be listened on.
  [[nodiscard]] static Result<std::unique_ptr<Server>> start(ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// The port that the server listens on.
  [[nodiscard]] int port() const;

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gnn::http
