#include "worker/rpc/server.h"

#include "common/guarded.h"
#include "common/log.h"
#include "tests/support/must.h"
#include "tests/worker/rpc/raw_peer.h"
#include "tests/worker/rpc/rpc_ends.h"
#include "worker/rpc/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gnn::rpc {
namespace {

using ::testing::HasSubstr;
using testing::must;

Result<Answer> answer_nothing(const Peer&, uint16_t, std::span<const std::byte>) {
  return Answer{};
}

TEST(Server, ReadsLittleOfStrangersAndKeepsFewOfThem) {
  const auto loop = std::make_shared<EventLoop>();
  const Key key = must(Key::draw());
  const auto server = must(Server::start(loop, serving(), key, answer_nothing));

  // Of one without the key, 64 bytes are read; what it sends behind them is not.
  RawPeer loud = RawPeer::connect_to(server->port());
  loud.receive<kChallengeBytes>();
  loud.send(bytes_of(std::string(kProofBytes, 'x')));
  EXPECT_EQ(loud.receive<kVerdictBytes>()[0], std::byte{1});
  loud.wait_for_end();
  EXPECT_EQ(server->refused(), 1);

  // Of silent ones, the 65th ends the first of the host with most of them; the others have 3 s. Who
  // holds the key comes in.
  RawPeer slow = RawPeer::connect_to(server->port(), 2);
  std::deque<RawPeer> silent;
  for (int i = 0; i < 64; ++i) {
    silent.push_back(RawPeer::connect_to(server->port()));
    silent.back().receive<kChallengeBytes>();
  }
  silent.front().wait_for_end();
  EXPECT_EQ(server->refused(), 2);
  slow.join(identity_of(5), kServingNode, key);
  const auto client = must(Client::connect(loop, joining(server->port()), key));
  must(result_of(begin_call(*client, {})));
  for (RawPeer& each : silent) each.wait_for_end();
  EXPECT_EQ(server->refused(), 65);
}

TEST(Server, StopsReadingAClientThatTakesNoRepliesAndDropsItAndServesTheOthers) {
  constexpr int64_t kFlooding = 7;
  constexpr int64_t kMegabyte = 1'000'000;
  Guarded<std::vector<std::string>> lines;
  const ScopedLogOutput output([&](std::string_view line) {
    lines.lock()->emplace_back(line);
    lines.notify_all();
  });
  const Key key = must(Key::draw());
  const std::vector<std::byte> bytes(static_cast<size_t>(kMegabyte));
  std::atomic<int64_t> alive{0};
  std::atomic<int64_t> most_alive{0};
  const auto loop = std::make_shared<EventLoop>();
  ServerOptions options = serving();
  options.most_request_bytes = kMegabyte;
  options.client_bytes = 4 * kMegabyte;
  options.total_bytes = 40 * kMegabyte;
  std::promise<void> go_on_flooded;
  const auto is_flooded = go_on_flooded.get_future().share();
  const auto server = must(Server::start(
      loop,
      options,
      key,
      [&](const Peer& peer, uint16_t, std::span<const std::byte>) {
        if (peer.node != kFlooding) return Answer{};
        is_flooded.wait();
        // Counts the answers that are neither written nor dropped.
        most_alive = std::max(most_alive.load(), ++alive);
        const std::shared_ptr<const void> owner(bytes.data(), [&](const void*) { --alive; });
        return Answer{.segments = {std::span(bytes)}, .owner = owner};
      }
  ));
  const auto other = must(Client::connect(loop, joining(server->port()), key));

  // Far more than its budget and what the kernel holds, in requests that are a tenth of their answers: as
  // many are read as its budget has room for before the first is answered. In the end, nobody takes its
  // bytes.
  constexpr int64_t kRequestBytes = kMegabyte / 10;
  RawPeer flooding = RawPeer::client(server->port(), identity_of(kFlooding), kServingNode, key);
  flooding.shrink_receive_buffer();
  constexpr uint64_t kRequests = 1000;
  std::thread flood([&] {
    try {
      for (uint64_t call = 1; call <= kRequests; ++call) {
        flooding.send({.type = FrameType::Request, .call = call, .length = kRequestBytes});
        flooding.send(std::span(bytes).first(kRequestBytes));
      }
      ADD_FAILURE() << "all of the requests were read";
    } catch (const std::runtime_error&) {
      // Dropped.
    }
  });
  const auto received_of_flooding = [](const Server& of) {
    for (const PeerStats& each : of.stats())
      if (each.node == kFlooding) return each.bytes_received;
    return int64_t{0};
  };
  while (received_of_flooding(*server) < options.client_bytes - 2 * kRequestBytes) {
    std::this_thread::yield();
  }
  go_on_flooded.set_value();
  // Others are served all the while.
  must(result_of(begin_call(*other, {})));
  lines.lock().wait([](const auto& all) { return !all.empty(); });
  must(result_of(begin_call(*other, {})));
  flood.join();
  const std::string line = lines.lock()->front();
  EXPECT_THAT(line, HasSubstr("a data client is gone"));
  EXPECT_THAT(line, HasSubstr("node=7"));
  EXPECT_THAT(line, HasSubstr("has taken no bytes for 1 s"));

  EXPECT_LE(most_alive * kMegabyte, options.client_bytes + options.num_threads * kMegabyte);
  EXPECT_EQ(alive, 0);
  const auto stats = server->stats();
  ASSERT_EQ(stats.back().node, kFlooding);
  EXPECT_EQ(stats.back().lost, 1);
  EXPECT_EQ(stats.front().lost, 0);
  // Its budget, and what was answered into the kernel's buffer.
  EXPECT_LE(stats.back().bytes_received, options.client_bytes + 20 * kMegabyte);

  // One that takes no replies, and has come to wait for bytes of all clients before, keeps nobody
  // behind it waiting.
  constexpr int64_t kReading = 8;
  constexpr auto kPatience = std::chrono::seconds(30);
  lines.lock()->clear();
  std::promise<void> go_on;
  const auto may_go_on = go_on.get_future().share();
  const std::vector<std::byte> large(static_cast<size_t>(20 * kMegabyte));
  options.peer_timeout = kPatience;
  options.client_bytes = kMegabyte + kMegabyte / 10;
  options.total_bytes = 21 * kMegabyte;
  const auto full = must(Server::start(
      loop,
      options,
      key,
      [&](const Peer& peer, uint16_t, std::span<const std::byte>) {
        if (peer.node != kFlooding && peer.node != kReading) return Answer{};
        if (peer.node == kFlooding) may_go_on.wait();
        const auto half = std::span(large).first(static_cast<size_t>(9 * kMegabyte));
        return Answer{.segments = {peer.node == kReading ? std::span(large) : half}};
      }
  ));
  ClientOptions patient = joining(full->port());
  patient.peer_timeout = kPatience;
  const auto behind = must(Client::connect(loop, patient, key));
  RawPeer reading = RawPeer::client(full->port(), identity_of(kReading), kServingNode, key);
  reading.send({.type = FrameType::Request, .call = 1});
  EXPECT_EQ(reading.receive_header().type, FrameType::Reply);  // 20 MB that it does not take yet
  RawPeer stuck = RawPeer::client(full->port(), identity_of(kFlooding), kServingNode, key);
  stuck.shrink_receive_buffer();
  for (uint64_t call = 1; call <= 2; ++call) {
    stuck.send({.type = FrameType::Request, .call = call, .length = call == 1 ? 900'000U : 99'000U}
    );
    stuck.send(std::span(bytes).first(call == 1 ? 900'000 : 99'000));
  }
  while (received_of_flooding(*full) <= 900'000 + 24) std::this_thread::yield();
  auto call = begin_call(*behind, {.request = {std::span(bytes).first(99'000)}});
  go_on.set_value();
  std::vector<std::byte> taken(large.size());
  EXPECT_EQ(reading.receive(taken), taken.size());
  must(result_of(std::move(call)));
  EXPECT_TRUE(lines.lock()->empty()) << lines.lock()->front();
}

TEST(Server, DropsClientsThatBreakTheProtocolAndAnswersOthersHoweverSlow) {
  const auto loop = std::make_shared<EventLoop>();
  const Key key = must(Key::draw());
  ServerOptions two = serving();
  two.most_clients = 2;
  // Begins a body so long that the server waits for more than its first bytes.
  const std::string slowly = "slowly" + std::string(100'000, '.');
  const auto server = must(Server::start(
      loop,
      two,
      key,
      [&](const Peer& peer, uint16_t method, std::span<const std::byte> request) {
        const std::string text(reinterpret_cast<const char*>(request.data()), request.size());
        EXPECT_EQ(method, peer.node == 4 ? 5 : 0);
        EXPECT_TRUE(text == (peer.node == 4 ? slowly : "")) << text.substr(0, 20);
        return Result<Answer>(Answer{});
      }
  ));
  const auto client = must(Client::connect(loop, joining(server->port()), key));
  Guarded<std::vector<std::string>> lines;
  const ScopedLogOutput output([&](std::string_view line) {
    lines.lock()->emplace_back(line);
    lines.notify_all();
  });

  const std::vector<std::pair<FrameHeader, std::string>> cases{
      // Refused by its length, before memory is taken for it.
      {{.type = FrameType::Request, .call = 1, .length = uint64_t{1} << 62U},
       "has sent a request of"},
      {{.type = FrameType::Request,
        .call = 1,
        .length = static_cast<uint64_t>(serving().most_request_bytes) + 1},
       "has sent a request of"},
      {{.type = FrameType::Reply, .call = 1}, "has sent a frame of a server"},
      {{.type = FrameType::Heartbeat, .length = 9}, "sent a heartbeat with a body"},
      {{.type = static_cast<FrameType>(99)}, "sent bytes that are no frame"},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    const int64_t node = 6 + static_cast<int64_t>(i);
    RawPeer peer = RawPeer::client(server->port(), identity_of(node), kServingNode, key);
    peer.send(cases[i].first);
    peer.wait_for_end();
    lines.lock().wait([&](const auto& all) { return all.size() > i; });
    EXPECT_THAT(lines.lock()->at(i), HasSubstr(cases[i].second));
    EXPECT_THAT(lines.lock()->at(i), HasSubstr("node=" + std::to_string(node)));
    must(result_of(begin_call(*client, {})));
  }
  // Of the many nodes that it said to be, those that are gone are forgotten; the others are not.
  const auto stats = server->stats();
  ASSERT_EQ(stats.size(), 2U);
  EXPECT_EQ(stats[0].node, 0);
  EXPECT_EQ(stats[0].total().requests, std::ssize(cases));
  EXPECT_EQ(stats[1].node, 5 + std::ssize(cases));
  EXPECT_EQ(stats[1].lost, 1);

  // A request that takes longer than the server's patience with silence: a byte for each heartbeat.
  RawPeer slow = RawPeer::client(server->port(), identity_of(4), kServingNode, key);
  slow.send({.type = FrameType::Request, .method = 5, .call = 1, .length = slowly.size()});
  for (const char letter : slowly.substr(0, 6)) {
    EXPECT_EQ(slow.receive_header().type, FrameType::Heartbeat);
    slow.send(bytes_of(std::string(1, letter)));
  }
  slow.send(bytes_of(slowly.substr(6)));
  EXPECT_EQ(slow.receive_frame().type, FrameType::Reply);

  ServerOptions small = serving();
  small.most_clients = 1;
  small.most_answer_bytes = 3;
  static const std::array<std::byte, 4> kFour{};
  const auto single = must(Server::start(loop, small, key, [](const Peer&, uint16_t method, auto) {
    return Result<Answer>(Answer{.segments = {std::span(kFour).first(method)}});
  }));
  const auto first = must(Client::connect(loop, joining(single->port()), key));
  EXPECT_EQ(must(result_of(begin_call(*first, {.method = 3, .most_rest = 4}))).size, 3);
  const auto long_answer = result_of(begin_call(*first, {.method = 4, .most_rest = 4}));
  ASSERT_FALSE(long_answer);
  EXPECT_EQ(long_answer.error().kind, ErrorKind::Internal);
  EXPECT_THAT(long_answer.error().message, HasSubstr("the answer has 4 bytes, expected at most 3"));
  EXPECT_EQ(Client::connect(loop, joining(single->port()), key).error().kind, ErrorKind::PeerLost);
  EXPECT_EQ(single->refused(), 1);

  ServerOptions wrong = serving();
  wrong.client_bytes = 5;
  EXPECT_EQ(Server::start(loop, wrong, key, answer_nothing).error().kind, ErrorKind::Configuration);
  ServerOptions taken = serving();
  taken.address.port = server->port();
  EXPECT_EQ(Server::start(loop, taken, key, answer_nothing).error().kind, ErrorKind::Network);
}

}  // namespace
}  // namespace gnn::rpc
