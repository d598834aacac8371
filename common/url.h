#pragma once

#include "common/result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace gnn {

/// Where an HTTP server is.
struct Url {
  bool tls = false;
  std::string host{};  ///< a name or an address; IPv6 without brackets
  uint16_t port = 80;
  std::string path{};  ///< empty, or begins with a slash and does not end with one

  friend bool operator==(const Url&, const Url&) = default;
};

/// "https://HOST", "http://[IPV6]:PORT/PATH". Host and path are of letters, digits and a few signs, so
/// that they can stand in a request.
/// Errors: Configuration, with what was expected. The text may hold a secret, so it is not repeated.
[[nodiscard]] Result<Url> parse_url(std::string_view text);

}  // namespace gnn
