#include "worker/rpc/client.h"

#include "tests/support/must.h"
#include "tests/worker/rpc/raw_peer.h"
#include "tests/worker/rpc/rpc_ends.h"
#include "worker/rpc/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <functional>
#include <future>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace gnn::rpc {
namespace {

using ::testing::HasSubstr;
using testing::must;
using ::testing::StartsWith;

constexpr uint16_t kEcho = 1;
constexpr uint16_t kFail = 2;

// The request itself, as segments of which each is twice as long as the one before, or an error.
Result<Answer> echo(const Peer& /*peer*/, uint16_t method, std::span<const std::byte> request) {
  if (method == kFail) return fail(ErrorKind::Data, "ids[2] is 9, expected less than 7");
  const auto copy = std::make_shared<std::vector<std::byte>>(request.begin(), request.end());
  Answer answer{.segments = {{}}, .owner = copy};
  std::span<const std::byte> left(*copy);
  for (size_t piece = 1; !left.empty(); piece *= 2) {
    answer.segments.push_back(left.first(std::min(piece, left.size())));
    left = left.subspan(answer.segments.back().size());
  }
  return answer;
}

// `bytes` taken apart at random places; some pieces are empty.
template <class Byte>
std::vector<std::span<Byte>> pieces_of(std::span<Byte> bytes, std::mt19937_64& random) {
  std::vector<size_t> cuts(random() % 200);
  for (size_t& cut : cuts) cut = random() % (bytes.size() + 1);
  cuts.push_back(bytes.size());
  std::ranges::sort(cuts);
  std::vector<std::span<Byte>> pieces;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    pieces.push_back(bytes.subspan(begin, cut - begin));
    begin = cut;
  }
  return pieces;
}

TEST(Client, ReceivesManyRepliesIntoTheMemoryOfTheirCallers) {
  struct Exchange {
    std::vector<std::byte> request;
    std::vector<std::byte> into;
    int64_t most_rest = 0;
    std::future<Result<Reply>> reply;
  };
  const auto loop = std::make_shared<EventLoop>();
  const Key key = must(Key::draw());
  // Room for a few of the calls at a time: the others wait, and all are answered.
  ServerOptions options = serving();
  options.most_request_bytes = 1'000'000;
  options.client_bytes = 1'500'000;
  options.total_bytes = 2'000'000;
  const auto server = must(Server::start(loop, options, key, echo));

  std::mt19937_64 random(20);
  const std::vector<size_t> sizes{0, 1, 24, 1'000, 16'384, 70'000, 262'144, 1'000'000};
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<Exchange> exchanges(240);
  for (int64_t node = 2; node < 5; ++node)
    clients.push_back(must(Client::connect(loop, joining(server->port(), node), key)));
  int64_t payload = 0;
  for (size_t i = 0; i < exchanges.size(); ++i) {
    Exchange& each = exchanges[i];
    each.request.resize(sizes[random() % sizes.size()]);
    for (size_t byte = 0; byte < each.request.size(); ++byte)
      each.request[byte] = static_cast<std::byte>(byte * 31 + i);
    // Room before the rest for all, none, or some of it.
    each.into.resize(std::min(each.request.size() + 10, random() % 2 * (random() % 1'500'000)));
    each.most_rest = static_cast<int64_t>(each.request.size());
    if (i % clients.size() == 0) payload += static_cast<int64_t>(each.request.size());
    Call call;
    call.method = kEcho;
    call.request = pieces_of(std::span<const std::byte>(each.request), random);
    call.into = pieces_of(std::span(each.into), random);
    call.most_rest = each.most_rest;
    each.reply = begin_call(*clients[i % clients.size()], std::move(call));
  }
  for (Exchange& each : exchanges) {
    const Reply reply = must(result_of(std::move(each.reply)));
    ASSERT_EQ(reply.size, each.request.size());
    std::vector<std::byte> received = each.into;
    received.resize(std::min(received.size(), each.request.size()));
    received.insert(received.end(), reply.rest.begin(), reply.rest.end());
    ASSERT_EQ(received, each.request);
  }

  const auto failure = result_of(begin_call(*clients[0], {.method = kFail}));
  ASSERT_FALSE(failure);
  EXPECT_EQ(
      failure.error(),
      (Error{
          .kind = ErrorKind::Data,
          .message = name_of_server(server->port()) + ": ids[2] is 9, expected less than 7"
      })
  );
  const PeerStats stats = clients[0]->stats();
  EXPECT_EQ(stats.node, kServingNode);
  const MethodStats& echoed = stats.of(kEcho);
  EXPECT_EQ(echoed.requests, 80);
  EXPECT_EQ(echoed.payload_sent, payload);
  EXPECT_EQ(echoed.payload_received, payload);
  EXPECT_EQ(std::reduce(echoed.latency.counts.begin(), echoed.latency.counts.end()), 80);
  EXPECT_EQ(stats.of(kFail).requests, 1);
  EXPECT_EQ(stats.total().requests, 81);
  EXPECT_GE(stats.bytes_sent, payload + 81 * 24);
  EXPECT_EQ(stats.calls_under_way, 0);
  EXPECT_EQ(stats.lost, 0);
  const auto of_server = server->stats();
  ASSERT_EQ(of_server.size(), 3U);
  EXPECT_EQ(of_server[0].node, 2);
  EXPECT_EQ(of_server[0].of(kEcho).payload_received, payload);
}

