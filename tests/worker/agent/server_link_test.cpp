#include "worker/agent/server_link.h"

#include "tests/support/fake_clock.h"
#include "tests/support/in_process_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace gnn::agent {
namespace {

// Counts what is written.
class WrittenStore final : public rendezvous::Store {
 public:
  Status set(const std::string& key, const std::string& value) override {
    GNN_RETURN_IF_ERROR(store_.set(key, value));
    ++writes_;
    writes_.notify_all();
    return {};
  }
  Result<std::vector<std::optional<std::string>>> get(const std::vector<std::string>& keys
  ) override {
    return store_.get(keys);
  }
  Result<int64_t> add(const std::string& key, int64_t by) override { return store_.add(key, by); }

  void fail_from_now_on() { store_.fail_from_now_on(); }
  [[nodiscard]] int64_t writes() const { return writes_; }
  void await_more_than(int64_t writes) const { writes_.wait(writes); }

 private:
  gnn::testing::InProcessStore store_;
  std::atomic<int64_t> writes_ = 0;
};

constexpr auto kInterval = std::chrono::milliseconds(300);

// Server 1 of a job, its pod 2. The test is the store's host and the server's main thread.
class ServerLinkTest : public ::testing::Test {
 protected:
  ServerLinkTest() {
    options_.pod.job_uid = "uid";
    options_.pod.node = 1;
    options_.restart = 2;
  }
  ~ServerLinkTest() override { link_.reset(); }

  void start() {
    link_.emplace(
        options_,
        ServerDoors{
            .connect = [this](std::chrono::milliseconds
                       ) -> Result<std::shared_ptr<rendezvous::Store>> {
              const auto store = *host_.lock();
              if (!store) return fail(ErrorKind::PeerLost, "nobody listens");
              return std::shared_ptr<rendezvous::Store>(store);
            },
            .own_address = [] { return std::string("10.0.0.7"); },
            .on_servers = [this](const std::vector<LiveServer>& servers
                          ) { *heard_.lock() = servers; }
        },
        clock_
    );
  }

  // A store of the job's `attempt`, which takes the place of any before it.
  std::shared_ptr<WrittenStore> host(int64_t attempt, const std::string& job_uid = "uid") {
    auto store = std::make_shared<WrittenStore>();
    EXPECT_TRUE(rendezvous::announce_identity(*store, {.job_uid = job_uid, .attempt = attempt}));
    *host_.lock() = store;
    return store;
  }

  // Lets the server turn, and time pass, until `ready`.
  template <class Ready>
  bool turn_until(Ready ready) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < limit) {
      link_->report(state_);
      if (ready()) return true;
      clock_.await_waiters(1);
      clock_.advance(kInterval);
    }
    return false;
  }

  static std::optional<ServerReport> report_in(WrittenStore& store) {
    const auto values = store.get({"uid/servers/1"});
    if (!values || !values->at(0)) return std::nullopt;
    return decode_server_report(*values->at(0), 1).value();
  }

  gnn::testing::FakeClock clock_;
  ServerOptions options_;
  ServerLink::State state_{.port = 29600};
  Guarded<std::shared_ptr<WrittenStore>> host_;
  Guarded<std::vector<LiveServer>> heard_;
  std::optional<ServerLink> link_;
};

TEST_F(ServerLinkTest, SaysThatItServesInTheStoreOfEachAttemptAndHearsTheEndOfTheLast) {
  start();
  ASSERT_TRUE(turn_until([] { return true; }));
  host(0, "another job");
  EXPECT_FALSE(link_->view().joined);
  state_.port = 0;  // it does not listen yet
  const auto first = host(3);
  ASSERT_TRUE(turn_until([&] { return link_->view().joined; }));
  EXPECT_FALSE(report_in(*first));
  state_.port = 29600;
  ASSERT_TRUE(turn_until([&] { return report_in(*first).has_value(); }));
  const LiveServer mine{.server = 1, .restart = 2, .address = "10.0.0.7:29600"};
  EXPECT_EQ(report_in(*first)->server, mine);
  EXPECT_EQ(first->get({"uid/servers"}).value().at(0), "2");
  const int64_t beat = report_in(*first)->beat;
  ASSERT_TRUE(turn_until([&] { return report_in(*first)->beat > beat + 1; }));

  // A server with a higher number may come first.
  const auto second = std::make_shared<WrittenStore>();
  ASSERT_TRUE(second->set("uid/servers", "5"));
  ASSERT_TRUE(rendezvous::announce_identity(*second, {.job_uid = "uid", .attempt = 4}));
  *host_.lock() = second;
  first->fail_from_now_on();
  ASSERT_TRUE(turn_until([&] { return report_in(*second).has_value(); }));
  EXPECT_EQ(second->get({"uid/servers"}).value().at(0), "5");
  Directive directive{.kind = DirectiveKind::Run, .servers = {mine}};
  ASSERT_TRUE(second->set("uid/4/directive", encode(directive)));
  ASSERT_TRUE(turn_until([&] { return *heard_.lock() == std::vector{mine}; }));
  directive.kind = DirectiveKind::Leave;
  directive.exit_code = contract::kExitOther;
  ASSERT_TRUE(second->set("uid/4/directive", encode(directive)));
  const int64_t later = report_in(*second)->beat;
  ASSERT_TRUE(turn_until([&] { return report_in(*second)->beat > later + 2; }));
  EXPECT_FALSE(link_->view().done) << "an attempt that failed is not the end of the job";
  directive.exit_code = contract::kExitDone;
  ASSERT_TRUE(second->set("uid/4/directive", encode(directive)));
  ASSERT_TRUE(turn_until([&] { return link_->view().done; }));
  state_.leaving = true;
  ASSERT_TRUE(turn_until([&] { return report_in(*second)->leaving; }));
}

TEST_F(ServerLinkTest, EndsWithoutAWordWhenAnotherPodTookItsPlaceAndStandsStillWithItsMainThread) {
  start();
  const auto store = host(0);
  ASSERT_TRUE(turn_until([&] { return report_in(*store).has_value(); }));
  // Nobody calls report() any more.
  const auto pass_four_seconds = [&] {
    for (int i = 0; i < 14; ++i) {
      const int64_t writes = store->writes();
      clock_.await_waiters(1);
      clock_.advance(kInterval);
      store->await_more_than(writes);
    }
    return report_in(*store)->beat;
  };
  const int64_t beat = pass_four_seconds();
  EXPECT_EQ(pass_four_seconds(), beat);

  ServerReport newer = *report_in(*store);
  newer.server.restart = 1;  // an older pod that came back
  ASSERT_TRUE(store->set("uid/servers/1", encode(newer)));
  ASSERT_TRUE(turn_until([&] { return report_in(*store)->server.restart == 2; }));
  newer.server.restart = 3;
  while (!link_->view().replaced) {
    // Again and again, as pods do: the older one may write after it has looked.
    ASSERT_TRUE(store->set("uid/servers/1", encode(newer)));
    link_->report(state_);
    clock_.advance(kInterval);
    std::this_thread::yield();
  }
  EXPECT_EQ(report_in(*store)->server.restart, 3);
  EXPECT_NE(link_->view().replaced->message.find("pod 3 of server 1"), std::string::npos);
}

}  // namespace
}  // namespace gnn::agent
