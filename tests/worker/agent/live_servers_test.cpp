#include "worker/agent/live_servers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <vector>

namespace gnn::agent {
namespace {

using std::chrono::seconds;

class LiveServersTest : public ::testing::Test {
 protected:
  // What server 1 wrote last, after `later`.
  const std::vector<LiveServer>& hear(
      int64_t restart, int64_t beat, bool leaving = false, Duration later = seconds(1)
  ) {
    now_ += later;
    return servers_.update(
        {std::nullopt, ServerReport{.server = pod(restart), .beat = beat, .leaving = leaving}}, now_
    );
  }
  static LiveServer pod(int64_t restart) {
    return {.server = 1, .restart = restart, .address = "10.0.0.7:29600"};
  }

  MonotonicPoint now_{};
  LiveServers servers_{seconds(10)};
};

TEST_F(LiveServersTest, TheLatestPodOfAServerTakesPartWhileItBeatsAndStays) {
  EXPECT_EQ(hear(0, 1), std::vector{pod(0)});
  EXPECT_EQ(hear(0, 1, false, seconds(10)), std::vector{pod(0)});
  EXPECT_TRUE(hear(0, 1).empty());
  EXPECT_EQ(hear(0, 2), std::vector{pod(0)});
  EXPECT_TRUE(hear(0, 3, true).empty());
  EXPECT_EQ(hear(0, 7), std::vector{pod(0)});

  EXPECT_EQ(hear(1, 7, false, seconds(11)), std::vector{pod(1)}) << "it counts from the start";
  EXPECT_EQ(hear(0, 8), std::vector{pod(1)});
  EXPECT_EQ(hear(0, 9, true), std::vector{pod(1)});
  EXPECT_TRUE(hear(0, 10, false, seconds(10)).empty()) << "the beats of an old pod are not its";
}

}  // namespace
}  // namespace gnn::agent
