#include "worker/comm/tcp_store.h"

#include <gtest/gtest.h>
#include <net/if.h>

#include <arpa/inet.h>
#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <netinet/in.h>
#include <random>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace gnn::comm {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

// A network with loopback alone, where that may be made. c10d looks up the names of the addresses that
// it connects to, and a name server that answers late would hold up each of its calls.
class OwnNetwork : public ::testing::Environment {
 public:
  void SetUp() override {
    if (::unshare(CLONE_NEWNET) != 0) return;
    const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
    ifreq loopback{};
    std::strncpy(loopback.ifr_name, "lo", sizeof loopback.ifr_name - 1);
    loopback.ifr_flags = IFF_UP;
    ASSERT_EQ(::ioctl(fd, SIOCSIFFLAGS, &loopback), 0);
    ::close(fd);
  }
};
const ::testing::Environment* const kOwnNetwork =
    ::testing::AddGlobalTestEnvironment(new OwnNetwork);

// A bound socket on a free loopback port.
int listen_anywhere(uint16_t& port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(::listen(fd, 64), 0);
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length), 0);
  port = ntohs(address.sin_port);
  return fd;
}

TcpStoreOptions options_for(uint16_t port) {
  return {
      .host = "127.0.0.1", .port = port, .connect_timeout = seconds(5), .call_timeout = seconds(2)
  };
}

int connect_raw(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

// A store in a child process, which can be stopped or killed.
struct ChildHost {
  pid_t pid = -1;
  uint16_t port = 0;

  ChildHost() {
    const int fd = listen_anywhere(port);
    pid = ::fork();
    if (pid == 0) {
      auto store = TcpStore::host(options_for(port), fd);
      if (store && (*store)->set("ready", "1"))
        for (;;) ::pause();
      ::_exit(1);
    }
    ::close(fd);
  }
  ~ChildHost() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
};

TEST(TcpStore, SetsGetsAndAdds) {
  uint16_t port = 0;
  const int fd = listen_anywhere(port);
  const auto host = TcpStore::host(options_for(port), fd);
  ASSERT_TRUE(host) << host.error().message;
  EXPECT_EQ((*host)->port(), port);
  const auto client = TcpStore::join(options_for(port));
  ASSERT_TRUE(client) << client.error().message;
  ASSERT_TRUE((*host)->set("a", "1"));
  EXPECT_EQ((*host)->get({"a"})->front(), "1");  // A set is not answered: others may be first.
  const auto values = (*client)->get({"a", "b"});
  ASSERT_TRUE(values);
  EXPECT_EQ((*values)[0], "1");
  EXPECT_EQ((*values)[1], std::nullopt);
  EXPECT_EQ((*client)->get({"b"})->front(), std::nullopt);
  EXPECT_EQ((*client)->add("n", 2).value(), 2);
  EXPECT_EQ((*host)->add("n", 3).value(), 5);
}

TEST(TcpStore, MeetsAtAnIpv6Address) {
  const int fd = ::socket(AF_INET6, SOCK_STREAM, 0);
  if (fd < 0) GTEST_SKIP() << "this kernel has no IPv6";
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  socklen_t length = sizeof address;
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(fd, 64), 0);
  ASSERT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length), 0);
  TcpStoreOptions options = options_for(ntohs(address.sin6_port));
  options.host = "::1";
  const auto host = TcpStore::host(options, fd);
  ASSERT_TRUE(host) << host.error().message;
  const auto client = TcpStore::join(options);
  ASSERT_TRUE(client) << client.error().message;
  ASSERT_TRUE((*client)->set("a", "1"));
  EXPECT_EQ((*client)->get({"a"})->front(), "1");
}

TEST(TcpStore, LosesADeadHostAtOnce) {
  ChildHost host;
  TcpStoreOptions options = options_for(host.port);
  options.call_timeout = seconds(60);
  const auto client = TcpStore::join(options);
  ASSERT_TRUE(client) << client.error().message;
  ASSERT_TRUE((*client)->set("a", "1"));
  ::kill(host.pid, SIGKILL);
  const auto start = steady_clock::now();
  Status status;
  while ((status = (*client)->set("a", "2")) && steady_clock::now() - start < options.call_timeout
  ) {
  }
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::PeerLost);
  EXPECT_LT(steady_clock::now() - start, options.call_timeout);
}

TEST(TcpStore, LosesAStoppedHostWithinTheCallTimeout) {
  ChildHost host;
  const TcpStoreOptions options = options_for(host.port);
  const auto client = TcpStore::join(options);
  ASSERT_TRUE(client) << client.error().message;
  ASSERT_TRUE((*client)->set("a", "1"));
  ::kill(host.pid, SIGSTOP);
  ::waitpid(host.pid, nullptr, WUNTRACED);  // until then its threads may still answer
  const auto start = steady_clock::now();
  const auto value = (*client)->get({"a"});
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().kind, ErrorKind::PeerLost);
  EXPECT_LT(steady_clock::now() - start, seconds(30));
  // And it stays lost, without waiting again.
  const auto again = steady_clock::now();
  EXPECT_FALSE((*client)->add("n", 1));
  EXPECT_LT(steady_clock::now() - again, options.call_timeout);
}

TEST(TcpStore, FailsAfterTheConnectTimeoutWithoutAHost) {
  uint16_t port = 0;
  const int fd = listen_anywhere(port);
  ::close(fd);
  auto options = options_for(port);
  options.connect_timeout = seconds(1);
  const auto start = steady_clock::now();
  const auto client = TcpStore::join(options);
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().kind, ErrorKind::PeerLost);
  EXPECT_LT(steady_clock::now() - start, seconds(10));
}

TEST(TcpStore, SurvivesGarbageOnItsPort) {
  uint16_t port = 0;
  const int fd = listen_anywhere(port);
  const auto host = TcpStore::host(options_for(port), fd);
  ASSERT_TRUE(host) << host.error().message;
  ASSERT_TRUE((*host)->set("a", "1"));
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    const int raw = connect_raw(port);
    std::array<unsigned char, 512> garbage{};
    for (auto& byte : garbage) byte = static_cast<unsigned char>(random());
    [[maybe_unused]] const auto sent =
        ::send(raw, garbage.data(), 1 + random() % garbage.size(), MSG_NOSIGNAL);
    if (round % 2 == 0) ::close(raw);  // the others stay open and silent
  }
  const auto client = TcpStore::join(options_for(port));
  ASSERT_TRUE(client) << client.error().message;
  const auto value = (*client)->get({"a"});
  ASSERT_TRUE(value) << value.error().message;
  EXPECT_EQ(value->front(), "1");
}

}  // namespace
}  // namespace gnn::comm
