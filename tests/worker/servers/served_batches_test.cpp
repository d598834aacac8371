#include "worker/servers/served_batches.h"

#include "tests/worker/servers/servers.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace gnn::servers {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// Servers of one job, one behind the other, and who has asked which for what.
class Servers {
 public:
  explicit Servers(int64_t count, int64_t partitions = 1) {
    for (int64_t i = 0; i < count; ++i) add({.server = i, .restart = 0, .partitions = partitions});
    list();
  }

  TestServer& add(const ServerSetup& setup) {
    return *all_.emplace_back(std::make_unique<TestServer>(
        setup,
        key,
        std::make_shared<WorldMaker>(
            world(),
            [this, server = setup.server](const BatchRequest& request) -> Status {
              if (before) return before(server, request);
              return {};
            }
        )
    ));
  }
  TestServer& operator[](size_t i) { return *all_[i]; }
  // Ends the last, whose batches nobody makes any more, and starts the next.
  void replace_last() {
    const int64_t server = all_.back()->live().server;
    all_.pop_back();
    add({.server = server + 1});
    list();
  }
  // Node 0 names those, and them alone.
  void list(const std::vector<size_t>& servers) {
    std::vector<LiveServer> live;
    for (const size_t i : servers) live.push_back(all_[i]->live());
    directory->update(live);
  }
  void list() {
    std::vector<LiveServer> live;
    for (const auto& each : all_) live.push_back(each->live());
    directory->update(live);
  }

  const rpc::Key key = must(rpc::Key::draw());
  const std::shared_ptr<Directory> directory = std::make_shared<Directory>();
  // Called on a server's thread before it makes a batch.
  std::function<Status(int64_t server, const BatchRequest&)> before;

 private:
  std::vector<std::unique_ptr<TestServer>> all_;
};

TEST(ServedBatches, HaveTheSameBitsWhoeverMakesThemAndAreSpreadOverTheHolders) {
  for (const auto& [count, partitions] : {std::pair<int64_t, int64_t>{1, 1}, {3, 1}, {4, 2}}) {
    Servers servers(count, partitions);
    const ClientEnds client(servers.key, servers.directory, partitions);
    EXPECT_EQ(must(client.holders->open()), "papers");
    // Those of the last partition, from any batch on, in any epoch.
    const auto batches = client.batches(partitions - 1);
    const auto made_by = [&](int64_t server) {
      return servers[static_cast<size_t>(server)].service().stats().batches;
    };
    // Until each holder is ready, the others make its batches.
    const auto is_ready = [&] {
      for (int64_t i = partitions - 1; i < count; i += partitions)
        if (made_by(i) == 0) return false;
      return true;
    };
    for (int epoch = 0; epoch < 100 && !is_ready(); ++epoch) {
      must(batches->start_epoch(epoch));
      for (int64_t i = 0; i < kBatches; ++i) EXPECT_TRUE(must(batches->next()));
    }
    std::vector<int64_t> before;
    for (int64_t i = 0; i < count; ++i) before.push_back(made_by(i));
    const int64_t batches_before = client.holders->stats().batches;
    for (const auto& [epoch, first] : {std::pair<int64_t, int64_t>{0, 0}, {2, 5}}) {
      must(batches->start_epoch(epoch, first));
      for (int64_t i = first; i < kBatches; ++i) expect_next(*batches, *world(), epoch, i);
      EXPECT_FALSE(must(batches->next()));
      EXPECT_EQ(batches->stats().batches, kBatches - first);
      EXPECT_GT(batches->stats().sampled_edges, 0);
    }
    const int64_t all = 2 * kBatches - 5;
    const HoldersStats stats = client.holders->stats();
    EXPECT_EQ(stats.batches - batches_before, all);
    EXPECT_EQ(stats.failovers, 0);
    EXPECT_EQ(stats.under_way, 0);
    EXPECT_FALSE(stats.waiting || stats.gave_up);
    // The holders of a part make about equally many, in turn; others none.
    for (int64_t i = 0; i < count; ++i) {
      const int64_t made = made_by(i) - before[static_cast<size_t>(i)];
      const int64_t holders = count / partitions;
      EXPECT_EQ(made > 0, i % partitions == partitions - 1);
      EXPECT_NEAR(made, made > 0 ? all / holders : 0, 2);
    }
  }
}

