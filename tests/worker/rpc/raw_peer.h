#pragma once

#include "tests/support/must.h"
#include "worker/rpc/frame.h"
#include "worker/rpc/handshake.h"

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <netinet/in.h>
#include <span>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace gnn::rpc {

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

/// One end of a connection over loopback that sends what a test wants. Calls block; what cannot be
/// done throws.
class RawPeer {
 public:
  explicit RawPeer(int socket) : socket_(socket) {}
  RawPeer(RawPeer&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
  RawPeer& operator=(RawPeer&&) = delete;
  ~RawPeer() {
    if (socket_ >= 0) ::close(socket_);
  }

  /// `host`: the last number of the own address, 127.0.0.host.
  static RawPeer connect_to(uint16_t port, uint8_t host = 1) {
    RawPeer peer(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in own = loopback(0, host);
    if (::bind(peer.socket_, reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0)
      throw std::runtime_error("cannot bind");
    const sockaddr_in address = loopback(port);
    if (::connect(peer.socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("cannot connect");
    return peer;
  }

  static RawPeer client(uint16_t port, const Identity& own, int64_t server, const Key& key) {
    RawPeer peer = connect_to(port);
    peer.join(own, server, key);
    return peer;
  }
  /// A client's side of the handshake, up to a verdict that is right.
  void join(const Identity& own, int64_t server, const Key& key) {
    ClientHandshake handshake(own, server, key);
    send(testing::must(handshake.prove(receive<kChallengeBytes>())));
    testing::must(handshake.check(receive<kVerdictBytes>()));
  }
  /// A server's side of it.
  void welcome(const Identity& own, const Key& key) {
    const auto handshake = testing::must(ServerHandshake::begin(own, key));
    send(handshake.challenge());
    const auto judgement = handshake.judge(receive<kProofBytes>());
    if (!judgement.welcome) throw std::runtime_error(judgement.reason);
    send(judgement.verdict);
  }

  void send(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0) throw std::runtime_error("cannot send");
      bytes = bytes.subspan(static_cast<size_t>(sent));
    }
  }
  void send(const FrameHeader& header) { send(encode_header(header)); }

  template <size_t kBytes>
  std::array<std::byte, kBytes> receive() {
    std::array<std::byte, kBytes> bytes{};
    if (receive(bytes) != kBytes) throw std::runtime_error("the connection has ended");
    return bytes;
  }
  /// How many bytes came before the connection's end, at most all.
  size_t receive(std::span<std::byte> bytes) {
    size_t received = 0;
    while (received < bytes.size()) {
      const auto count = ::recv(socket_, bytes.data() + received, bytes.size() - received, 0);
      if (count <= 0) break;
      received += static_cast<size_t>(count);
    }
    return received;
  }
  /// The next frame's header.
  FrameHeader receive_header() {
    const auto bytes = receive<FrameHeader::kBytes>();
    return testing::must(decode_header(bytes));
  }
  /// The next header that is not a heartbeat's.
  FrameHeader receive_frame() {
    FrameHeader header;
    while (header.type == FrameType::Heartbeat) header = receive_header();
    return header;
  }
  /// Sends no more, and lets the other end know.
  void end() { ::shutdown(socket_, SHUT_WR); }
  /// Waits until the other end has closed; what comes before is dropped.
  void wait_for_end() {
    std::array<std::byte, 4096> bytes{};
    while (receive(bytes) == bytes.size()) {
    }
  }
  /// A small buffer in the kernel for what comes, so that a test reaches its end soon.
  void shrink_receive_buffer() {
    const int bytes = 4096;
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  }

 private:
  friend class RawListener;
  static sockaddr_in loopback(uint16_t port, uint8_t host = 1) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host);
    address.sin_port = htons(port);
    return address;
  }

  int socket_;
};

/// Takes connections on a free port.
class RawListener {
 public:
  RawListener() : listening_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = RawPeer::loopback(0);
    socklen_t size = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listening_.socket_, any, size) != 0 || ::listen(listening_.socket_, 16) != 0 ||
        ::getsockname(listening_.socket_, any, &size) != 0)
      throw std::runtime_error("cannot listen");
    port_ = ntohs(address.sin_port);
  }

  [[nodiscard]] uint16_t port() const { return port_; }
  [[nodiscard]] RawPeer accept() {
    return RawPeer(::accept4(listening_.socket_, nullptr, nullptr, SOCK_CLOEXEC));
  }

 private:
  RawPeer listening_;
  uint16_t port_ = 0;
};

}  // namespace gnn::rpc
