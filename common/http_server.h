#pragma once

#include "common/result.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace gnn {

struct HttpAnswer {
  int status = 200;
  std::string content_type = "text/plain";
  std::string body{};
};

/// A page that GET answers. `answer` is called on the server's threads.
struct HttpPage {
  std::string path;
  std::function<HttpAnswer()> answer;
};

/// What a client may cost: whoever reaches the port may be hostile.
struct HttpLimits {
  int64_t request_bytes = 8192;                   ///< all that is read of a request
  std::chrono::milliseconds request_time{3'000};  ///< from its first byte to the answer's last
  int64_t connections = 64;                       ///< open at once; more are closed unread
};

struct HttpServerOptions {
  std::string host;
  int port = 0;  ///< 0 takes a free one
  std::vector<HttpPage> pages{};
  HttpLimits limits{};
};

/// A few small pages for a scraper, a probe and the controller, until it is destroyed, which waits
/// for no client: one request a connection, within limits. cpp-httplib does the protocol.
class HttpServer {
 public:
  /// Errors: Network if the address can't be listened on.
  [[nodiscard]] static Result<std::unique_ptr<HttpServer>> start(HttpServerOptions options);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// The port that is listened on.
  [[nodiscard]] int port() const;

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gnn
