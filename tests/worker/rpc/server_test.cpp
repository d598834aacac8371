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
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gnn::rpc {
namespace {

using ::testing::AnyOf;
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

  // Of silent ones, the 65th ends the first; the others have 3 s. Who holds the key comes in.
  std::deque<RawPeer> silent;
  for (int i = 0; i < 65; ++i) {
    silent.push_back(RawPeer::connect_to(server->port()));
    silent.back().receive<kChallengeBytes>();
  }
  silent.front().wait_for_end();
  EXPECT_EQ(server->refused(), 2);
  const auto client = must(Client::connect(loop, joining(server->port()), key));
  must(result_of(begin_call(*client, {})));
  for (RawPeer& each : silent) each.wait_for_end();
  EXPECT_EQ(server->refused(), 66);
}

// Requests of a client that takes no replies, each with a reply of 1 MB.
class Flood {
 public:
  static constexpr int64_t kReplyBytes = 1'000'000;
  static constexpr int64_t kClientBytes = 4'000'000;

  explicit Flood(ServerOptions options) : key_(must(Key::draw())) {
    options.most_request_bytes = 1'000;
    options.client_bytes = kClientBytes;
    options.total_bytes = 10 * kClientBytes;
    server_ = must(Server::start(
        loop_,
        options,
        key_,
        [this](const Peer& peer, uint16_t, std::span<const std::byte>) {
          if (peer.node != kFlooding) return Answer{};
          // Alive until it is written or dropped.
          ++alive_;
          most_alive_ = std::max(most_alive_.load(), alive_.load());
          const auto owner =
              std::shared_ptr<const void>(bytes_.data(), [this](const void*) { --alive_; });
          return Answer{.segments = {std::span(bytes_)}, .owner = owner};
        }
    ));
  }

  static constexpr int64_t kFlooding = 7;
  [[nodiscard]] const Key& key() const { return key_; }
  [[nodiscard]] const std::shared_ptr<EventLoop>& loop() const { return loop_; }
  [[nodiscard]] uint16_t port() const { return server_->port(); }
  [[nodiscard]] int64_t most_alive() const { return most_alive_; }
  [[nodiscard]] int64_t alive() const { return alive_; }

 private:
  const Key key_;
  const std::vector<std::byte> bytes_{static_cast<size_t>(kReplyBytes)};
  std::atomic<int64_t> alive_{0};
  std::atomic<int64_t> most_alive_{0};
  const std::shared_ptr<EventLoop> loop_ = std::make_shared<EventLoop>();
  std::unique_ptr<Server> server_;
};

TEST(Server, StopsReadingAClientThatTakesNoRepliesAndDropsIt) {
  Guarded<std::vector<std::string>> lines;
  const ScopedLogOutput output([&](std::string_view line) {
    lines.lock()->emplace_back(line);
    lines.notify_all();
  });
  Flood flood(serving());
  RawPeer client =
      RawPeer::client(flood.port(), identity_of(Flood::kFlooding), kServingNode, flood.key());
  client.shrink_buffers();
  // Far more requests than its budget; none of its bytes is read any more, in the end.
  uint64_t call = 0;
  while (client.send_without_waiting(encode_header({.type = FrameType::Request, .call = ++call}))) {
  }
  // Others are served all the while, and until it is gone.
  const auto other = must(Client::connect(flood.loop(), joining(flood.port()), flood.key()));
  must(result_of(begin_call(*other, {})));
  lines.lock().wait([](const auto& all) { return !all.empty(); });
  EXPECT_THAT(lines.lock()->front(), HasSubstr("a data client is gone"));
  EXPECT_THAT(
      lines.lock()->front(),
      AnyOf(HasSubstr("has taken no bytes for 1 s"), HasSubstr("has sent nothing for 1 s"))
  );
  EXPECT_THAT(lines.lock()->front(), HasSubstr("node=7"));
  must(result_of(begin_call(*other, {})));
  EXPECT_LE(flood.most_alive() * Flood::kReplyBytes, Flood::kClientBytes + 2 * Flood::kReplyBytes);
  EXPECT_EQ(flood.alive(), 0);
}

TEST(Server, ReadsASlowClientAsLongAsItLives) {
  const auto loop = std::make_shared<EventLoop>();
  const Key key = must(Key::draw());
  const auto server = must(Server::start(
      loop,
      serving(),
      key,
      [](const Peer& peer, uint16_t method, std::span<const std::byte> request) {
        EXPECT_EQ(peer.node, 4);
        EXPECT_EQ(method, 5);
        EXPECT_EQ(
            std::string(reinterpret_cast<const char*>(request.data()), request.size()), "slowly"
        );
        return Result<Answer>(Answer{});
      }
  ));
  // A request that takes longer than the server's patience with silence: a byte for each heartbeat.
  RawPeer client = RawPeer::client(server->port(), identity_of(4), kServingNode, key);
  client.send({.type = FrameType::Request, .method = 5, .call = 1, .length = 6});
  for (const char letter : std::string("slowly")) {
    EXPECT_EQ(client.receive_header().type, FrameType::Heartbeat);
    client.send(bytes_of(std::string(1, letter)));
  }
  EXPECT_EQ(client.receive_frame().type, FrameType::Reply);
}

TEST(Server, DropsClientsThatBreakTheProtocolAndAnswersTheOthers) {
  const auto loop = std::make_shared<EventLoop>();
  const Key key = must(Key::draw());
  const auto server = must(Server::start(loop, serving(), key, answer_nothing));
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
      {{.type = FrameType::Reply, .call = 1}, "has sent a frame of a server"},
      {{.type = FrameType::Heartbeat, .length = 9}, "sent a heartbeat with a body"},
      {{.type = static_cast<FrameType>(99)}, "sent bytes that are no frame"},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    RawPeer peer = RawPeer::client(server->port(), identity_of(6), kServingNode, key);
    peer.send(cases[i].first);
    peer.wait_for_end();
    lines.lock().wait([&](const auto& all) { return all.size() > i; });
    EXPECT_THAT(lines.lock()->at(i), HasSubstr(cases[i].second));
    EXPECT_THAT(lines.lock()->at(i), HasSubstr("node=6"));
    must(result_of(begin_call(*client, {})));
  }

  ServerOptions wrong = serving();
  wrong.client_bytes = 5;
  EXPECT_EQ(Server::start(loop, wrong, key, answer_nothing).error().kind, ErrorKind::Configuration);
  ServerOptions taken = serving();
  taken.address.port = server->port();
  EXPECT_EQ(Server::start(loop, taken, key, answer_nothing).error().kind, ErrorKind::Network);
}

}  // namespace
}  // namespace gnn::rpc
