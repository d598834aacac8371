#include "controller/app/progress_client.h"

#include "controller/app/health.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <chrono>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace gnn::app {
namespace {

using namespace std::chrono_literals;

// A pod that answers once, with any text, byte by byte if asked to.
class HostilePod {
 public:
  explicit HostilePod(std::string reply, Duration pause_between_bytes = Duration::zero())
      : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
    ::listen(listener_, 1);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, reply = std::move(reply), pause_between_bytes] {
      const int client = ::accept(listener_, nullptr, nullptr);
      if (client < 0) return;
      // Closing with unread bytes would send a reset and lose the reply.
      std::array<char, 1024> request{};
      static_cast<void>(::recv(client, request.data(), request.size(), 0));
      const size_t step = pause_between_bytes == Duration::zero() ? reply.size() : 1;
      for (size_t at = 0; at < reply.size(); at += step) {
        if (::send(client, reply.data() + at, std::min(step, reply.size() - at), MSG_NOSIGNAL) <
            0) {
          break;
        }
        std::this_thread::sleep_for(pause_between_bytes);
      }
      ::close(client);
    });
  }
  ~HostilePod() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }

  [[nodiscard]] Result<std::string> fetch(Duration timeout = 5s, int64_t max_bytes = 65536) const {
    return fetch_from_pod("127.0.0.1", port_, "/progress", timeout, max_bytes);
  }

 private:
  int listener_;
  uint16_t port_ = 0;
  std::thread thread_;
};

TEST(FetchFromPod, ReachesAPodByItsIpv6Address) {
  const int socket = ::socket(AF_INET6, SOCK_STREAM, 0);
  if (socket < 0) GTEST_SKIP() << "this kernel has no IPv6";
  ::close(socket);
  const auto pod = start_metrics_server({.host = "::1", .port = 0}, [] { return "up 1\n"; });
  ASSERT_TRUE(pod) << pod.error().message;
  const auto port = static_cast<uint16_t>((*pod)->port());
  EXPECT_EQ(fetch_from_pod("::1", port, "/metrics", 5s, 65536).value(), "up 1\n");
}

TEST(FetchFromPod, ReadsABodyByLengthOrToTheEnd) {
  EXPECT_EQ(
      HostilePod("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}trailing").fetch().value(), "{}"
  );
  EXPECT_EQ(HostilePod("HTTP/1.0 200 OK\r\n\r\n{\"a\":1}").fetch().value(), "{\"a\":1}");
}

TEST(FetchFromPod, FollowsNoRedirect) {
  const auto body =
      HostilePod("HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n").fetch();
  ASSERT_FALSE(body);
  EXPECT_EQ(body.error().kind, ErrorKind::Data);
}

TEST(FetchFromPod, RefusesABodyAboveTheCap) {
  const std::string huge(200'000, 'x');
  EXPECT_FALSE(HostilePod("HTTP/1.1 200 OK\r\n\r\n" + huge).fetch());
  EXPECT_FALSE(HostilePod("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n" + huge).fetch());
  EXPECT_FALSE(HostilePod("HTTP/1.1 200 OK\r\nX: " + huge).fetch());
}

TEST(FetchFromPod, TimesOutOnAPodThatDripsBytes) {
  const HostilePod pod("HTTP/1.1 200 OK\r\nX: " + std::string(10'000, 'y') + "\r\n\r\n", 5ms);
  const auto started = std::chrono::steady_clock::now();
  const auto body = pod.fetch(200ms);
  ASSERT_FALSE(body);
  EXPECT_EQ(body.error().kind, ErrorKind::Timeout);
  EXPECT_LT(std::chrono::steady_clock::now() - started, 20s) << "all of them take 50 s";
}

TEST(FetchFromPod, JunkIsAnError) {
  for (const char* reply :
       {"",
        "\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "\xff\xfe\x00"}) {
    EXPECT_FALSE(HostilePod(reply).fetch()) << reply;
  }
}

TEST(FetchFromPod, ConnectsToAddressesOnly) {
  EXPECT_FALSE(fetch_from_pod("localhost", 1, "/", 1s, 10));
  EXPECT_FALSE(fetch_from_pod("", 1, "/", 1s, 10));
}

}  // namespace
}  // namespace gnn::app
