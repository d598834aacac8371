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
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace gnn::rpc {
namespace {

using ::testing::HasSubstr;
using testing::must;

constexpr std::array<std::byte, 4> kFour{};

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

// Lets this process open one more file, and no other, as long as it lives.
class OneMoreFile {
 public:
  OneMoreFile() {
    const int next = ::dup(STDIN_FILENO);
    ::close(next);
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = static_cast<rlim_t>(next) + 1;
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~OneMoreFile() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  OneMoreFile(const OneMoreFile&) = delete;
  OneMoreFile& operator=(const OneMoreFile&) = delete;

 private:
  rlimit before_{};
};

int64_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

int64_t resident_pages() {
  std::ifstream statm("/proc/self/statm");
  int64_t pages = 0;
  statm >> pages >> pages;
  return pages;
}

TEST(Server, ServesOldAndNewClientsWhileTenThousandStrangersConnectAndKeepsLittleOfThem) {
  constexpr size_t kStrangers = 10'000;
  constexpr size_t kHeld = 400;  // ends that stay open here
  constexpr size_t kHosts = 20;
  const auto loop = std::make_shared<EventLoop>();
  const Key key = must(Key::draw());
  const auto server = must(Server::start(loop, serving(), key, answer_nothing));
  const auto old = must(Client::connect(loop, joining(server->port()), key));
  std::deque<RawPeer> strangers;
  [[maybe_unused]] int64_t pages = 0;
  for (size_t i = 0; i < kStrangers; ++i) {
    strangers.push_back(RawPeer::connect_to(server->port(), static_cast<uint8_t>(2 + i % kHosts)));
    if (strangers.size() > kHeld) strangers.pop_front();
    if (i % 1000 != 999) continue;
    must(result_of(begin_call(*old, {})));
    const auto fresh = must(Client::connect(loop, joining(server->port(), 5), key));
    must(result_of(begin_call(*fresh, {})));
    if (i < 2000) pages = resident_pages();  // whatever is taken once has been taken
    // All that came before it have been met.
    EXPECT_GE(server->refused(), static_cast<int64_t>(i) - 64 - 1);
  }
  EXPECT_LE(open_descriptors(), static_cast<int64_t>(kHeld) + 64 + 32);
  strangers.clear();
  // One that comes while there is no file for its connection is met later.
  auto few = std::make_optional<OneMoreFile>();
  RawPeer early = RawPeer::connect_to(server->port());
  for (int i = 0; i < 3; ++i) must(result_of(begin_call(*old, {})));
  few.reset();
  early.receive<kChallengeBytes>();
#ifndef GNN_SANITIZED
  EXPECT_LE((resident_pages() - pages) * sysconf(_SC_PAGESIZE), 4'000'000);
#endif
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
  const auto behind = must(Client::connect(loop, joining(full->port(), 0, kPatience), key));
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
  const auto single = must(Server::start(
      loop,
      small,
      key,
      [](const Peer&, uint16_t method, auto) -> Result<Answer> {
        if (method == 5) return fail(ErrorKind::Data, std::string(2 * kMostFailureBytes, 'x'));
        return Answer{.segments = {std::span(kFour).first(method)}};
      }
  ));
  const auto first = must(Client::connect(loop, joining(single->port()), key));
  EXPECT_EQ(must(result_of(begin_call(*first, {.method = 3, .most_rest = 4}))).size, 3);
  // Of a long error, as much as a client takes.
  EXPECT_EQ(result_of(begin_call(*first, {.method = 5})).error().kind, ErrorKind::Data);
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

TEST(Server, HasNoMoreClientsThanItMayOfThoseThatCameTogether) {
  const auto loop = std::make_shared<EventLoop>();
  const Key key = must(Key::draw());
  ServerOptions options = serving();
  options.most_clients = 1;
  const auto server = must(Server::start(loop, options, key, answer_nothing));
  RawPeer first = RawPeer::connect_to(server->port());
  RawPeer second = RawPeer::connect_to(server->port());
  ClientHandshake handshake(identity_of(0), kServingNode, key);
  const auto proof = must(handshake.prove(second.receive<kChallengeBytes>()));
  first.join(identity_of(2), kServingNode, key);
  second.send(proof);
  second.wait_for_end();
  EXPECT_EQ(server->refused(), 1);
}

// Frames that have come from a node, where there are no heartbeats and no bodies.
int64_t requests_of(const Server& server, int64_t node) {
  for (const PeerStats& each : server.stats())
    if (each.node == node) return each.bytes_received / static_cast<int64_t>(FrameHeader::kBytes);
  return 0;
}

TEST(Server, AnswersClientsInTurnAndBoundsTheirRequestsThatWaitForALateAnswer) {
  constexpr int64_t kWaiting = 10;
  constexpr int64_t kPatient = 4;
  const auto loop = std::make_shared<EventLoop>();
  const Key key = must(Key::draw());
  Guarded<std::vector<int64_t>> asked;  // by which node, in the order of the handler
  Guarded<std::deque<Responder>> late;
  std::promise<void> go_on;
  const auto may_go_on = go_on.get_future().share();
  ServerOptions options = serving();
  options.num_threads = 1;
  options.most_request_bytes = 0;
  options.client_bytes = kWaiting * 512;
  options.peer_timeout = std::chrono::minutes(1);  // no heartbeats: what comes is requests
  const auto server = must(Server::start_late(
      loop,
      options,
      key,
      [&](const Peer& peer, uint16_t, std::span<const std::byte>, const Responder& respond) {
        asked.lock()->push_back(peer.node);
        asked.notify_all();
        may_go_on.wait();
        if (peer.node == kPatient) return respond(Answer{});
        late.lock()->push_back(respond);
        late.notify_all();
      }
  ));
  // An empty request takes memory, too.
  const auto connect = [&](int64_t node) {
    return must(Client::connect(loop, joining(server->port(), node, options.peer_timeout), key));
  };
  const auto greedy = connect(3);
  const auto patient = connect(kPatient);
  std::vector<std::future<Result<Reply>>> replies;
  for (int i = 0; i < 3 * kWaiting; ++i) replies.push_back(begin_call(*greedy, {}));
  asked.lock().wait([](const auto& all) { return !all.empty(); });
  auto other = begin_call(*patient, {});
  // All that it may read of either has been read.
  while (requests_of(*server, 3) < kWaiting || requests_of(*server, kPatient) < 1)
    std::this_thread::yield();
  go_on.set_value();
  must(result_of(std::move(other)));
  late.lock().wait([](const auto& all) { return all.size() == kWaiting; });
  must(result_of(begin_call(*patient, {})));
  EXPECT_EQ(late.lock()->size(), static_cast<size_t>(kWaiting));
  const std::vector<int64_t> order = *asked.lock();
  EXPECT_LE(std::ranges::find(order, kPatient) - order.begin(), 2);
  while (!replies.empty()) {
    std::deque<Responder> waiting;
    {
      auto all = late.lock();
      all.wait([](const auto& some) { return !some.empty(); });
      waiting.swap(*all);
    }
    for (const Responder& respond : waiting) {
      respond(Answer{});
      must(result_of(std::move(replies.front())));
      replies.erase(replies.begin());
    }
  }
}

TEST(Server, BoundsTheRequestsOfAllClientsAndLetsThoseThatWaitGoOnInTurn) {
  constexpr int64_t kHolding = 3;
  const auto loop = std::make_shared<EventLoop>();
  const Key key = must(Key::draw());
  Guarded<std::vector<int64_t>> asked;  // by which node, in the order of the handler
  Guarded<std::deque<Responder>> late;
  ServerOptions options = serving();
  options.num_threads = 1;
  options.most_request_bytes = 1000;
  options.client_bytes = options.total_bytes = 10 * 512;
  options.peer_timeout = std::chrono::hours(1);  // no heartbeat makes the server look again
  const auto server = must(Server::start_late(
      loop,
      options,
      key,
      [&](const Peer& peer, uint16_t, std::span<const std::byte>, const Responder& respond) {
        asked.lock()->push_back(peer.node);
        if (peer.node != kHolding) return respond(Answer{});
        late.lock()->push_back(respond);
        late.notify_all();
      }
  ));
  const auto connect = [&](int64_t node) {
    return must(Client::connect(loop, joining(server->port(), node, options.peer_timeout), key));
  };
  const std::vector<std::byte> bytes(1000);
  std::vector<std::future<Result<Reply>>> held;
  auto holding = connect(kHolding);
  const auto hold = [&](size_t requests) {
    while (held.size() < requests) held.push_back(begin_call(*holding, {}));
    late.lock().wait([&](const auto& all) { return all.size() == requests; });
  };
  // Returns when the server has seen that it comes, for which there is no room.
  const auto begin_waiting = [&](Client& client, int64_t node, size_t size) {
    const int64_t before = requests_of(*server, node);
    auto reply = begin_call(client, {.request = {std::span(bytes).first(size)}});
    while (requests_of(*server, node) == before) std::this_thread::yield();
    return reply;
  };

  hold(9);
  const auto large = connect(4);
  const auto small = connect(5);
  auto first = begin_waiting(*large, 4, 1000);
  auto second = begin_waiting(*small, 5, 0);  // for which there would be room
  for (int i = 0; i < 2; ++i) {
    Responder respond = late.lock()->front();
    late.lock()->pop_front();
    respond(Answer{});
    must(result_of(std::move(held[static_cast<size_t>(i)])));
  }
  must(result_of(std::move(first)));
  must(result_of(std::move(second)));
  std::vector<int64_t> expected(9, kHolding);
  expected.insert(expected.end(), {4, 5});
  EXPECT_EQ(*asked.lock(), expected);

  // What a client has held that is gone is room again, as soon as nobody answers it.
  held.erase(held.begin(), held.begin() + 2);
  hold(9);
  auto third = begin_waiting(*large, 4, 1000);
  holding.reset();
  while (server->num_clients() > 2) std::this_thread::yield();
  late.lock()->clear();
  must(result_of(std::move(third)));
}

TEST(Server, AnswersLateFromAnyThreadAndNobodyAfterItsEnd) {
  const auto loop = std::make_shared<EventLoop>();
  const Key key = must(Key::draw());
  Guarded<std::deque<Responder>> late;
  ServerOptions options = serving();
  options.num_threads = 1;
  auto server = must(Server::start_late(
      loop,
      options,
      key,
      [&](const Peer&, uint16_t method, std::span<const std::byte>, const Responder& respond) {
        if (method == 1) return respond(Answer{});
        if (method == 2) throw std::runtime_error("no such thing");
        if (method == 3) return;
        late.lock()->push_back(respond);
        late.notify_all();
      }
  ));
  const auto take = [&] {
    auto all = late.lock();
    all.wait([](const auto& waiting) { return !waiting.empty(); });
    Responder first = all->front();
    all->pop_front();
    return first;
  };
  auto client = must(Client::connect(loop, joining(server->port()), key));
  const auto other = must(Client::connect(loop, joining(server->port(), 4), key));

  // Its only thread is free for others while an answer is late; one that is never given is an error.
  auto waits = begin_call(*client, {.method = 4, .most_rest = 4});
  const Responder respond = take();
  must(result_of(begin_call(*other, {.method = 1})));
  EXPECT_EQ(result_of(begin_call(*other, {.method = 2})).error().kind, ErrorKind::Internal);
  EXPECT_THAT(
      result_of(begin_call(*other, {.method = 3})).error().message, HasSubstr("no answer was made")
  );
  const std::string text = "late";
  respond(Answer{.segments = {bytes_of(text)}, .owner = {}});
  respond(fail(ErrorKind::Data, "a second answer"));
  EXPECT_EQ(must(result_of(std::move(waits))).size, 4);

  // What a client that is gone has asked for is not wanted, and hurts nobody.
  auto dropped = begin_call(*client, {.method = 4});
  const Responder unwanted = take();
  EXPECT_TRUE(unwanted.wanted());
  EXPECT_NE(unwanted.connection(), 0U);
  client.reset();
  while (unwanted.wanted()) std::this_thread::yield();
  unwanted(Answer{});
  EXPECT_EQ(result_of(std::move(dropped)).error().kind, ErrorKind::Cancelled);
  must(result_of(begin_call(*other, {.method = 1})));

  // Nor is an answer to a server that is gone.
  auto lost = begin_call(*other, {.method = 4});
  const Responder after = take();
  EXPECT_NE(after.connection(), unwanted.connection());
  server.reset();
  EXPECT_FALSE(after.wanted());
  after(Answer{});
  EXPECT_EQ(result_of(std::move(lost)).error().kind, ErrorKind::PeerLost);
  EXPECT_TRUE(other->lost());
}

}  // namespace
}  // namespace gnn::rpc