// What a client says of a server that answers its call, the connection's first, with `answer`.
Error error_after(const std::function<void(RawPeer&, const FrameHeader&)>& answer) {
  const auto loop = std::make_shared<EventLoop>();
  const Key key = must(Key::draw());
  RawListener listener;
  std::thread server([&] {
    RawPeer peer = listener.accept();
    peer.welcome(identity_of(kServingNode), key);
    answer(peer, peer.receive_header());
    peer.wait_for_end();
  });
  const auto client = must(Client::connect(loop, joining(listener.port()), key));
  std::vector<std::byte> into(100);
  const auto call = [&] {
    return begin_call(*client, {.method = kEcho, .into = {std::span(into)}, .most_rest = 20});
  };
  // The second one is under way, too, when the connection breaks.
  auto first = call();
  auto second = call();
  const Error error = result_of(std::move(first)).error();
  server.join();
  EXPECT_EQ(result_of(std::move(second)).error(), error);
  EXPECT_EQ(result_of(call()).error(), error) << "a call after the end";
  EXPECT_EQ(error.kind, ErrorKind::PeerLost);
  EXPECT_THAT(error.message, StartsWith(name_of_server(listener.port()) + ": "));
  return error;
}

TEST(Client, FailsAllCallsAtOnceWhenAFrameIsCutOrForged) {
  struct Case {
    std::string name;
    std::function<void(RawPeer&, const FrameHeader&)> answer;
    std::string reason;
  };
  const auto with = [](FrameHeader header, const std::string& body) {
    return [=](RawPeer& peer, const FrameHeader& request) mutable {
      if (header.call == 0) header.call = request.call;
      peer.send(header);
      peer.send(bytes_of(body));
    };
  };
  const auto cut = [](RawPeer& peer, const FrameHeader& request) {
    peer.send({.type = FrameType::Reply, .call = request.call, .length = 100});
    peer.send(bytes_of("only this"));
    peer.end();
  };
  const std::vector<Case> cases{
      {"junk",
       [](RawPeer& peer, const FrameHeader&) { peer.send(bytes_of(std::string(24, 'x'))); },
       "sent bytes that are no frame"},
      {"cut", cut, "closed the connection in the middle of a frame"},
      {"closed", [](RawPeer& peer, const FrameHeader&) { peer.end(); }, "closed the connection"},
      {"long reply",
       with({.type = FrameType::Reply, .length = 121}, ""),
       "an answer of 121 bytes, expected at most 120"},
      {"endless reply",
       with({.type = FrameType::Reply, .length = ~uint64_t{0}}, ""),
       "expected at most 120"},
      {"long failure",
       with({.type = FrameType::Failure, .length = kMostFailureBytes + 1}, ""),
       "expected at most 2048"},
      {"other call",
       with({.type = FrameType::Reply, .call = 77, .length = 1}, "x"),
       "answered a call that was not made"},
      {"request", with({.type = FrameType::Request, .length = 1}, "x"), "has sent a request"},
      {"heartbeat",
       with({.type = FrameType::Heartbeat, .length = 1}, "x"),
       "a heartbeat with a body"},
  };
  for (const Case& each : cases)
    EXPECT_THAT(error_after(each.answer).message, HasSubstr(each.reason)) << each.name;
}

// A server in a process of its own.
class ServerProcess {
 public:
  // Called before this process has threads.
  explicit ServerProcess(const Key& key) {
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    pid_ = ::fork();
    if (pid_ == 0) serve(pipe[1], key);
    ::close(pipe[1]);
    if (::read(pipe[0], &port_, sizeof port_) != sizeof port_) throw std::runtime_error("no port");
    ::close(pipe[0]);
  }
  ~ServerProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  // Stops or ends it; on return, it has.
  void signal(int number) const {
    ::kill(pid_, number);
    siginfo_t changed{};
    ::waitid(P_PID, static_cast<id_t>(pid_), &changed, WSTOPPED | WEXITED | WNOWAIT);
  }
  [[nodiscard]] uint16_t port() const { return port_; }