// Reads whole epochs, whose bits are right, until `over`: a server is asked once it is ready, and how soon
// that is nobody says.
void read_epochs_until(ServedBatches<MiniBatch>& batches, const std::atomic<bool>& over) {
  for (int64_t epoch = 0; !over; ++epoch) {
    must(batches.start_epoch(epoch));
    for (int64_t i = 0; i < kBatches; ++i) expect_next(batches, *world(), epoch, i);
  }
}

// What ends an epoch.
Error error_of(ServedBatches<MiniBatch>& batches) {
  Result<std::optional<MiniBatch>> next = std::optional<MiniBatch>();
  do next = batches.next();
  while (next);
  return next.error();
}

// Whether a server has answered this.
bool is_asked_for(const Holders& holders, int64_t server, Method method) {
  return std::ranges::any_of(holders.peer_stats(), [&](const rpc::PeerStats& peer) {
    return peer.node == server && peer.of(static_cast<uint16_t>(method)).requests > 0;
  });
}

TEST(ServedBatches, AreAskedOfAnotherHolderWhenAServerIsLostOrLeaves) {
  Servers servers(3);
  // The batches that server 1 has begun when it is killed, and when server 2 leaves.
  std::promise<void> begun;
  std::promise<void> killed;
  const auto is_killed = killed.get_future().share();
  std::atomic<bool> first = true;
  std::atomic<bool> holds = false;  // server 3 begins a batch and does not end it yet
  std::promise<void> held;
  std::promise<void> let_go;
  const auto may_go = let_go.get_future().share();
  servers.before = [&, is_killed, may_go](int64_t server, const BatchRequest&) -> Status {
    if (server == 3 && holds.exchange(false)) {
      held.set_value();
      may_go.wait();
    }
    if (server != 1) return {};
    if (first.exchange(false)) begun.set_value();
    is_killed.wait();
    return {};
  };
  const ClientEnds client(servers.key, servers.directory);
  must(client.holders->open());
  const auto batches = client.batches();
  std::atomic<bool> over = false;
  auto reading = std::async(std::launch::async, [&] { read_epochs_until(*batches, over); });
  begun.get_future().wait();
  servers[1].kill();
  over = true;
  killed.set_value();
  reading.get();
  EXPECT_GE(client.holders->stats().failovers, 1);

  // One that leaves says so to who asks before the directory does.
  EXPECT_TRUE(servers[2].service().drain(std::chrono::minutes(1)));
  const int64_t made = servers[2].service().stats().batches;
  must(batches->start_epoch(1));
  for (int64_t i = 0; i < kBatches; ++i) expect_next(*batches, *world(), 1, i);
  EXPECT_EQ(servers[2].service().stats().batches, made);

  // More servers, fewer servers.
  servers.add({.server = 1, .restart = 1});
  servers.add({.server = 3});
  servers.list({0, 3, 4});
  must(batches->start_epoch(2));
  for (int64_t i = 0; i < kBatches; ++i) expect_next(*batches, *world(), 2, i);
  wait_until([&] {
    must(batches->start_epoch(3));
    for (int64_t i = 0; i < kBatches; ++i) expect_next(*batches, *world(), 3, i);
    return servers[3].service().stats().batches > 0 && servers[4].service().stats().batches > 0;
  });
  // One that node 0 does not name any more may answer what it owes.
  holds = true;
  must(batches->start_epoch(4));
  auto epoch = std::async(std::launch::async, [&] {
    for (int64_t i = 0; i < kBatches; ++i) expect_next(*batches, *world(), 4, i);
  });
  held.get_future().wait();
  const int64_t failovers = client.holders->stats().failovers;
  const TestServer fresh({.server = 5}, servers.key, nullptr);
  servers.directory->update({servers[3].live(), fresh.live()});
  wait_until([&] { return is_asked_for(*client.holders, 5, Method::Hello); });
  let_go.set_value();
  epoch.get();
  EXPECT_EQ(client.holders->stats().failovers, failovers);
}

