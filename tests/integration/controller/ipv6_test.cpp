#include "tests/integration/controller/fixture.h"
#include "tests/support/must.h"

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <array>
#include <chrono>
#include <map>
#include <netinet/in.h>
#include <poll.h>
#include <stop_token>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace gnn::testing {
namespace {

using namespace std::chrono_literals;

// Takes connections on ::1 and passes their bytes to a port of 127.0.0.1 and back.
class Ipv6Relay {
 public:
  explicit Ipv6Relay(uint16_t target)
      : target_(target), listener_(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in6 at{};
    at.sin6_family = AF_INET6;
    at.sin6_addr = in6addr_loopback;
    socklen_t size = sizeof(at);
    auto* any = reinterpret_cast<sockaddr*>(&at);
    listens_ = listener_ >= 0 && ::bind(listener_, any, size) == 0 &&
               ::listen(listener_, 64) == 0 && ::getsockname(listener_, any, &size) == 0;
    port_ = ntohs(at.sin6_port);
    if (listens_) thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  ~Ipv6Relay() {
    if (thread_.joinable()) {
      thread_.request_stop();
      thread_.join();
    }
    ::close(listener_);
  }
  Ipv6Relay(const Ipv6Relay&) = delete;
  Ipv6Relay& operator=(const Ipv6Relay&) = delete;

  [[nodiscard]] bool listens() const { return listens_; }
  [[nodiscard]] std::string url() const { return "https://[::1]:" + std::to_string(port_); }

 private:
  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::vector<pollfd> watched{{.fd = listener_, .events = POLLIN, .revents = 0}};
      for (const auto& [one, other] : peers_)
        watched.push_back({.fd = one, .events = POLLIN, .revents = 0});
      ::poll(watched.data(), watched.size(), 20);
      for (size_t i = 1; i < watched.size(); ++i) {
        if (watched[i].revents != 0) pass_on(watched[i].fd);
      }
      if (watched[0].revents != 0) begin();
    }
    while (!peers_.empty()) end(peers_.begin()->first);
  }
  void begin() {
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(target_);
    EXPECT_EQ(::connect(server, reinterpret_cast<sockaddr*>(&at), sizeof(at)), 0);
    peers_[client] = server;
    peers_[server] = client;
  }
  void pass_on(int from) {
    const auto found = peers_.find(from);
    if (found == peers_.end()) return;  // ended in this turn
    std::array<char, 65536> bytes{};
    const ssize_t size = ::recv(from, bytes.data(), bytes.size(), 0);
    if (size <= 0 ||
        ::send(found->second, bytes.data(), static_cast<size_t>(size), MSG_NOSIGNAL) != size) {
      end(from);
    }
  }
  void end(int one) {
    const int other = peers_.at(one);
    for (const int each : {one, other}) {
      peers_.erase(each);
      ::close(each);
    }
  }

  const uint16_t target_;
  const int listener_;
  bool listens_ = false;
  uint16_t port_ = 0;
  std::map<int, int> peers_;
  std::jthread thread_;
};

TEST(Ipv6, RunsAJobThroughTheApiServersIpv6Address) {
  Cluster cluster;
  const std::string& url = cluster.plane().server_url();
  const auto port = static_cast<uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
  const Ipv6Relay relay(port);
  if (!relay.listens()) GTEST_SKIP() << "this kernel has no IPv6";
  FakeKubelets kubelets{cluster.plane(), cluster.name_space(), 0ms};
  ControllerArguments arguments = cluster.arguments();
  arguments.kubeconfig = must(cluster.plane().write_kubeconfig(relay.url()));
  ControllerProcess controller(cluster.plane(), arguments);
  cluster.create_job("j");
  kubelets.let_finish();
  EXPECT_TRUE(eventually([&] { return cluster.holds("j", "Complete"); }, 60s))
      << cluster.describe("j") << controller.log();
}

}  // namespace
}  // namespace gnn::testing