 private:
  [[noreturn]] static void serve(int pipe, const Key& key) {
    const auto server = must(Server::start(std::make_shared<EventLoop>(), serving(), key, echo));
    const uint16_t port = server->port();
    if (::write(pipe, &port, sizeof port) != sizeof port) ::_exit(1);
    while (true) ::pause();
  }

  pid_t pid_ = 0;
  uint16_t port_ = 0;
};

TEST(Client, NamesAServerThatIsLostOrIsNotTheOneItExpects) {
  const Key key = must(Key::draw());
  // First, as processes are forked before there are threads.
  for (const int signal : {SIGSTOP, SIGKILL}) {
    const ServerProcess server(key);
    const auto loop = std::make_shared<EventLoop>();
    const auto client = must(Client::connect(loop, joining(server.port()), key));
    must(result_of(begin_call(*client, {.method = kEcho})));
    server.signal(signal);
    const auto lost = result_of(begin_call(*client, {.method = kEcho}));
    ASSERT_FALSE(lost);
    EXPECT_EQ(lost.error().kind, ErrorKind::PeerLost);
    EXPECT_THAT(
        lost.error().message,
        StartsWith(
            name_of_server(server.port()) +
            (signal == SIGSTOP ? ": has sent nothing for 1 s" : ": ")
        )
    );
    EXPECT_EQ(client->stats().lost, 1);
    EXPECT_EQ(client->stats().calls_under_way, 0);
  }

  const auto loop = std::make_shared<EventLoop>();
  const auto server = must(Server::start(loop, serving(), key, echo));
  const auto error_of = [&](const ClientOptions& options, const Key& own) {
    const auto client = Client::connect(loop, options, own);
    EXPECT_FALSE(client);
    return client ? Error{} : client.error();
  };
  const std::string name = "data server of " + name_of_server(server->port()) + ": ";

  const Error other_key = error_of(joining(server->port()), must(Key::draw()));
  EXPECT_EQ(other_key.kind, ErrorKind::Configuration);
  EXPECT_THAT(other_key.message, StartsWith(name + "it holds another data key"));
  ClientOptions stale = joining(server->port());
  stale.identity.attempt = 2;
  const Error other_attempt = error_of(stale, key);
  EXPECT_EQ(other_attempt.kind, ErrorKind::PeerLost);
  EXPECT_THAT(other_attempt.message, StartsWith(name + "it is of attempt 3, round 1"));
  // Each was refused once; both processes had their answer by then.
  EXPECT_EQ(server->refused(), 2);

  // Nobody listens; somebody listens and says nothing.
  uint16_t port = 0;
  {
    const RawListener listener;
    port = listener.port();
    const Error silent = error_of(joining(port), key);
    EXPECT_EQ(silent.kind, ErrorKind::PeerLost);
    EXPECT_THAT(silent.message, HasSubstr("the handshake fails: no answer in time"));
  }
  const Error nobody = error_of(joining(port), key);
  EXPECT_EQ(nobody.kind, ErrorKind::PeerLost);
  EXPECT_THAT(nobody.message, HasSubstr("it takes no connection: Connection refused"));
}

TEST(Client, TakesSlowAndEarlyAnswersAsLongAsItIsNotClosed) {
  const auto loop = std::make_shared<EventLoop>();
  const Key key = must(Key::draw());
  RawListener listener;
  // Its answer takes longer than the client's patience with silence: a byte of it for each heartbeat
  // of the client's, which comes four times as often. Another request gets no answer.
  std::thread server([&] {
    RawPeer peer = listener.accept();
    peer.welcome(identity_of(kServingNode), key);
    const FrameHeader request = peer.receive_header();
    peer.receive_header();
    peer.send({.type = FrameType::Reply, .call = request.call, .length = 8});
    for (int i = 0; i < 8; ++i) {
      EXPECT_EQ(peer.receive_header().type, FrameType::Heartbeat);
      peer.send(bytes_of("x"));
    }
    peer.wait_for_end();
  });
  std::future<Result<Reply>> unanswered;
  {
    const auto client = must(Client::connect(loop, joining(listener.port()), key));
    auto slow = begin_call(*client, {.method = kEcho, .most_rest = 8});
    unanswered = begin_call(*client, {.method = kEcho});
    EXPECT_EQ(must(result_of(std::move(slow))).size, 8);
    EXPECT_EQ(client->stats().calls_under_way, 1);
    EXPECT_EQ(client->stats().lost, 0);
  }
  EXPECT_EQ(result_of(std::move(unanswered)).error().kind, ErrorKind::Cancelled);
  server.join();

  // A server may read a request, and answer it, before the client's thread learns that it has
  // written it; but once.
  const std::vector<std::byte> request(size_t{32} << 20);  // more than the kernel takes
  for (const int answers : {1, 2}) {
    server = std::thread([&] {
      RawPeer peer = listener.accept();
      peer.welcome(identity_of(kServingNode), key);
      const FrameHeader header = peer.receive_header();
      for (int i = 0; i < answers; ++i) {
        peer.send({.type = FrameType::Reply, .call = header.call, .length = 3});
        peer.send(bytes_of("yes"));
      }
      std::vector<std::byte> body(request.size());
      if (answers == 1) {
        EXPECT_EQ(peer.receive(body), body.size());
      }
      peer.wait_for_end();
    });
    Result<Reply> reply;
    {
      const auto client = must(Client::connect(loop, joining(listener.port()), key));
      reply = result_of(
          begin_call(*client, {.method = kEcho, .request = {std::span(request)}, .most_rest = 3})
      );
    }
    server.join();
    if (answers == 1) {
      EXPECT_EQ(must(reply).size, 3);
    } else {
      EXPECT_THAT(reply.error().message, HasSubstr("has answered a call that was not made"));
    }
  }
}

