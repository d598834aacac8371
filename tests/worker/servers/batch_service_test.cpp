#include "worker/servers/batch_service.h"

#include "tests/support/mutations.h"
#include "tests/worker/servers/servers.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <limits>
#include <span>

namespace gnn::servers {
namespace {

using ::testing::HasSubstr;

// A connection that asks by itself what it wants.
class RawClient {
 public:
  RawClient(const TestServer& server, const rpc::Key& key, const rpc::Identity& identity)
      : client_(must(rpc::Client::connect(
            std::make_shared<rpc::EventLoop>(),
            {.address = server.live().address,
             .role = rpc::Role::Server,
             .node = server.live().server,
             .identity = identity,
             .peer_timeout = kPeerTimeout},
            key
        ))) {}

  std::future<Result<rpc::Reply>> begin(uint16_t method, const std::vector<std::byte>& request) {
    const auto body = std::make_shared<const std::vector<std::byte>>(request);
    const auto promise = std::make_shared<std::promise<Result<rpc::Reply>>>();
    client_->call(
        {.method = method, .request = {std::span(*body)}, .most_rest = kMostParcelBytes},
        [body, promise](Result<rpc::Reply> reply) { promise->set_value(std::move(reply)); }
    );
    return promise->get_future();
  }
  Result<rpc::Reply> ask(uint16_t method, const std::vector<std::byte>& request = {}) {
    return begin(method, request).get();
  }
  Result<rpc::Reply> ask(Method method, const std::vector<std::byte>& request = {}) {
    return ask(static_cast<uint16_t>(method), request);
  }
  std::future<Result<rpc::Reply>> begin_batch(const BatchRequest& request) {
    return begin(static_cast<uint16_t>(Method::Batch), encode(request));
  }
  Result<rpc::Reply> ask_batch(int64_t index) {
    return ask(Method::Batch, encode(request_of(0, index)));
  }
  [[nodiscard]] bool lost() const { return client_->lost(); }