// Says hello, that it is ready, and that it lives; from the first batch that it is asked for on, nothing.
void be_silent(rpc::RawListener& listener, const rpc::Key& key, std::atomic<bool>& asked) {
  rpc::RawPeer peer = listener.accept();
  peer.welcome({.job_uid = kJob, .role = rpc::Role::Server, .node = 1}, key);
  const auto hello = encode(Hello{.server = 1, .description = "papers"});
  for (const auto& body : {hello, std::vector<std::byte>()}) {
    const auto request = peer.receive_frame();
    peer.send({.type = rpc::FrameType::Reply, .call = request.call, .length = body.size()});
    peer.send(body);
  }
  std::promise<void> silent;
  std::thread beats([&, end = silent.get_future()] {
    while (end.wait_for(kPeerTimeout / 10) == std::future_status::timeout)
      peer.send({.type = rpc::FrameType::Heartbeat});
  });
  peer.receive_frame();
  silent.set_value();
  beats.join();
  asked = true;
  peer.wait_for_end();
}

TEST(ServedBatches, AreAskedOfAnotherHolderWhenAServerFallsSilent) {
  Servers servers(1);
  rpc::RawListener silent;
  std::atomic<bool> asked = false;
  std::thread silence([&] { be_silent(silent, servers.key, asked); });
  servers.directory->update(
      {servers[0].live(),
       {.server = 1, .restart = 0, .address = "127.0.0.1:" + std::to_string(silent.port())}}
  );
  const ClientEnds client(servers.key, servers.directory);
  must(client.holders->open());
  read_epochs_until(*client.batches(), asked);
  EXPECT_GE(client.holders->stats().failovers, 1);
  silence.join();

  // Nor does one matter that lives and makes no batch. Once that is known, the others are asked first.
  Servers some(2);
  std::promise<void> may_end;
  const auto end = may_end.get_future().share();
  std::atomic<int64_t> begun = 0;
  std::atomic<bool> is_asked = false;
  some.before = [&, end](int64_t server, const BatchRequest&) -> Status {
    if (server == 0) return {};
    ++begun;
    is_asked = true;
    end.wait();
    return {};
  };
  const ClientEnds hasty(
      some.key, some.directory, 1, std::chrono::minutes(1), client_identity(), kPeerTimeout
  );
  must(hasty.holders->open());
  const auto batches = hasty.batches();
  read_epochs_until(*batches, is_asked);
  // It is there again.
  wait_until([&] { return is_asked_for(*hasty.holders, 1, Method::Ready); });
  const int64_t begun_before = begun;
  const int64_t failovers = hasty.holders->stats().failovers;
  must(batches->start_epoch(0));
  for (int64_t i = 0; i < kBatches; ++i) expect_next(*batches, *world(), 0, i);
  EXPECT_EQ(begun, begun_before);
  EXPECT_EQ(hasty.holders->stats().failovers, failovers);
  may_end.set_value();
  // Once it has answered, where no other one is left, it has its turns again.
  const auto read_epoch = [](ServedBatches<MiniBatch>& of) {
    must(of.start_epoch(0));
    for (int64_t i = 0; i < kBatches; ++i) expect_next(of, *world(), 0, i);
  };
  some.list({1});
  read_epoch(*batches);
  some.list({0, 1});
  const int64_t before = some[0].service().stats().batches;
  while (some[0].service().stats().batches == before) read_epoch(*batches);
  const int64_t begun_alone = begun;
  read_epoch(*batches);
  EXPECT_GT(begun, begun_alone);

  // The only one is waited for, however long it takes.
  Servers alone(1);
  std::promise<void> may_answer;
  alone.before = [answer =
                      may_answer.get_future().share()](int64_t, const BatchRequest&) -> Status {
    answer.wait();
    return {};
  };
  const ClientEnds waiting(
      alone.key, alone.directory, 1, std::chrono::minutes(1), client_identity(), Duration(1)
  );
  must(waiting.holders->open());
  const auto late = waiting.batches();
  must(late->start_epoch(0));
  wait_until([&] { return alone[0].service().stats().under_way > 0; });
  const TestServer loading({.server = 1}, alone.key, nullptr);
  alone.directory->update({alone[0].live(), loading.live()});
  wait_until([&] { return is_asked_for(*waiting.holders, 1, Method::Hello); });
  may_answer.set_value();
  for (int64_t i = 0; i < kBatches; ++i) expect_next(*late, *world(), 0, i);
  EXPECT_EQ(waiting.holders->stats().failovers, 0);
}

