#pragma once

#include "common/clock.h"
#include "common/result.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

namespace gnn::client {

/// Longest reply, and longest event of a watch, that is read. Above what one object can need: etcd
/// takes 1.5 MiB, and JSON writes a control character in six bytes.
inline constexpr int64_t kMaxReplyBytes = int64_t{12} << 20;

/// One HTTP request to the API server.
struct HttpRequest {
  std::string method = "GET";
  std::string path;  ///< path and query, already percent-encoded
  std::string body;
  std::string content_type;  ///< empty: no body
  std::string accept = "application/json";
  std::string bearer_token;  ///< empty: no Authorization header
  /// Longest silence of the server. A send() as a whole may take this long, plus one more silence.
  Duration timeout = std::chrono::seconds(30);
  /// Longest body that send() accepts.
  int64_t max_body_bytes = kMaxReplyBytes;
  /// Makes the request, and the stream that it opened, fail with Cancelled.
  std::stop_token stop{};
};

struct HttpResponse {
  int status = 0;
  /// Names in lower case; only those that are used somewhere.
  std::map<std::string, std::string> headers;
  std::string body;
};

/// A response whose body is read as it arrives.
/// Threads: one thread; the request's stop token may be used from any.
class HttpStream {
 public:
  virtual ~HttpStream() = default;

  [[nodiscard]] virtual int status() const = 0;
  [[nodiscard]] virtual const std::map<std::string, std::string>& headers() const = 0;
  /// Waits for the next bytes, any number of them; empty at the end of the body.
  /// Errors: Timeout (the request's timeout passed in silence), Network, Cancelled.
  [[nodiscard]] virtual Result<std::string> read() = 0;
};

/// How the rest of the controller speaks HTTP. Redirects are never followed.
/// Threads: every method may be called from any thread.
class HttpTransport {
 public:
  virtual ~HttpTransport() = default;

  /// Errors: Network (also for an untrusted certificate), Timeout, Cancelled, Data (a body above
  /// the limit, and nothing else).
  [[nodiscard]] virtual Result<HttpResponse> send(const HttpRequest& request) = 0;
  /// Returns once the headers have arrived.
  [[nodiscard]] virtual Result<std::unique_ptr<HttpStream>> open(const HttpRequest& request) = 0;
};

}  // namespace gnn::client