 private:
  std::unique_ptr<rpc::Client> client_;
};

// A client that sends frames of its own.
rpc::RawPeer raw_client(
    const TestServer& server, const rpc::Key& key, const rpc::Identity& identity
) {
  rpc::RawPeer peer = rpc::RawPeer::connect_to(server.port());
  rpc::ClientHandshake handshake(identity, server.live().server, key, rpc::Role::Server);
  peer.send(must(handshake.prove(peer.receive<rpc::kChallengeBytes>())));
  must(handshake.check(peer.receive<rpc::kVerdictBytes>()));
  return peer;
}

// What comes back, without its body.
rpc::FrameType answer_to(
    rpc::RawPeer& peer, uint16_t method, uint64_t call, const std::vector<std::byte>& body
) {
  // In one piece, as the kernel may keep a second one back for a while.
  const auto header = rpc::encode_header(
      {.type = rpc::FrameType::Request, .method = method, .call = call, .length = body.size()}
  );
  std::vector<std::byte> frame(header.begin(), header.end());
  frame.insert(frame.end(), body.begin(), body.end());
  peer.send(frame);
  const rpc::FrameHeader answer = peer.receive_frame();
  EXPECT_EQ(answer.call, call);
  std::vector<std::byte> rest(answer.length);
  EXPECT_EQ(peer.receive(rest), rest.size());
  return answer.type;
}

// Requests that no client of ours sends cost who sends them no connection, and nobody else anything.
void expect_forged_requests_are_refused(const TestServer& server, const rpc::Key& key) {
  constexpr auto kLeast = std::numeric_limits<int64_t>::min();
  constexpr auto kMost = std::numeric_limits<int64_t>::max();
  const auto batch = static_cast<uint16_t>(Method::Batch);
  const std::vector<std::byte> good = encode(request_of(0, 0));
  std::vector<std::vector<std::byte>> forged;
  for (const size_t size :
       {size_t{0}, size_t{7}, good.size() - 1, good.size() + 1, size_t{100'000}}) {
    forged.push_back(good);
    forged.back().resize(size);
  }
  for (const size_t byte : {0U, 1U, 2U, 4U, 7U}) {  // use, part, and those that are 0
    forged.push_back(good);
    forged.back()[byte] = std::byte{200};
  }
  // Each number behind them.
  const auto set = [&](size_t number, int64_t value) {
    forged.push_back(good);
    std::memcpy(forged.back().data() + 8 + number * sizeof value, &value, sizeof value);
  };
  for (const size_t number : {0U, 2U, 3U, 4U, 5U}) {
    set(number, -1);
    set(number, kLeast);
  }
  set(1, -2);
  set(3, kMost);
  set(3, kMostBatchItems + 1);
  set(4, kMost);

  rpc::RawPeer peer = raw_client(server, key, client_identity(3));
  uint64_t call = 0;
  for (const auto& body : forged)
    EXPECT_EQ(answer_to(peer, batch, ++call, body), rpc::FrameType::Failure) << call;
  for (const uint16_t method : {0, 4, 8, 65535})
    EXPECT_EQ(answer_to(peer, method, ++call, good), rpc::FrameType::Failure) << method;
  for (int i = 0; i < 100; ++i) {
    const auto method = static_cast<uint16_t>(i % 2 == 0 ? Method::Hello : Method::Ready);
    EXPECT_EQ(answer_to(peer, method, ++call, good), rpc::FrameType::Reply);
  }
  EXPECT_EQ(answer_to(peer, batch, ++call, good), rpc::FrameType::Reply);
  // Its own number again.
  EXPECT_EQ(answer_to(peer, batch, call, good), rpc::FrameType::Reply);
  // No memory is taken for what a request is said to be long.
  peer.send(
      {.type = rpc::FrameType::Request, .method = batch, .call = 1, .length = uint64_t{1} << 40}
  );
  peer.wait_for_end();
}

rpc::Identity server_identity(int64_t server) {
  return {.job_uid = kJob, .role = rpc::Role::Server, .node = server};
}

TEST(BatchService, AnswersClientsForBatchesAndServersForTheirPartsAndRefusesAllElse) {
  const rpc::Key key = must(rpc::Key::draw());
  const TestServer server({.server = 2, .restart = 1}, key, maker());
  RawClient client(server, key, client_identity());
  RawClient other_server(server, key, server_identity(1));

  const Hello hello = must(decode_hello(must(client.ask(Method::Hello)).rest));
  EXPECT_EQ(hello.server, 2);
  EXPECT_EQ(hello.description, "papers");
  EXPECT_TRUE(client.ask(Method::Ready));
  EXPECT_TRUE(client.ask_batch(1));
  EXPECT_TRUE(other_server.ask(Method::Hello));

  EXPECT_THAT(
      other_server.ask_batch(0).error().message, HasSubstr("workers alone ask for batches")
  );
  EXPECT_THAT(other_server.ask(1).error().message, HasSubstr("has no part for other servers"));
  EXPECT_THAT(client.ask(2).error().message, HasSubstr("workers ask for whole batches"));
  EXPECT_THAT(client.ask(9).error().message, HasSubstr("workers ask for whole batches"));
  EXPECT_EQ(server.service().stats().refused, 3);
  expect_forged_requests_are_refused(server, key);

  // Any bytes as a request: refused, or a batch of ours; the connection and the server live on.
  testing::Mutations mutations(7);
  const auto good = encode(request_of(0, 0));
  const std::string text(reinterpret_cast<const char*>(good.data()), good.size());
  for (int i = 0; i < testing::mutation_rounds(300); ++i) {
    const std::string forged = mutations.of(text);
    const auto bytes = std::as_bytes(std::span(forged));
    const auto request = decode_batch_request(bytes);
    if (request && request->count > 1000) continue;  // the test's own maker would make it
    EXPECT_EQ(
        client.ask(Method::Batch, {bytes.begin(), bytes.end()}).has_value(), request.has_value()
    );
  }
  EXPECT_TRUE(client.ask_batch(3));
  EXPECT_FALSE(client.lost());

  // What the maker meets goes to the client, with its kind.
  const TestServer failing({}, key, maker([](const BatchRequest& request) -> Status {
                             if (request.index == 1) return fail(ErrorKind::Data, "no such batch");
                             if (request.index == 2) throw std::runtime_error("broken");
                             return {};
                           }));
  RawClient asking(failing, key, client_identity());
  EXPECT_EQ(asking.ask_batch(1).error().kind, ErrorKind::Data);
  EXPECT_EQ(asking.ask_batch(2).error().kind, ErrorKind::Internal);
  EXPECT_TRUE(asking.ask_batch(3));
}

TEST(BatchService, RefusesWhoseAttemptOrRoundIsBelowTheHighestItHasSeen) {
  const rpc::Key key = must(rpc::Key::draw());
  const TestServer server({}, key, maker());
  RawClient first(server, key, client_identity(0, 3, 1));
  EXPECT_TRUE(first.ask_batch(0));
  RawClient same(server, key, client_identity(1, 3, 1));
  EXPECT_TRUE(same.ask(Method::Hello));

  // On a connection that was open before, and on a new one.
  RawClient next_round(server, key, client_identity(0, 3, 2));
  EXPECT_TRUE(next_round.ask(Method::Hello));
  const auto refused = first.ask_batch(1);
  EXPECT_EQ(refused.error().kind, ErrorKind::PeerLost);
  EXPECT_THAT(
      refused.error().message,
      HasSubstr("this worker is of attempt 3, round 1, and one of attempt 3, round 2 has taken its "
                "place")
  );
  RawClient late(server, key, client_identity(0, 3, 1));
  EXPECT_FALSE(late.ask(Method::Hello));

  // A new attempt begins with round 0. Servers are of none.
  RawClient next_attempt(server, key, client_identity(0, 4, 0));
  EXPECT_TRUE(next_attempt.ask_batch(0));
  EXPECT_FALSE(next_round.ask_batch(0));
  RawClient other_server(server, key, server_identity(1));
  EXPECT_TRUE(other_server.ask(Method::Hello));
}

constexpr int64_t kMegabyte = 1'000'000;

// Makes batches of as many bytes as a test wants.
class SizedMaker final : public BatchMaker<MiniBatch> {
 public:
  using BytesOf = std::function<int64_t(const BatchRequest&)>;
  // `made`: called for each one that is there.
  explicit SizedMaker(
      BytesOf bytes_of, std::function<void()> made = [] {}
  )
      : bytes_of_(std::move(bytes_of)), made_(std::move(made)) {}

  void make(const BatchRequest& request, const Executor& executor, Done done) override {
    executor([this, request, done = std::move(done)] {
      MiniBatch batch;
      batch.batch_index = request.index;
      batch.x = at::zeros({bytes_of_(request)}, at::kByte);
      made_();
      done(std::move(batch));
    });
  }

 private:
  const BytesOf bytes_of_;
  const std::function<void()> made_;
};

constexpr int64_t kLargeBytes = 4 * kMegabyte;

// Of many clients at once, after a small first one. Eight are made before any is sent.
void grow_at_once(int64_t bound, int64_t most) {
  const rpc::Key key = must(rpc::Key::draw());
  std::atomic<int64_t> made = 0;
  const TestServer server(
      {.max_bytes_in_flight = bound, .num_threads = 8},
      key,
      std::make_shared<SizedMaker>(
          [](const BatchRequest& request) { return request.index == 0 ? 10 : kLargeBytes; },
          [&] {
            ++made;
            wait_until([&] { return made == 1 || made >= 9; });
          }
      )
  );
  std::deque<RawClient> clients;
  std::vector<std::future<Result<rpc::Reply>>> replies;
  for (int64_t node = 0; node < 4; ++node) clients.emplace_back(server, key, client_identity(node));
  EXPECT_TRUE(clients.front().ask_batch(0));
  for (int64_t index = 1; index <= 4; ++index)
    for (RawClient& client : clients) replies.push_back(client.begin_batch(request_of(0, index)));
  for (auto& reply : replies) EXPECT_GE(must(reply.get()).size, kLargeBytes);
  EXPECT_LE(server.service().stats().most_bytes_in_flight, most);
  EXPECT_EQ(server.service().stats().batches, 17);
}

// Room for batches with more items than any before is kept by their items.
void grow_with_their_items() {
  const rpc::Key key = must(rpc::Key::draw());
  std::promise<void> may_end;
  const auto end = may_end.get_future().share();
  const TestServer server(
      {.max_bytes_in_flight = kMegabyte * 9 / 2, .num_threads = 8},
      key,
      std::make_shared<SizedMaker>([&, end](const BatchRequest& request) {
        if (request.count > 1) end.wait();
        return request.count * kMegabyte / kBatchItems;
      })
  );
  BatchRequest one = request_of(0, 0);
  one.count = 1;
  // Clients that are gone have no share.
  for (int64_t node = 1; node <= 5; ++node)
    EXPECT_TRUE(RawClient(server, key, client_identity(node)).begin_batch(one).get());
  wait_until([&] { return server.num_clients() == 0; });
  RawClient client(server, key, client_identity());
  EXPECT_TRUE(client.begin_batch(one).get());
  wait_until([&] { return server.service().stats().under_way == 0; });  // it is after its answer
  std::vector<std::future<Result<rpc::Reply>>> replies;
  for (int64_t i = 0; i < kBatches; ++i) replies.push_back(client.begin_batch(request_of(0, i)));
  ServiceStats stats;
  wait_until([&] {
    stats = server.service().stats();
    return stats.queue_length + stats.under_way == kBatches && stats.under_way >= 2;
  });
  EXPECT_EQ(stats.under_way, 2);  // this client's share
  may_end.set_value();
  for (auto& reply : replies) EXPECT_GE(must(reply.get()).size, kMegabyte);
}

// Of two clients that wait, each has its turn, however much the first has asked for.
void make_in_turn() {
  const rpc::Key key = must(rpc::Key::draw());
  Guarded<std::vector<int64_t>> made;
  std::promise<void> may_end;
  const auto end = may_end.get_future().share();
  const TestServer server(
      {.max_bytes_in_flight = 100 * kMegabyte, .num_threads = 1},
      key,
      std::make_shared<SizedMaker>([&, end](const BatchRequest& request) {
        made.lock()->push_back(request.index);
        if (request.index == 1) end.wait();
        return int64_t{10};
      })
  );
  RawClient first(server, key, client_identity(0));
  RawClient second(server, key, client_identity(1));
  EXPECT_TRUE(first.ask_batch(0));
  std::vector<std::future<Result<rpc::Reply>>> replies;
  for (const int64_t index : {1, 2, 3}) replies.push_back(first.begin_batch(request_of(0, index)));
  const auto wait_for = [&](int64_t requests) {
    wait_until([&] {
      const ServiceStats stats = server.service().stats();
      return stats.queue_length + stats.under_way == requests && made.lock()->size() == 2;
    });
  };
  wait_for(3);
  replies.push_back(second.begin_batch(request_of(0, 4)));
  wait_for(4);
  may_end.set_value();
  for (auto& reply : replies) EXPECT_TRUE(reply.get());
  EXPECT_EQ(*made.lock(), (std::vector<int64_t>{0, 1, 2, 4, 3}));

  // No client may have more than 256 of them wait.
  const TestServer idle({}, key, nullptr);
  RawClient greedy(idle, key, client_identity());
  for (int64_t i = 0; i < 256; ++i) replies.push_back(greedy.begin_batch(request_of(0, 0)));
  EXPECT_THAT(greedy.ask_batch(0).error().message, HasSubstr("256 batches are asked for already"));
}

// While one is made, another client's waits for room. One that came after it has to wait, too.
void let_none_pass_a_large_one() {
  const rpc::Key key = must(rpc::Key::draw());
  Guarded<std::vector<int64_t>> made;
  std::promise<void> may_end;
  const auto end = may_end.get_future().share();
  const TestServer server(
      {.max_bytes_in_flight = kMegabyte * 9 / 2, .num_threads = 3},
      key,
      std::make_shared<SizedMaker>([&, end](const BatchRequest& request) {
        made.lock()->push_back(request.index);
        if (request.index == 2) end.wait();
        return request.use == Use::Training ? kMegabyte : 4 * kMegabyte;
      })
  );
  std::deque<RawClient> clients;
  for (int64_t node = 0; node < 3; ++node) clients.emplace_back(server, key, client_identity(node));
  BatchRequest large = request_of(0, 1);
  large.use = Use::Evaluation;
  EXPECT_TRUE(clients[0].ask_batch(0));
  // Its room is given back after the answer has come; else the large one is made twice.
  wait_until([&] { return server.service().stats().bytes_in_flight == 0; });
  EXPECT_TRUE(clients[1].begin_batch(large).get());

  std::vector<std::future<Result<rpc::Reply>>> replies;
  replies.push_back(clients[0].begin_batch(request_of(0, 2)));
  wait_until([&] { return made.lock()->size() == 3; });
  large.index = 3;
  replies.push_back(clients[1].begin_batch(large));
  wait_until([&] { return server.service().stats().queue_length == 1; });
  replies.push_back(clients[2].begin_batch(request_of(0, 4)));
  wait_until([&] {
    const ServiceStats stats = server.service().stats();
    return stats.queue_length + stats.under_way == 3;
  });
  may_end.set_value();
  for (auto& reply : replies) EXPECT_TRUE(reply.get());
  EXPECT_EQ(*made.lock(), (std::vector<int64_t>{0, 1, 2, 3, 4}));
}

// A kind of which none was made needs no more room than the others: it does not wait until all is free.
void take_a_new_kind_to_be_like_the_others() {
  const rpc::Key key = must(rpc::Key::draw());
  std::promise<void> may_end;
  const auto end = may_end.get_future().share();
  const TestServer server(
      {.max_bytes_in_flight = kMegabyte * 9 / 2},
      key,
      std::make_shared<SizedMaker>([end](const BatchRequest& request) {
        if (request.index == 1) end.wait();
        return kMegabyte;
      })
  );
  RawClient first(server, key, client_identity(0));
  RawClient second(server, key, client_identity(1));
  EXPECT_TRUE(first.ask_batch(0));
  auto under_way = first.begin_batch(request_of(0, 1));
  wait_until([&] { return server.service().stats().under_way == 1; });
  BatchRequest other = request_of(0, 2);
  other.use = Use::Evaluation;
  EXPECT_TRUE(second.begin_batch(other).get());
  may_end.set_value();
  EXPECT_TRUE(under_way.get());
}

// Asks for so many batches, and reads none of them.
rpc::RawPeer client_that_does_not_read(
    const TestServer& server, const rpc::Key& key, uint64_t batches
) {
  rpc::RawPeer client = raw_client(server, key, client_identity(5));
  client.shrink_receive_buffer();
  // From then on, the server counts it.
  EXPECT_EQ(answer_to(client, static_cast<uint16_t>(Method::Hello), 1, {}), rpc::FrameType::Reply);
  const auto request = encode(request_of(0, 0));
  for (uint64_t batch = 0; batch < batches; ++batch) {
    client.send(
        {.type = rpc::FrameType::Request,
         .method = static_cast<uint16_t>(Method::Batch),
         .call = 2 + batch,
         .length = request.size()}
    );
    client.send(request);
  }
  return client;
}

// The first has all of the room, but only until it is made.
void give_back_what_the_first_does_not_need() {
  const rpc::Key key = must(rpc::Key::draw());
  constexpr int64_t kFirst = 20 * kMegabyte;  // more than the kernel takes
  const TestServer server(
      {.max_bytes_in_flight = 10 * kFirst},
      key,
      std::make_shared<SizedMaker>([](const BatchRequest&) { return kFirst; })
  );
  const rpc::RawPeer stopped = client_that_does_not_read(server, key, 1);
  wait_until([&] { return server.service().stats().batches == 1; });
  EXPECT_LT(server.service().stats().bytes_in_flight, 2 * kFirst);
}

TEST(BatchService, KeepsNoMoreBytesThanItsBoundAndServesOthersWhileAClientDoesNotRead) {
  const rpc::Key key = must(rpc::Key::draw());
  const int64_t batch_bytes = pack(world()->make(request_of(0, 0))).bytes();
  const int64_t bound = 12 * batch_bytes;
  constexpr uint64_t kAsked = 200;  // far more than the kernel holds for it
  {
    // So patient that it drops nobody here.
    const TestServer patient(
        {.max_bytes_in_flight = bound, .peer_timeout = std::chrono::hours(1)}, key, maker()
    );
    const rpc::RawPeer stopped = client_that_does_not_read(patient, key, kAsked);
    wait_until([&] { return patient.service().stats().batches > 4; });
    // Another one gets its batches all the while.
    RawClient other(patient, key, client_identity());
    for (int64_t i = 0; i < 40; ++i) EXPECT_TRUE(other.ask_batch(i % kBatches));
    EXPECT_LE(patient.service().stats().most_bytes_in_flight, bound);
    EXPECT_GT(patient.service().stats().queue_length, 0);
  }

  // In the end it is dropped, and nothing of it is left.
  const TestServer server({.max_bytes_in_flight = bound}, key, maker());
  const rpc::RawPeer stopped = client_that_does_not_read(server, key, kAsked);
  wait_until([&] { return server.num_clients() == 0; });
  RawClient other(server, key, client_identity());
  EXPECT_TRUE(other.ask_batch(0));
  wait_until([&] {
    const ServiceStats stats = server.service().stats();
    return stats.queue_length == 0 && stats.bytes_in_flight == 0 && stats.under_way == 0;
  });

  // Nor does it keep more when batches become larger than any before, or one alone is.
  grow_at_once(kLargeBytes * 9 / 2, kLargeBytes * 9 / 2);
  grow_at_once(kLargeBytes, kLargeBytes + 1000);
  grow_with_their_items();
  give_back_what_the_first_does_not_need();
  take_a_new_kind_to_be_like_the_others();
  let_none_pass_a_large_one();
  make_in_turn();
}

TEST(BatchService, LetsRequestsWaitForItsMakerAndAnswersAllOfThemBeforeItLeaves) {
  const rpc::Key key = must(rpc::Key::draw());
  const TestServer server({.num_threads = 1}, key, nullptr);
  RawClient client(server, key, client_identity());
  const auto batch = static_cast<uint16_t>(Method::Batch);
  auto early = client.begin(batch, encode(request_of(0, 0)));
  auto ready = client.begin(static_cast<uint16_t>(Method::Ready), {});
  EXPECT_TRUE(client.ask(Method::Hello));
  wait_until([&] { return server.service().stats().queue_length == 1; });
  EXPECT_EQ(ready.wait_for(std::chrono::seconds(0)), std::future_status::timeout);

  std::promise<void> may_end;
  std::promise<void> begun;
  const auto end = may_end.get_future().share();
  server.service().set_maker<MiniBatch>(maker([&, end](const BatchRequest& request) -> Status {
    if (request.index == 1) {
      begun.set_value();
      end.wait();
    }
    return {};
  }));
  EXPECT_TRUE(ready.get());
  EXPECT_TRUE(early.get());

  // A server that leaves answers what it has taken, and takes nothing more.
  auto under_way = client.begin(batch, encode(request_of(0, 1)));
  begun.get_future().wait();
  auto queued = client.begin_batch(request_of(0, 3));
  wait_until([&] { return server.service().stats().queue_length == 1; });
  EXPECT_FALSE(server.service().drain(std::chrono::nanoseconds(1)));
  EXPECT_EQ(client.ask_batch(2).error().kind, ErrorKind::Cancelled);
  may_end.set_value();
  EXPECT_TRUE(server.service().drain(std::chrono::minutes(1)));
  EXPECT_TRUE(under_way.get());
  EXPECT_TRUE(queued.get());
  const ServiceStats stats = server.service().stats();
  EXPECT_EQ(stats.batches, 3);
  EXPECT_GT(stats.queue_seconds, 0);
  EXPECT_GT(stats.wire_seconds, 0);
  EXPECT_GT(stats.busy_seconds, 0);

  // One that leaves before it makes any says so to who waits.
  const TestServer loading({}, key, nullptr);
  RawClient waiting(loading, key, client_identity());
  auto never_ready = waiting.begin(static_cast<uint16_t>(Method::Ready), {});
  auto never_made = waiting.begin_batch(request_of(0, 0));
  wait_until([&] { return loading.service().stats().queue_length == 1; });
  EXPECT_TRUE(loading.service().drain(std::chrono::minutes(1)));
  EXPECT_EQ(never_ready.get().error().kind, ErrorKind::Cancelled);
  EXPECT_EQ(never_made.get().error().kind, ErrorKind::Cancelled);
}

}  // namespace
}  // namespace gnn::servers
