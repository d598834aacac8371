#include "worker/tasks/node_check.h"

#include "tests/worker/comm/in_process_ranks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace gnn::tasks {
namespace {

using comm::Communicator;
using graph::Share;

// The time of a rank's thread.
thread_local std::chrono::steady_clock::time_point now_of_rank;

class CountingBar final : public ProgressBar {
 public:
  void begin(std::string_view, int64_t, std::string_view) override { ++calls; }
  void advance_to(int64_t, std::string_view) override { ++calls; }
  void end() override { ++calls; }
  void say(std::string_view) override { ++calls; }

  int64_t calls = 0;
};

NodeCheck check_of(Communicator& node, ProgressBar& progress, const std::string& checked = "") {
  return {.node = node, .progress = progress, .checked_version = checked, .clock = [] {
            return now_of_rank;
          }};
}

TEST(CheckOnNode, GivesEachRankAShare) {
  comm::run_ranks(3, [](const std::shared_ptr<Communicator>& node) {
    SilentProgressBar silent;
    std::vector<Share> shares;
    const Status status =
        check_on_node(check_of(*node, silent), "v", [&](Share share, ProgressBar&) {
          shares.push_back(share);
          return Status();
        });
    EXPECT_TRUE(status);
    ASSERT_EQ(shares.size(), 1U);
    EXPECT_EQ(shares[0].index, node->rank());
    EXPECT_EQ(shares[0].count, 3);
  });
}

TEST(CheckOnNode, GivesAllRanksTheSameError) {
  comm::run_ranks(3, [](const std::shared_ptr<Communicator>& node) {
    SilentProgressBar silent;
    const Status status =
        check_on_node(check_of(*node, silent), "v", [](Share share, ProgressBar&) -> Status {
          if (share.index == 0) return {};
          return fail(ErrorKind::Data, "share " + std::to_string(share.index) + " is wrong");
        });
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().kind, ErrorKind::Data);
    EXPECT_EQ(status.error().message, "share 1 is wrong");
  });
}

TEST(CheckOnNode, ChecksNothingOfTheVersionThatWasFoundRight) {
  comm::run_ranks(2, [](const std::shared_ptr<Communicator>& node) {
    SilentProgressBar silent;
    const auto refuse = [](Share, ProgressBar&) { return fail(ErrorKind::Data, "checked"); };
    EXPECT_TRUE(check_on_node(check_of(*node, silent, "v"), "v", refuse));
    EXPECT_FALSE(check_on_node(check_of(*node, silent, "v"), "w", refuse));
    const std::string known_to_one = node->rank() == 0 ? "v" : "";
    EXPECT_FALSE(check_on_node(check_of(*node, silent, known_to_one), "v", refuse));
  });
}

TEST(CheckOnNode, ARankThatMappedAnotherVersionChecksAllOfIt) {
  comm::run_ranks(2, [](const std::shared_ptr<Communicator>& node) {
    SilentProgressBar silent;
    const std::string version = node->rank() == 0 ? "v" : "w";
    int64_t shares = 0;
    const Status status =
        check_on_node(check_of(*node, silent, "v"), version, [&](Share share, ProgressBar&) {
          shares = share.count;
          return Status();
        });
    EXPECT_TRUE(status);
    EXPECT_EQ(shares, 1);
  });
}

TEST(CheckOnNode, WaitingRanksMakeProgressAsLongAsTheOthersDo) {
  comm::run_ranks(2, [](const std::shared_ptr<Communicator>& node) {
    constexpr int64_t kSeconds = 20;
    CountingBar bar;
    const Status status =
        check_on_node(check_of(*node, bar), "v", [&](Share share, ProgressBar& progress) {
          for (int64_t second = 0; share.index == 0 && second < kSeconds; ++second) {
            now_of_rank += std::chrono::seconds(1);
            progress.advance_to(second);
          }
          return Status();
        });
    EXPECT_TRUE(status);
    EXPECT_GE(bar.calls, kSeconds);
  });
}

TEST(CheckOnNode, LosesARankThatDiesInItsCheck) {
  comm::run_ranks(3, [](std::shared_ptr<Communicator> node) {
    SilentProgressBar silent;
    const auto check = [](Share share, ProgressBar&) -> Status {
      if (share.index == 1) throw std::runtime_error("died");
      return {};
    };
    if (node->rank() == 1) {
      EXPECT_THROW(
          static_cast<void>(check_on_node(check_of(*node, silent), "v", check)), std::runtime_error
      );
      return;
    }
    const Status status = check_on_node(check_of(*node, silent), "v", check);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().kind, ErrorKind::PeerLost);
  });
}

}  // namespace
}  // namespace gnn::tasks
