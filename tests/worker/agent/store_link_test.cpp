#include "worker/agent/store_link.h"

#include "tests/support/fake_clock.h"
#include "tests/support/in_process_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace gnn::agent {
namespace {

TEST(StoreLink, WaitsBetweenAttemptsToJoinEvenIfAReportIsPending) {
  gnn::testing::FakeClock clock;
  AgentOptions options;
  options.node = 1;
  options.nodes = 2;
  std::atomic<int> tries = 0;
  {
    StoreLink link(
        options,
        [&](std::chrono::milliseconds) -> Result<std::shared_ptr<rendezvous::Store>> {
          ++tries;
          tries.notify_all();
          return fail(ErrorKind::Network, "nobody listens");
        },
        clock
    );
    link.report({.node = 1, .beat = 1});
    clock.await_waiters(1);
    EXPECT_EQ(tries, 1);
    clock.advance(std::chrono::milliseconds(100));
    tries.wait(1);
    EXPECT_EQ(tries, 2);
  }
}

TEST(StoreLink, TellsEveryAgentThatSomeRankProgresses) {
  gnn::testing::FakeClock clock;
  const auto store = std::make_shared<gnn::testing::InProcessStore>();
  const StoreConnector connect = [&](std::chrono::milliseconds) { return store; };
  AgentOptions first;
  first.job_uid = "uid";
  first.nodes = 2;
  AgentOptions second = first;
  second.node = 1;
  StoreLink link(first, connect, clock);
  StoreLink other(second, connect, clock);
  for (const int64_t marks : {3, 4, 5}) {
    link.report({.node = 0, .marks = marks});
    other.report({.node = 1, .marks = 10});
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    // Node 0 writes them before it shows them to its own agent.
    const auto told = [&] {
      return link.view().marks == marks + 10 && other.view().marks == marks + 10;
    };
    while (!told() && std::chrono::steady_clock::now() < limit) {
      clock.await_waiters(2);
      clock.advance(std::chrono::milliseconds(100));
    }
    EXPECT_EQ(link.view().marks, marks + 10);
    EXPECT_EQ(other.view().marks, marks + 10);
  }
}

TEST(StoreLink, NamesTheServersThatTakePartWhateverElseIsInTheirKeys) {
  gnn::testing::FakeClock clock;
  const auto store = std::make_shared<gnn::testing::InProcessStore>();
  const LiveServer server{.server = 1, .restart = 2, .address = "10.0.0.7:29600"};
  ASSERT_TRUE(store->set("uid/servers", "9999999999999"));
  ASSERT_TRUE(store->set("uid/servers/0", "nonsense"));
  ASSERT_TRUE(store->set("uid/servers/1", encode(ServerReport{.server = server})));
  // One that says that it is another.
  ASSERT_TRUE(store->set("uid/servers/2", encode(ServerReport{.server = server})));
  // Beyond the most that there may be.
  LiveServer beyond = server;
  beyond.server = kMostServers;
  ASSERT_TRUE(store->set(
      "uid/servers/" + std::to_string(kMostServers), encode(ServerReport{.server = beyond})
  ));
  AgentOptions options;
  options.job_uid = "uid";
  StoreLink link(options, [&](std::chrono::milliseconds) { return store; }, clock);
  link.report({});
  while (link.view().posted == 0) std::this_thread::yield();
  EXPECT_EQ(link.view().directive.value().servers, std::vector{server});
  EXPECT_EQ(link.view().staying_servers, 1);
}

// Counts the reports that agents write.
class ReportedStore final : public rendezvous::Store {
 public:
  Status set(const std::string& key, const std::string& value) override {
    GNN_RETURN_IF_ERROR(store_.set(key, value));
    if (const auto report = decode_node_report(value)) {
      beat_ = report->beat;
      ++writes_;
      writes_.notify_all();
    }
    return {};
  }
  Result<std::vector<std::optional<std::string>>> get(const std::vector<std::string>& keys
  ) override {
    return store_.get(keys);
  }
  Result<int64_t> add(const std::string& key, int64_t by) override { return store_.add(key, by); }

  [[nodiscard]] int64_t beat() const { return beat_; }
  [[nodiscard]] int64_t writes() const { return writes_; }
  void await_more_than(int64_t writes) const { writes_.wait(writes); }

 private:
  gnn::testing::InProcessStore store_;
  std::atomic<int64_t> beat_ = -1;
  std::atomic<int64_t> writes_ = 0;
};

// The link of a job's only node. The test is the agent that turns, or does not.
class OnlyNodesLink : public ::testing::Test {
 protected:
  OnlyNodesLink() {
    options_.job_uid = "uid";
    link_.emplace(
        options_,
        [this](std::chrono::milliseconds) -> Result<std::shared_ptr<rendezvous::Store>> {
          return store_;
        },
        clock_
    );
    link_->report({});
    while (link_->view().posted == 0) std::this_thread::yield();
    clock_.await_waiters(1);
  }

  // Lets the time pass in one step, until the link waits for the next one.
  void jump(Duration duration) {
    const int64_t writes = store_->writes();
    clock_.advance(duration);
    store_->await_more_than(writes);
    clock_.await_waiters(1);
  }
  // The same in the link's own steps.
  void pass(std::chrono::milliseconds duration) {
    for (; duration.count() > 0; duration -= kStep) jump(kStep);
  }
  [[nodiscard]] int64_t beat() const { return store_->beat(); }
  DirectiveKind directive() { return link_->view().directive.value().kind; }

