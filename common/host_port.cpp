#include "common/host_port.h"

#include <charconv>

namespace gnn {

Result<HostPort> parse_host_port(std::string_view text) {
  const auto refuse = [&] {
    return fail(ErrorKind::Configuration, "expected HOST:PORT, found '" + std::string(text) + "'");
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return refuse();
  std::string_view host = text.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return refuse();
  }
  HostPort result{.host = std::string(host)};
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + colon + 1, end, result.port);
  if (parsed.ec != std::errc() || parsed.ptr != end || result.port < 0 || result.port > 65535) {
    return refuse();
  }
  return result;
}

std::string format_host_port(std::string_view host, int64_t port) {
  const bool ipv6 = host.find(':') != std::string_view::npos;
  std::string text = ipv6 ? "[" + std::string(host) + "]" : std::string(host);
  return text + ":" + std::to_string(port);
}

}  // namespace gnn
