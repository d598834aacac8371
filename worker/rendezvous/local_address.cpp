#include "worker/rendezvous/local_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace gnn::rendezvous {
namespace {

std::string text_of(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = {};
  const void* bytes = &reinterpret_cast<const sockaddr_in&>(address).sin_addr;
  if (address.ss_family == AF_INET6)
    bytes = &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return ::inet_ntop(address.ss_family, bytes, text, sizeof text) == nullptr ? "" : text;
}

}  // namespace

// Connecting a datagram socket only looks up the route; nothing is sent.
Result<std::string> local_address_towards(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0)
    return fail(ErrorKind::PeerLost, "can't resolve " + host + ": " + ::gai_strerror(code));
  std::string address;
  for (const addrinfo* entry = found; entry != nullptr && address.empty(); entry = entry->ai_next) {
    const int fd = ::socket(entry->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    sockaddr_storage mine{};
    socklen_t length = sizeof mine;
    if (::connect(fd, entry->ai_addr, entry->ai_addrlen) == 0 &&
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&mine), &length) == 0)
      address = text_of(mine);
    ::close(fd);
  }
  ::freeaddrinfo(found);
  if (address.empty()) return fail(ErrorKind::PeerLost, "no route to " + host);
  return address;
}

}  // namespace gnn::rendezvous
