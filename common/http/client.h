#pragma once

#include "common/clock.h"
#include "common/result.h"
#include "common/url.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace gnn::http {

struct Request {
  std::string_view method = "GET";
  std::string target{};  ///< with a slash in front, and encoded
  std::string content_type{};
  std::string body{};
};

/// What a request may cost. Servers can be hostile.
struct ClientLimits {
  Duration time = std::chrono::seconds(5);  ///< from the name's look-up to the end of the answer
  int64_t body_bytes = 65536;
  bool addresses_only = false;  ///< the host must be an IP address: no name is looked up
};

struct Reply {
  int status = 0;
  std::string body{};
};

/// Sends one request on a connection of its own, and reads the answer. TLS is always verified: by the
/// system's certificates, or those that SSL_CERT_FILE and SSL_CERT_DIR name. Nothing is followed: the
/// answer of a redirect is its status. `url.path` stands in front of the request's target.
/// A name is looked up with fewer tries than usual, also in later look-ups of this thread. Where the
/// system does not end a look-up in time, the error comes once it does.
/// Errors: Network; Timeout; Data if the answer is no HTTP, is chunked, or goes beyond a limit.
[[nodiscard]] Result<Reply> send(
    const Url& url, const Request& request, const ClientLimits& limits
);

}  // namespace gnn::http
