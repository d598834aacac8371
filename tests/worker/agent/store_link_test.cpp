#include "worker/agent/store_link.h"

#include "tests/support/fake_clock.h"
#include "tests/support/in_process_store.h"

#include <gtest/gtest.h>

#include <atomic>

namespace gnn::agent {
namespace {

TEST(StoreLink, WaitsBetweenAttemptsToJoinEvenIfAReportIsPending) {
  testing::FakeClock clock;
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

// Keeps the latest report that an agent has written, and counts them.
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

TEST(StoreLink, BeatsOnlyWhileItsAgentHandsOverReports) {
  testing::FakeClock clock;
  const auto store = std::make_shared<ReportedStore>();
  AgentOptions options;
  options.job_uid = "uid";
  options.node = 1;
  options.nodes = 2;
  ASSERT_TRUE(rendezvous::announce_identity(*store, options.incarnation(0)));
  StoreLink link(
      options,
      [&](std::chrono::milliseconds) -> Result<std::shared_ptr<rendezvous::Store>> {
        return store;
      },
      clock
  );
  // The beat after `seconds`, with an exchange in each of them.
  const auto beat_after = [&](int64_t seconds) {
    for (int64_t i = 0; i < seconds; ++i) {
      const int64_t writes = store->writes();
      clock.await_waiters(1);
      clock.advance(std::chrono::seconds(1));
      store->await_more_than(writes);
    }
    return store->beat();
  };
  link.report({.node = 1});
  const int64_t first = beat_after(1);
  link.report({.node = 1});
  EXPECT_GT(beat_after(1), first) << "the report is the same, but the agent turns";
  const int64_t last = beat_after(3);
  EXPECT_EQ(beat_after(3), last) << "its link lives, but the agent does not turn";
  link.report({.node = 1});
  EXPECT_GT(beat_after(1), last);
}

}  // namespace
}  // namespace gnn::agent