TEST(Client, ReceivesAReplyWhereItsOwnFirstBytesSay) {
  const auto loop = std::make_shared<EventLoop>();
  const Key key = must(Key::draw());
  // The reply: so many bytes of each value, by the request.
  const auto server = must(Server::start(
      loop,
      serving(),
      key,
      [](const Peer&, uint16_t, std::span<const std::byte> request) {
        const auto body = std::make_shared<std::vector<std::byte>>();
        for (size_t i = 0; i < request.size(); ++i)
          body->insert(body->end(), static_cast<size_t>(request[i]) * 1000, std::byte(i));
        body->insert(body->begin(), request.begin(), request.end());
        return Answer{.segments = {std::span(*body)}, .owner = body};
      }
  ));
  const auto client = must(Client::connect(loop, joining(server->port()), key));
  const std::array sizes{std::byte{3}, std::byte{0}, std::byte{200}};
  struct Received {
    std::array<std::byte, 3> head{};
    std::vector<std::vector<std::byte>> parts;
    std::vector<int64_t> left;
  };
  const auto ask = [&](Received& received, int64_t most) {
    Call call{.request = {std::span(sizes)}, .most_rest = most};
    call.place = [&received](int64_t left) -> Result<std::vector<std::span<std::byte>>> {
      received.left.push_back(left);
      if (received.left.size() == 1) return std::vector{std::span<std::byte>(received.head)};
      std::vector<std::span<std::byte>> places;
      for (const std::byte size : received.head)
        places.emplace_back(received.parts.emplace_back(static_cast<size_t>(size) * 1000));
      return places;
    };
    return call;
  };
  Received received;
  EXPECT_EQ(must(result_of(begin_call(*client, ask(received, 203'003)))).size, 203'003);
  EXPECT_EQ(received.left, (std::vector<int64_t>{203'003, 203'000}));
  ASSERT_EQ(received.parts.size(), 3U);
  EXPECT_EQ(received.parts[0], std::vector(3000, std::byte{0}));
  EXPECT_EQ(received.parts[2], std::vector(200'000, std::byte{2}));

  // A reply that fits nowhere is its caller's error and breaks the connection, with its reason; so does
  // one that is too long, before anything is placed.
  Received cut;
  Call none = ask(cut, 203'003);
  none.place = [first = none.place,
                &cut](int64_t left) -> Result<std::vector<std::span<std::byte>>> {
    if (cut.left.empty()) return first(left);
    return fail(ErrorKind::Data, "no such sizes");
  };
  const auto refused = result_of(begin_call(*client, std::move(none)));
  EXPECT_EQ(refused.error().kind, ErrorKind::Data);
  EXPECT_THAT(refused.error().message, HasSubstr("no such sizes"));
  EXPECT_TRUE(client->lost());
  EXPECT_EQ(result_of(begin_call(*client, {})).error().kind, ErrorKind::PeerLost);
  const auto again = must(Client::connect(loop, joining(server->port()), key));
  Received none_placed;
  EXPECT_EQ(
      result_of(begin_call(*again, ask(none_placed, 203'002))).error().kind, ErrorKind::PeerLost
  );
  EXPECT_TRUE(none_placed.left.empty());
}

TEST(Client, GivesUpAConnectionThatIsBeingMade) {
  const auto loop = std::make_shared<EventLoop>();
  const Key key = must(Key::draw());
  RawListener listener;
  std::atomic<int64_t> calls = 0;
  auto connecting =
      must(Client::begin_connect(loop, joining(listener.port()), key, [&](const auto&) { ++calls; })
      );
  // It has come as far as it can: the other end says nothing.
  RawPeer silent = listener.accept();
  connecting.reset();
  silent.wait_for_end();
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace gnn::rpc