TEST(ServedBatches, WaitForAReplacementWhileNobodyHoldsTheirPart) {
  Servers servers(2, 2);
  const ClientEnds client(servers.key, servers.directory, 2);
  must(client.holders->open());
  const auto batches = client.batches(1);
  must(batches->start_epoch(0));
  for (int64_t i = 0; i < 2; ++i) expect_next(*batches, *world(), 0, i);
  servers[1].kill();
  // At once where the rank waits, and seen by who asks whether it hangs.
  auto rest = std::async(std::launch::async, [&] {
    for (int64_t i = 2; i < kBatches; ++i) expect_next(*batches, *world(), 0, i);
  });
  wait_until([&] { return client.holders->stats().waiting; });
  EXPECT_GT(client.holders->stats().under_way, 0);
  servers.list({0});
  servers.add({.server = 1, .restart = 1, .partitions = 2});
  servers.list({0, 2});
  rest.get();
  EXPECT_FALSE(must(batches->next()));
  wait_until([&] { return !client.holders->stats().waiting; });
}

// Each of an epoch's batches ends the first two servers that are to make it, or batch 7 every one.
void lose_servers_by_batches(bool always) {
  struct Fate {
    int64_t server = 0;  // the one that is there
    bool struck = false;
    bool over = false;
    std::map<int64_t, int> strikes;
  };
  Guarded<Fate> fate;
  Servers servers(1);
  servers.before = [&](int64_t server, const BatchRequest& request) -> Status {
    auto now = fate.lock();
    const bool strikes = always ? request.index == 7 : ++now->strikes[request.index] <= 2;
    if (!strikes) return {};
    now->struck = now->struck || server == now->server;
    fate.notify_all();
    now.wait([&](const Fate& later) { return later.over || later.server > server; });
    return {};
  };
  const auto timeout = always ? std::chrono::seconds(1) : std::chrono::seconds(60);
  const ClientEnds client(servers.key, servers.directory, 1, timeout);
  must(client.holders->open());
  const auto batches = client.batches();
  must(batches->start_epoch(0));
  auto end = std::async(std::launch::async, [&]() -> std::optional<Error> {
    for (int64_t i = 0; i < (always ? 7 : kBatches); ++i) expect_next(*batches, *world(), 0, i);
    std::optional<Error> error;
    if (always) error = error_of(*batches);
    fate.lock()->over = true;
    fate.notify_all();
    return error;
  });
  while (true) {
    {
      auto now = fate.lock();
      now.wait([](const Fate& later) { return later.over || later.struck; });
      if (now->over) break;
      now->struck = false;
    }
    servers[0].kill();
    ++fate.lock()->server;
    fate.notify_all();
    servers.replace_last();
  }
  const auto error = end.get();
  if (!always) return;
  EXPECT_EQ(error->kind, ErrorKind::PeerLost);
  EXPECT_THAT(
      error->message,
      AllOf(
          HasSubstr("batch 7 of rank 0 in epoch 0: 50 training items from position 350: for 1 s "
                    "(runPolicy.serverTimeoutSeconds), each of "),
          HasSubstr(" was lost, the last of them server ")
      )
  );
  EXPECT_TRUE(client.holders->stats().gave_up);
}

TEST(ServedBatches, EndAfterTheServerTimeoutWithWhoIsMissingOrWithWhatEachServerWasLost) {
  Servers servers(2, 2);
  std::promise<void> killed;
  const auto is_killed = killed.get_future().share();
  servers.before = [is_killed](int64_t, const BatchRequest& request) -> Status {
    if (request.index > 0) is_killed.wait();
    return {};
  };
  const ClientEnds client(servers.key, servers.directory, 2, std::chrono::seconds(1));
  must(client.holders->open());
  const auto batches = client.batches(1);
  must(batches->start_epoch(0));
  expect_next(*batches, *world(), 0, 0);
  wait_until([&] { return client.holders->stats().under_way > 0; });
  servers[1].kill();
  killed.set_value();
  // Node 0 does not name it any more.
  servers.list({0});
  wait_until([&] { return client.holders->stats().under_way == 0; });
  EXPECT_FALSE(client.holders->stats().gave_up) << "nobody has needed what did not come";
  const Error lost = error_of(*batches);
  EXPECT_EQ(lost.kind, ErrorKind::PeerLost);
  EXPECT_THAT(
      lost.message,
      AllOf(
          HasSubstr("no server held part 1 for 1 s; " + servers[1].name() + ": "),
          ContainsRegex(" \\(lost [1-9][0-9]* s ago\\)"),
          Not(HasSubstr(servers[0].name()))
      )
  );
  EXPECT_FALSE(client.holders->stats().waiting);
  EXPECT_TRUE(client.holders->stats().gave_up);

  // One that has not registered is named by its numbers.
  const ClientEnds late(servers.key, servers.directory, 2, std::chrono::seconds(1));
  EXPECT_THAT(
      late.holders->open().error().message,
      HasSubstr("no server held part 1 for 1 s; none of servers 1, 3, ... has registered")
  );

  // Batches of which each ends two servers cost nothing but time, however many they are. One that ends
  // every server ends the run.
  lose_servers_by_batches(/*always=*/false);
  lose_servers_by_batches(/*always=*/true);
}