  static constexpr std::chrono::milliseconds kStep{300};
  gnn::testing::FakeClock clock_;
  AgentOptions options_;
  std::shared_ptr<ReportedStore> store_ = std::make_shared<ReportedStore>();
  std::optional<StoreLink> link_;
};

TEST_F(OnlyNodesLink, BeatsWhileItsAgentTurnsWithoutNews) {
  for (int i = 0; i < 20; ++i) {
    const int64_t before = beat();
    link_->report({});
    pass(kStep);
    EXPECT_GT(beat(), before);
  }
}

TEST_F(OnlyNodesLink, StopsBeatingWhenItsAgentHangs) {
  pass(std::chrono::seconds(4));
  const int64_t last = beat();
  pass(std::chrono::seconds(3));
  EXPECT_EQ(beat(), last);
  link_->report({});
  pass(kStep);
  EXPECT_GT(beat(), last) << "it goes on";
}

TEST_F(OnlyNodesLink, CountsAnAgentThatHangsAsLost) {
  pass(std::chrono::seconds(10));
  EXPECT_EQ(directive(), DirectiveKind::Run);
  pass(std::chrono::seconds(5));
  EXPECT_EQ(directive(), DirectiveKind::Leave);
}

TEST_F(OnlyNodesLink, LosesNobodyWhenItsMachineWasFrozen) {
  for (int i = 0; i < 5; ++i) {
    jump(std::chrono::hours(1));
    EXPECT_EQ(directive(), DirectiveKind::Run) << "the agent gets its turn after the link's";
    link_->report({});
    pass(kStep);
  }
  EXPECT_EQ(directive(), DirectiveKind::Run);
}

// The links of a job of two nodes whose node 1 has several pods, one after the other. The test is
// all of their agents.
class ReplacedPods : public ::testing::Test {
 protected:
  std::unique_ptr<StoreLink> start(int64_t node, int64_t restart) {
    AgentOptions& options = options_.emplace_back();
    options.job_uid = "uid";
    options.nodes = 2;
    options.rounds_left = 3;
    options.node = node;
    options.node_restart = restart;
    auto link = std::make_unique<StoreLink>(
        options,
        [this](std::chrono::milliseconds) -> Result<std::shared_ptr<rendezvous::Store>> {
          return store_;
        },
        clock_
    );
    return link;
  }

  // Lets links exchange and agents turn, as long as their nodes are at the barrier that they are
  // told, until `done`.
  template <class Done>
  bool play(const std::vector<StoreLink*>& links, Done done) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!done()) {
      if (std::chrono::steady_clock::now() > limit) return false;
      for (StoreLink* link : links) {
        const auto view = link->view();
        const int64_t round = view.directive ? view.directive->round : 0;
        link->report({.node = link == links[0] ? 0 : 1, .round = round});
      }
      clock_.advance(std::chrono::milliseconds(100));
      std::this_thread::yield();
    }
    return true;
  }
  static bool runs(StoreLink& link, int64_t round) {
    const auto directive = link.view().directive;
    return directive && directive->kind == DirectiveKind::Run && directive->round == round;
  }
  [[nodiscard]] std::string value(const std::string& key) const {
    return store_->get({key}).value().at(0).value_or("");
  }

  gnn::testing::FakeClock clock_;
  std::shared_ptr<gnn::testing::InProcessStore> store_ =
      std::make_shared<gnn::testing::InProcessStore>();
  std::deque<AgentOptions> options_;
};

TEST_F(ReplacedPods, TheNewPodFollowsFromTheNextRoundAndTheOldOneLeaves) {
  const auto first = start(0, 0);
  const auto old = start(1, 0);
  ASSERT_TRUE(play({first.get(), old.get()}, [&] { return runs(*old, 0); }));
  const auto fresh = start(1, 1);
  int64_t lowest_round = 1;
  ASSERT_TRUE(play({first.get(), fresh.get()}, [&] {
    const auto directive = fresh->view().directive;
    if (directive) lowest_round = std::min(lowest_round, directive->round);
    return runs(*first, 1) && runs(*fresh, 1);
  }));
  EXPECT_EQ(lowest_round, 1) << "round 0 was not for the new pod";
  ASSERT_TRUE(play({first.get(), fresh.get()}, [&] { return old->view().lost.has_value(); }));
  EXPECT_EQ(old->view().lost->kind, ErrorKind::Conflict);
  EXPECT_TRUE(runs(*first, 1)) << "the old pod disturbs nobody";
}

TEST_F(ReplacedPods, AnOldPodThatComesBackWritesNothing) {
  const auto first = start(0, 0);
  const auto fresh = start(1, 2);
  ASSERT_TRUE(play({first.get(), fresh.get()}, [&] { return runs(*fresh, 2); }));
  const std::string asked = value("uid/0/admissions");
  const auto old = start(1, 1);
  ASSERT_TRUE(play({first.get(), fresh.get()}, [&] { return old->view().lost.has_value(); }));
  EXPECT_NE(old->view().lost->message.find("refused"), std::string::npos)
      << old->view().lost->message;
  EXPECT_EQ(value("uid/0/node/1/1"), "");
  EXPECT_EQ(value("uid/0/admissions"), asked);
  ASSERT_TRUE(play({first.get(), fresh.get()}, [&] { return first->view().refused == 1; }));
}

TEST_F(ReplacedPods, NodeZeroSaysForWhomItWaits) {
  const auto first = start(0, 0);
  const auto old = start(1, 0);
  ASSERT_TRUE(play({first.get(), old.get()}, [&] { return runs(*old, 0); }));
  // Only node 0's agent turns from here on.
  ASSERT_TRUE(play({first.get()}, [&] { return first->view().awaited == 1; }));
}

}  // namespace
}  // namespace gnn::agent
