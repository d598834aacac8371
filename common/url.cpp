#include "common/url.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace gnn {
namespace {

bool consists_of(std::string_view text, std::string_view signs) {
  return std::ranges::all_of(text, [signs](unsigned char c) {
    return std::isalnum(c) != 0 || signs.find(static_cast<char>(c)) != std::string_view::npos;
  });
}

tl::unexpected<Error> refuse(const std::string& what) {
  return fail(ErrorKind::Configuration, "must be https:// or http:// with " + what);
}

// Takes the text up to `end`, or all of it.
std::string_view take_until(std::string_view& text, std::string_view ends) {
  const size_t size = std::min(text.find_first_of(ends), text.size());
  const std::string_view taken = text.substr(0, size);
  text.remove_prefix(size);
  return taken;
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Takes host and its brackets from the front of an authority.
Result<std::string> take_host(std::string_view& authority) {
  if (!take_prefix(authority, "[")) {
    const std::string_view host = take_until(authority, ":");
    if (host.empty() || !consists_of(host, ".-_")) return refuse("a host");
    return std::string(host);
  }
  const std::string_view host = take_until(authority, "]");
  if (host.empty() || !consists_of(host, ":.") || !take_prefix(authority, "]"))
    return refuse("an IPv6 address in its brackets");
  return std::string(host);
}

Result<uint16_t> port_of(std::string_view text) {
  uint16_t port = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), port);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || port == 0)
    return refuse("a port between 1 and 65535");
  return port;
}

}  // namespace

Result<Url> parse_url(std::string_view text) {
  Url url;
  url.tls = take_prefix(text, "https://");
  if (!url.tls && !take_prefix(text, "http://")) return refuse("a host");
  std::string_view authority = take_until(text, "/?#");
  if (authority.find('@') != std::string_view::npos) return refuse("no user-info before the host");
  GNN_ASSIGN_OR_RETURN(url.host, take_host(authority));
  url.port = url.tls ? 443 : 80;
  if (take_prefix(authority, ":")) {
    GNN_ASSIGN_OR_RETURN(url.port, port_of(authority));
  } else if (!authority.empty()) {
    return refuse("a host");
  }
  if (!consists_of(text, "/.-_~")) return refuse("a plain path, and without query and fragment");
  while (text.ends_with('/')) text.remove_suffix(1);
  url.path = text;
  return url;
}

}  // namespace gnn
