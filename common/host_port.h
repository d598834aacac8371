#pragma once

#include "common/result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace gnn {

/// An address to listen on.
struct HostPort {
  std::string host;  ///< empty: all addresses, of IPv6 and IPv4
  int port = 0;      ///< 0: any free one
};

/// "HOST:PORT", ":PORT" (all addresses) or "[IPV6]:PORT".
/// Errors: Configuration, with what was expected and found.
[[nodiscard]] Result<HostPort> parse_host_port(std::string_view text);

/// The text that parse_host_port() reads.
[[nodiscard]] std::string format_host_port(std::string_view host, int64_t port);

}  // namespace gnn
