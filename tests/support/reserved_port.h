#pragma once

#include "common/result.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace gnn::testing {

/// A port of 127.0.0.1 that stays ours: the socket is bound and never listens, and only programs of the
/// same user that share ports too (etcd and the API server are told to) can listen on it.
class ReservedPort {
 public:
  static Result<ReservedPort> reserve() {
    ReservedPort reserved;
    reserved.fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int one = 1;
    setsockopt(reserved.fd_, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (bind(reserved.fd_, generic, size) != 0 || getsockname(reserved.fd_, generic, &size) != 0) {
      return fail(ErrorKind::Network, std::string("no loopback port: ") + std::strerror(errno));
    }
    reserved.port_ = ntohs(address.sin_port);
    return reserved;
  }
  ReservedPort() = default;
  ReservedPort(ReservedPort&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), port_(other.port_) {}
  ReservedPort& operator=(ReservedPort&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(port_, other.port_);
    return *this;
  }
  ~ReservedPort() {
    if (fd_ >= 0) close(fd_);
  }
  [[nodiscard]] uint16_t number() const { return port_; }
  [[nodiscard]] std::string text() const { return std::to_string(port_); }

 private:
  int fd_ = -1;
  uint16_t port_ = 0;
};

}  // namespace gnn::testing
