#pragma once

#include "common/result.h"

#include <string>
#include <string_view>

namespace gnn {

/// An address to listen on.
struct HostPort {
  std::string host;
  int port = 0;  ///< 0: any free one
};

/// "HOST:PORT", ":PORT" (all IPv4 addresses) or "[IPV6]:PORT".
/// Errors: Configuration, with what was expected and found.
[[nodiscard]] Result<HostPort> parse_host_port(std::string_view text);

}  // namespace gnn
