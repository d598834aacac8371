#include "worker/agent/rank_group.h"

#include "common/contract.h"

#include <gtest/gtest.h>

#include <csignal>

namespace gnn::agent {
namespace {

using std::chrono::seconds;

constexpr int exited(int code) {
  return code << 8;
}
constexpr int signaled(int signal) {
  return signal;
}

TEST(JudgeExit, DoneAndPreemptedAfterAStopAreNoFailures) {
  EXPECT_FALSE(judge_exit({.status = exited(0)}));
  EXPECT_FALSE(judge_exit({.status = exited(contract::kExitPreempted), .stopping = true}));
}

TEST(JudgeExit, PreemptedWithoutAStopIsAFailure) {
  EXPECT_TRUE(judge_exit({.status = exited(contract::kExitPreempted)}));
}

TEST(JudgeExit, MapsCodesOutsideTheContractToOther) {
  EXPECT_EQ(judge_exit({.status = exited(64)})->exit_code, 64);
  EXPECT_EQ(judge_exit({.status = exited(65)})->exit_code, 65);
  EXPECT_EQ(judge_exit({.status = exited(1)})->exit_code, contract::kExitOther);
  EXPECT_EQ(judge_exit({.status = exited(139)})->exit_code, contract::kExitOther);
}

TEST(JudgeExit, ALostPeerIsAFollowOnFailure) {
  EXPECT_TRUE(judge_exit({.status = exited(75)})->follow_on);
  EXPECT_FALSE(judge_exit({.status = exited(75), .no_server = true})->follow_on);
  EXPECT_FALSE(judge_exit({.status = exited(70)})->follow_on);
}

TEST(JudgeExit, HasTheRanksOwnMessage) {
  RankExit rank_exit{.rank = 3, .status = exited(65)};
  rank_exit.said = RankFailure{.kind = "Data", .message = "edge 7 leaves the graph"};
  const auto failure = judge_exit(rank_exit);
  EXPECT_EQ(failure->message, "edge 7 leaves the graph");
  EXPECT_EQ(failure->reason, "Data");
}

TEST(JudgeExit, DistinguishesOutOfMemoryFromOtherKills) {
  RankExit rank_exit{.rank = 1, .status = signaled(SIGKILL)};
  EXPECT_EQ(judge_exit(rank_exit)->exit_code, contract::kExitOther);
  EXPECT_EQ(judge_exit(rank_exit)->signal, SIGKILL);
  rank_exit.oom_kills = 1;
  rank_exit.memory = MemoryState{.oom_kills = 1, .peak_bytes = 64 << 20, .limit_bytes = 65 << 20};
  const auto failure = judge_exit(rank_exit);
  EXPECT_EQ(failure->exit_code, contract::kExitOutOfMemory);
  EXPECT_EQ(failure->reason, "OutOfMemory");
  EXPECT_NE(failure->message.find("peak 64 MiB, limit 65 MiB"), std::string::npos)
      << failure->message;
}

class JudgeSilence : public ::testing::Test {
 protected:
  std::optional<Silence> after(seconds heard, seconds progress) const {
    RankSigns signs = signs_;
    signs.heard_at = now_ - heard;
    signs.progress_at = now_ - progress;
    return judge_silence(signs, timeouts_, now_);
  }
  const RankTimeouts timeouts_{
      .heartbeat = seconds(30),
      .setup = seconds(600),
      .step = seconds(180),
      .evaluation = seconds(600),
      .checkpoint = seconds(420),
  };
  RankSigns signs_{.spoke = true};
  MonotonicPoint now_{seconds(100'000)};
};

TEST_F(JudgeSilence, IsNotForARankThatReportsProgress) {
  EXPECT_FALSE(after(seconds(1), seconds(100)));
}

TEST_F(JudgeSilence, IsForARankWithoutHeartbeat) {
  const auto silence = after(seconds(31), seconds(31));
  ASSERT_TRUE(silence);
  EXPECT_FALSE(silence->follow_on);
  EXPECT_NE(silence->message.find("no heartbeat for 31 s"), std::string::npos) << silence->message;
}

TEST_F(JudgeSilence, BeforeTheFirstMessageOnlyTheSetupTimeoutApplies) {
  signs_.spoke = false;
  EXPECT_FALSE(after(seconds(599), seconds(599)));
  EXPECT_TRUE(after(seconds(601), seconds(601)));
}

TEST_F(JudgeSilence, EachStageHasItsOwnTimeout) {
  const auto limit_of = [&](progress::Phase phase) {
    signs_.report.phase = phase;
    for (int64_t s = 1;; ++s)
      if (after(seconds(0), seconds(s))) return s;
  };
  EXPECT_EQ(limit_of(progress::Phase::Setup), 601);
  EXPECT_EQ(limit_of(progress::Phase::Train), 181);
  EXPECT_EQ(limit_of(progress::Phase::Validate), 601);
  EXPECT_EQ(limit_of(progress::Phase::Checkpoint), 421);
}

TEST_F(JudgeSilence, IsAFollowOnForARankThatWaitsForOthers) {
  signs_.report.phase = progress::Phase::Train;
  EXPECT_FALSE(after(seconds(0), seconds(200))->follow_on);
  signs_.report.in_collective = true;
  EXPECT_TRUE(after(seconds(0), seconds(200))->follow_on);
}

TEST_F(JudgeSilence, IsNotForARankThatWaitsWhileAnotherProgresses) {
  signs_.report.phase = progress::Phase::Train;
  signs_.report.in_collective = true;
  signs_.heard_at = now_;
  signs_.progress_at = now_ - seconds(1'000);
  wait_with_round(signs_, now_ - seconds(100));
  EXPECT_FALSE(judge_silence(signs_, timeouts_, now_));
  signs_.heard_at = now_ + seconds(100);
  EXPECT_TRUE(judge_silence(signs_, timeouts_, now_ + seconds(100)).value().follow_on)
      << "no rank progresses";
}

TEST_F(JudgeSilence, StartsAnewWhenARankHasWaitedLong) {
  signs_.report.phase = progress::Phase::Train;
  signs_.report.in_collective = true;
  signs_.heard_at = now_;
  signs_.progress_at = now_ - seconds(1'000);
  wait_with_round(signs_, now_ - seconds(1));
  signs_.report.in_collective = false;
  EXPECT_FALSE(judge_silence(signs_, timeouts_, now_));
}

TEST_F(JudgeSilence, IsForARankOutsideOfCollectivesWhateverOthersDo) {
  signs_.report.phase = progress::Phase::Train;
  signs_.heard_at = now_;
  signs_.progress_at = now_ - seconds(200);
  wait_with_round(signs_, now_);
  const auto silence = judge_silence(signs_, timeouts_, now_);
  ASSERT_TRUE(silence);
  EXPECT_FALSE(silence->follow_on);
}

}  // namespace
}  // namespace gnn::agent
