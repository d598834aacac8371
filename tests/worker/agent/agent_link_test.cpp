#include "worker/agent/agent_link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <iterator>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace gnn::agent {
namespace {

// The agent's end of the socket, and a rank's.
struct SocketPair {
  SocketPair() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    agent = UniqueFd(ends[0]);
    rank = ends[1];
  }
  UniqueFd agent;
  int rank = -1;  // closed by the link
};

std::unique_ptr<AgentLink> link_on(int socket) {
  auto link = AgentLink::from_environment(
      [socket](std::string_view name) -> std::optional<std::string> {
        if (name == "GNN_AGENT_SOCKET") return "fd:" + std::to_string(socket);
        return std::nullopt;
      },
      nullptr,
      nullptr
  );
  EXPECT_TRUE(link.has_value());
  return std::move(*link);
}

void fill(int socket) {
  const std::string message(4096, '.');
  while (::send(socket, message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
  }
}

// All that comes until the rank's end is closed.
std::vector<RankMessage> read_all(int socket) {
  std::vector<RankMessage> messages;
  std::vector<char> buffer(64 * 1024);
  for (;;) {
    const ssize_t size = ::recv(socket, buffer.data(), buffer.size(), 0);
    if (size <= 0) return messages;
    auto message = decode_rank_message({buffer.data(), static_cast<size_t>(size)});
    if (message) messages.push_back(std::move(*message));
  }
}

TEST(AgentLink, DeliversTheLastMessagesToASlowAgent) {
  const SocketPair sockets;
  auto link = link_on(sockets.rank);
  fill(sockets.rank);
  auto rank = std::async(std::launch::async, [&link] {
    progress::FinalReport report;
    report.epochs = 7;
    std::atomic<int64_t> told = 1;
    const auto meter = std::make_shared<progress::TrackingMeter>([&told] {
      return progress::TrackingData{{"mlflow", {.written = told}}};
    });
    link->on_tracking_meter(meter);
    link->on_final(report);
    link->send_failure({ErrorKind::Data, "edge 7 leaves the graph"});
    told = 2;
    link.reset();
  });
  const std::vector<RankMessage> messages = read_all(sockets.agent.get());
  rank.get();
  // The link's thread may send another report after the failure.
  const auto failure =
      std::find_if(messages.begin(), messages.end(), [](const RankMessage& message) {
        return message.failure.has_value();
      });
  ASSERT_NE(failure, messages.end());
  EXPECT_EQ(failure->failure->message, "edge 7 leaves the graph");
  ASSERT_NE(failure, messages.begin());
  const RankMessage& before = *std::prev(failure);
  ASSERT_TRUE(before.report.has_value());
  ASSERT_TRUE(before.report->final.has_value());
  EXPECT_EQ(before.report->final->epochs, 7);
  EXPECT_EQ(before.report->tracking.at("mlflow").written, 1);
  EXPECT_EQ(messages.back().report.value().tracking.at("mlflow").written, 2);
}

TEST(AgentLink, HearsWhichServersTakePartAndMarksThatItWaitsForOne) {
  const SocketPair sockets;
  const auto send = [&sockets](const std::string& message) {
    EXPECT_GT(::send(sockets.agent.get(), message.data(), message.size(), 0), 0);
  };
  const std::vector<LiveServer> servers{{.server = 1, .restart = 2, .address = "10.0.0.7:29600"}};
  send("{\"news\": 1}");
  send("nonsense");
  send(encode(servers));
  std::promise<std::vector<LiveServer>> heard;
  auto link = AgentLink::from_environment(
      [&sockets](std::string_view) { return "fd:" + std::to_string(sockets.rank); },
      nullptr,
      nullptr,
      [&heard](const std::vector<LiveServer>& all) { heard.set_value(all); }
  );
  ASSERT_TRUE(link.has_value());
  EXPECT_EQ(heard.get_future().get(), servers);

  const auto marks = [&sockets] {
    std::vector<char> buffer(64 * 1024);
    const ssize_t size = ::recv(sockets.agent.get(), buffer.data(), buffer.size(), 0);
    const auto message = decode_rank_message({buffer.data(), static_cast<size_t>(size)});
    return message.value().report.value().marks;
  };
  std::atomic<bool> waiting = false;
  (*link)->on_served_meter(std::make_shared<progress::ServedMeter>([&waiting] {
    return progress::ServedData{.batches = 3, .waiting = waiting};
  }));
  EXPECT_EQ(marks(), 0);
  waiting = true;
  while (marks() == 0) {
  }
  EXPECT_GT(marks(), 1);
}

}  // namespace
}  // namespace gnn::agent