TEST(ServedBatches, HaveNoMoreBytesOnTheirWayThanTheyMay) {
  const int64_t bytes = pack(world()->make(request_of(0, 0))).bytes();
  for (const auto& [bound, expected] : {std::pair{bytes * 3 / 2, 1}, {bytes * 5 / 2, 2}}) {
    Servers servers(2);
    std::promise<void> may_end;
    const auto end = may_end.get_future().share();
    servers.before = [end](int64_t, const BatchRequest& request) -> Status {
      if (request.index > 0) end.wait();
      return {};
    };
    const ClientEnds client(servers.key, servers.directory);
    must(client.holders->open());
    const auto batches = client.batches(-1, bound);
    must(batches->start_epoch(0));
    // The first shows how large they are. When it is there, the next are asked for.
    expect_next(*batches, *world(), 0, 0);
    wait_until([&] { return client.holders->stats().under_way >= expected; });
    EXPECT_EQ(client.holders->stats().under_way, expected);
    may_end.set_value();
    for (int64_t i = 1; i < kBatches; ++i) expect_next(*batches, *world(), 0, i);
  }
}

TEST(ServedBatches, AreStoppedWhileTheyAreAskedForAndStartAnew) {
  Servers servers(1);
  std::promise<void> may_end;
  const auto end = may_end.get_future().share();
  servers.before = [end](int64_t, const BatchRequest& request) -> Status {
    if (request.epoch == 0) end.wait();
    return {};
  };
  const ClientEnds client(servers.key, servers.directory);
  must(client.holders->open());
  const auto batches = client.batches();
  must(batches->start_epoch(0));
  auto waiting = std::async(std::launch::async, [&] { return batches->next(); });
  wait_until([&] { return servers[0].service().stats().under_way > 0; });
  // Who waits for a server that is there may be blamed for it.
  wait_until([&] { return !client.holders->stats().waiting; });
  EXPECT_GT(client.holders->stats().under_way, 0);
  batches->stop();
  EXPECT_EQ(waiting.get().error().kind, ErrorKind::Cancelled);
  // What was asked for comes, and is none of the next epoch's.
  may_end.set_value();
  must(batches->start_epoch(1));
  for (int64_t i = 0; i < kBatches; ++i) expect_next(*batches, *world(), 1, i);
  EXPECT_FALSE(batches->start_epoch(1, kBatches + 1));
  // An answer that is another batch is none.
  class WrongMaker final : public BatchMaker<MiniBatch> {
   public:
    void make(const BatchRequest& request, const Executor& /*executor*/, Done done) override {
      done(world()->make(request_of(request.epoch, request.index + 1)));
    }
  };
  const TestServer wrong({.server = 5}, servers.key, std::make_shared<WrongMaker>());
  const auto one = std::make_shared<Directory>();
  one->update({wrong.live()});
  const ClientEnds misled(servers.key, one);
  must(misled.holders->open());
  const auto others = misled.batches();
  must(others->start_epoch(0));
  const Error error = error_of(*others);
  EXPECT_EQ(error.kind, ErrorKind::Data);
  EXPECT_THAT(error.message, HasSubstr(wrong.name() + ": the answer is no batch"));

  client.holders->close();
  must(batches->start_epoch(2));
  EXPECT_EQ(batches->next().error().kind, ErrorKind::Cancelled);
}

}  // namespace
}  // namespace gnn::servers
