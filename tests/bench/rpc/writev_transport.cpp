// What the machine can do: blocking sockets, writev() of a header and the reply, read() into place.
#include "tests/bench/rpc/transport.h"

#include <arpa/inet.h>
#include <array>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <thread>
#include <unistd.h>

namespace gnn::bench {
namespace {

constexpr size_t kHeaderBytes = 24;

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

void no_delay(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool read_all(int socket, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const auto count = ::read(socket, bytes.data(), bytes.size());
    if (count <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return true;
}

void write_all(int socket, std::span<const std::byte> header, std::span<const std::byte> body) {
  while (!header.empty() || !body.empty()) {
    std::array<iovec, 2> parts{
        iovec{const_cast<std::byte*>(header.data()), header.size()},
        iovec{const_cast<std::byte*>(body.data()), body.size()}
    };
    const auto count = ::writev(socket, parts.data(), parts.size());
    if (count < 0) return;  // the client is done
    const auto of_header = std::min(static_cast<size_t>(count), header.size());
    header = header.subspan(of_header);
    body = body.subspan(static_cast<size_t>(count) - of_header);
  }
}

class WritevConnection final : public Transport::Connection {
 public:
  explicit WritevConnection(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const auto address = loopback(port);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      give_up("writev: cannot connect");
    no_delay(socket_);
  }
  ~WritevConnection() override { ::close(socket_); }

  void stream(int64_t count, int in_flight, const std::atomic<bool>& stop) override {
    std::vector<std::byte> into(kLargeBytes);
    int64_t sent = 0;
    for (int64_t received = 0; received < count && (!stop || received < sent); ++received) {
      for (; sent < std::min(count, received + in_flight) && !stop; ++sent)
        write_all(socket_, header_, request_bytes(true));
      if (received == sent) return;
      receive(into);
      check_reply(true, into);
    }
  }
  void call() override {
    std::vector<std::byte> into(kSmallBytes);
    write_all(socket_, header_, request_bytes(false));
    receive(into);
    check_reply(false, into);
  }

 private:
  void receive(std::span<std::byte> into) {
    std::array<std::byte, kHeaderBytes> header{};
    if (!read_all(socket_, header) || !read_all(socket_, into))
      give_up("writev: the server is gone");
  }

  const std::array<std::byte, kHeaderBytes> header_{};
  int socket_;
};

class WritevTransport final : public Transport {
 public:
  WritevTransport() : Transport("writev") {}

  [[noreturn]] void serve(const std::function<void(uint16_t)>& listening) override {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    auto address = loopback(0);
    socklen_t size = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener, any, size) != 0 || ::listen(listener, 16) != 0) give_up("cannot listen");
    ::getsockname(listener, any, &size);
    listening(ntohs(address.sin_port));
    std::vector<std::thread> threads;
    while (true) {
      const int socket = ::accept(listener, nullptr, nullptr);
      no_delay(socket);
      threads.emplace_back([socket] {
        std::array<std::byte, kHeaderBytes> header{};
        std::vector<std::byte> request(kSmallBytes);
        while (read_all(socket, header) && read_all(socket, request))
          write_all(socket, header, reply_bytes(request[0]));
        ::close(socket);
      });
    }
  }
  [[nodiscard]] std::unique_ptr<Connection> connect(uint16_t port) override {
    return std::make_unique<WritevConnection>(port);
  }
};

}  // namespace

std::unique_ptr<Transport> make_writev() {
  return std::make_unique<WritevTransport>();
}

}  // namespace gnn::bench
