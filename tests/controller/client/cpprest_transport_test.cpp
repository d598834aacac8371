#include "controller/client/cpprest_transport.h"

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <array>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace gnn::client {
namespace {

/// A server that takes one connection and says what the test tells it to.
class OneConnection {
 public:
  OneConnection() : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* any = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof(address);
    const bool listens = ::bind(listener_, any, size) == 0 && ::listen(listener_, 1) == 0 &&
                         ::getsockname(listener_, any, &size) == 0;
    EXPECT_TRUE(listens);
    port_ = ntohs(address.sin_port);
  }
  ~OneConnection() {
    ::close(connection_);
    ::close(listener_);
  }
  OneConnection(const OneConnection&) = delete;
  OneConnection& operator=(const OneConnection&) = delete;

  [[nodiscard]] std::unique_ptr<HttpTransport> transport() const {
    KubeConfig config;
    config.server = "http://127.0.0.1:" + std::to_string(port_);
    return make_cpprest_transport(config).value();
  }
  /// Returns when the client has sent its request.
  void await_request() {
    connection_ = ::accept(listener_, nullptr, nullptr);
    std::array<char, 4096> bytes{};
    EXPECT_GT(::read(connection_, bytes.data(), bytes.size()), 0);
  }
  void say(const std::string& text) const {
    EXPECT_EQ(::write(connection_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

 private:
  int listener_;
  int connection_ = -1;
  int port_ = 0;
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

}  // namespace
}  // namespace gnn::client
