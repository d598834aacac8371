#include "controller/client/cpprest_transport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace gnn::client {
namespace {

// A socket that listens on a free port of the loopback.
class Listener {
 public:
  explicit Listener(bool ipv6 = false)
      : fd_(::socket(ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0)),
        host_(ipv6 ? "[::1]" : "127.0.0.1") {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_in6 address6{};
    address6.sin6_family = AF_INET6;
    address6.sin6_addr = in6addr_loopback;
    auto* any =
        ipv6 ? reinterpret_cast<sockaddr*>(&address6) : reinterpret_cast<sockaddr*>(&address);
    socklen_t size = ipv6 ? sizeof(address6) : sizeof(address);
    listens_ = fd_ >= 0 && ::bind(fd_, any, size) == 0 && ::listen(fd_, 64) == 0 &&
               ::getsockname(fd_, any, &size) == 0;
    port_ = ntohs(ipv6 ? address6.sin6_port : address.sin_port);
  }
  ~Listener() { ::close(fd_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] bool listens() const { return listens_; }
  [[nodiscard]] std::unique_ptr<HttpTransport> transport() const {
    KubeConfig config;
    config.server = "http://" + host_ + ":" + std::to_string(port_);
    return make_cpprest_transport(config).value();
  }

 private:
  int fd_;
  std::string host_;
  bool listens_ = false;
  int port_ = 0;
};

// A server that takes one connection and says what the test tells it to.
class OneConnection {
 public:
  OneConnection() = default;
  ~OneConnection() { ::close(connection_); }
  OneConnection(const OneConnection&) = delete;
  OneConnection& operator=(const OneConnection&) = delete;

  [[nodiscard]] std::unique_ptr<HttpTransport> transport() const { return listener_.transport(); }
  // Returns when the client has sent its request.
  void await_request() {
    connection_ = ::accept(listener_.fd(), nullptr, nullptr);
    std::array<char, 4096> bytes{};
    EXPECT_GT(::read(connection_, bytes.data(), bytes.size()), 0);
  }
  void say(const std::string& text) const {
    EXPECT_EQ(::write(connection_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

 private:
  Listener listener_;
  int connection_ = -1;
};

// A server that answers everything at once and counts the connections that were made to it.
class CountingServer {
 public:
  CountingServer() : thread_([this](const std::stop_token& stop) { serve(stop); }) {}

  [[nodiscard]] std::unique_ptr<HttpTransport> transport() const { return listener_.transport(); }
  [[nodiscard]] int connections() const { return connections_; }

 private:
  void serve(const std::stop_token& stop) {
    std::vector<pollfd> watched{{.fd = listener_.fd(), .events = POLLIN, .revents = 0}};
    while (!stop.stop_requested()) {
      ::poll(watched.data(), watched.size(), 10);
      for (size_t i = 1; i < watched.size(); ++i) {
        if (watched[i].revents != 0 && !answer(watched[i].fd)) {
          ::close(watched[i].fd);
          watched.erase(watched.begin() + static_cast<std::ptrdiff_t>(i--));
        }
      }
      if (watched[0].revents == 0) continue;
      const int connection = ::accept(listener_.fd(), nullptr, nullptr);
      watched.push_back({.fd = connection, .events = POLLIN, .revents = 0});
      ++connections_;
    }
    for (size_t i = 1; i < watched.size(); ++i) ::close(watched[i].fd);
  }

  static bool answer(int connection) {
    std::array<char, 4096> request{};
    if (::read(connection, request.data(), request.size()) <= 0) return false;
    constexpr std::string_view kReply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    return ::write(connection, kReply.data(), kReply.size()) == static_cast<ssize_t>(kReply.size());
  }

  Listener listener_;
  std::atomic<int> connections_ = 0;
  std::jthread thread_;
};

HttpRequest request_until(const std::stop_source& stop) {
  HttpRequest request;
  request.path = "/version";
  request.timeout = std::chrono::minutes(5);
  request.stop = stop.get_token();
  return request;
}

TEST(CpprestTransport, AStopEndsARequestThatNobodyAnswers) {
  OneConnection server;
  const auto transport = server.transport();
  std::stop_source stop;
  std::thread caller([&] {
    const auto stream = transport->open(request_until(stop));
    ASSERT_FALSE(stream);
    EXPECT_EQ(stream.error().kind, ErrorKind::Cancelled);
  });
  server.await_request();
  stop.request_stop();
  caller.join();
  EXPECT_EQ(transport->send(request_until(stop)).error().kind, ErrorKind::Cancelled);
}

TEST(CpprestTransport, AStopEndsAStreamThatIsSilent) {
  OneConnection server;
  const auto transport = server.transport();
  std::stop_source stop;
  std::thread caller([&] {
    const auto stream = transport->open(request_until(stop));
    ASSERT_TRUE(stream);
    EXPECT_EQ((*stream)->read().value(), "ab");
    stop.request_stop();
    EXPECT_EQ((*stream)->read().error().kind, ErrorKind::Cancelled);
  });
  server.await_request();
  server.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n");
  caller.join();
}

TEST(CpprestTransport, ReachesAServerByItsIpv6Address) {
  const Listener listener(/*ipv6=*/true);
  if (!listener.listens()) GTEST_SKIP() << "this kernel has no IPv6";
  const auto transport = listener.transport();
  std::string request(4096, '\0');
  std::thread server([&] {
    const int connection = ::accept(listener.fd(), nullptr, nullptr);
    const ssize_t size = ::read(connection, request.data(), request.size());
    request.resize(static_cast<size_t>(std::max<ssize_t>(size, 0)));
    constexpr std::string_view kReply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    EXPECT_GT(::write(connection, kReply.data(), kReply.size()), 0);
    ::close(connection);
  });
  const auto response = transport->send(request_until(std::stop_source()));
  ::shutdown(listener.fd(), SHUT_RDWR);  // nothing may have come
  server.join();
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->body, "{}");
  EXPECT_TRUE(request.starts_with("GET /version HTTP/1.1\r\n")) << request;
}

TEST(CpprestTransport, RequestsKeepTheirConnection) {
  CountingServer server;
  const auto transport = server.transport();
  const std::stop_source stop;
  constexpr int kRequests = 50;
  for (int i = 0; i < kRequests; ++i) {
    EXPECT_EQ(transport->send(request_until(stop)).value().body, "{}");
  }
  // A reply may be read before the library has put its connection back: a few more are made then.
  EXPECT_LE(server.connections(), kRequests / 5);
}

}  // namespace
}  // namespace gnn::client
