#pragma once

#include "common/result.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gnn::testing {

/// Header fields in order; names compare without case.
class HttpHeaders {
 public:
  HttpHeaders() = default;
  HttpHeaders(std::initializer_list<std::pair<std::string, std::string>> fields)
      : fields_(fields) {}

  [[nodiscard]] std::optional<std::string> find(std::string_view name) const;
  void add(std::string name, std::string value);
  void remove(std::string_view name);
  [[nodiscard]] auto begin() const { return fields_.begin(); }
  [[nodiscard]] auto end() const { return fields_.end(); }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

/// Query parameters in order, percent-decoded.
using HttpQuery = std::vector<std::pair<std::string, std::string>>;
[[nodiscard]] std::optional<std::string> find_parameter(
    const HttpQuery& query, std::string_view name
);

struct UrlParts {
  bool tls = false;
  std::string host;
  uint16_t port = 0;
};
/// Understands http(s)://HOST:PORT[/...] with an IPv4 address or name.
[[nodiscard]] Result<UrlParts> parse_url(std::string_view url);
[[nodiscard]] std::string percent_decode(std::string_view text);

/// How to reach and trust a server; empty file names leave that part out.
struct HttpEndpoint {
  std::string url;  ///< https://HOST:PORT or http://HOST:PORT
  std::string ca_file = {};
  std::string certificate_file = {};
  std::string key_file = {};
  std::string bearer_token = {};
};

struct HttpReply {
  int status = 0;
  HttpHeaders headers;
  std::string body;
};

/// One request on its own connection, for tests that must see what is really on the wire. Errors:
/// Network (also an incomplete body), Timeout.
[[nodiscard]] Result<HttpReply> http_request(
    const HttpEndpoint& endpoint,
    std::string_view method,
    std::string_view target,
    std::string_view body = {},
    const HttpHeaders& headers = {},
    std::chrono::milliseconds timeout = std::chrono::seconds(10)
);

/// An open watch (or any other reply that is read as it comes).
class HttpStream {
 public:
  /// Returns when the reply's headers are there.
  [[nodiscard]] static Result<std::unique_ptr<HttpStream>> open(
      const HttpEndpoint& endpoint,
      std::string_view target,
      std::chrono::milliseconds timeout = std::chrono::seconds(10)
  );
  ~HttpStream();

  [[nodiscard]] int status() const;
  /// The next line without its end; nullopt when the reply ended as it should.
  /// Errors: Timeout: none came in time (reading may go on); Network: the connection broke.
  [[nodiscard]] Result<std::optional<std::string>> read_line(std::chrono::milliseconds timeout);

 private:
  struct State;
  explicit HttpStream(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gnn::testing
