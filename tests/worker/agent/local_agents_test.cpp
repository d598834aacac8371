#include "worker/agent/local_agents.h"

#include "common/contract.h"
#include "tests/support/in_process_store.h"
#include "worker/agent/limits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <optional>
#include <pty.h>
#include <string>
#include <sys/wait.h>
#include <termios.h>
#include <thread>
#include <unistd.h>

namespace gnn::agent {
namespace {

TEST(RunAgentsLocally, RejectsAWrongTimeOutBeforeAnyAgentStarts) {
  const LocalJob job{.environment = {{"GNN_PEER_TIMEOUT", "abc"}}, .rank_command = {"rank"}};
  const ConnectorFactory never = [](const AgentOptions&, int) -> StoreConnector {
    ADD_FAILURE() << "no agent starts";
    return {};
  };
  EXPECT_EQ(run_agents_locally(job, never), contract::kExitConfiguration);
}

// A job of one node with fake ranks, whose output goes to a pipe or a terminal that the test reads,
// or does not.
class LocalJobOutput : public ::testing::Test {
 protected:
  void start(const char* words) {
    ::setenv("FAKE_RANK", words, 1);
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    reader_ = UniqueFd(ends[0]);
    const UniqueFd output(ends[1]);
    run_job(output.get());
  }

  // As if somebody had pressed Ctrl-S.
  void start_on_stopped_terminal(const char* words) {
    ::setenv("FAKE_RANK", words, 1);
    int reader = -1;
    int terminal = -1;
    ASSERT_EQ(::openpty(&reader, &terminal, nullptr, nullptr, nullptr), 0);
    reader_ = UniqueFd(reader);
    const UniqueFd output(terminal);
    ASSERT_EQ(::tcflow(terminal, TCOOFF), 0);
    run_job(terminal);
  }

  void run_job(int output) {
    job_ = ::fork();
    if (job_ != 0) return;
    reader_.reset();
    ::dup2(output, STDOUT_FILENO);
    if (::isatty(output) != 0) ::dup2(output, STDERR_FILENO);
    const LocalJob job{
        .processes_per_node = ranks_,
        // A rank that writes into an output that is full shows no progress.
        .environment = {{"GNN_SETUP_TIMEOUT", "10"}, {"GNN_STEP_TIMEOUT", "10"}},
        .rank_command = {std::getenv("GNN_FAKE_RANK")},
        .servers = servers_,
        .server_command = {"/bin/true"}
    };
    std::_Exit(run_agents_locally(job, [](const AgentOptions&, int) -> StoreConnector {
      return [](std::chrono::milliseconds) {
        return std::make_shared<gnn::testing::InProcessStore>();
      };
    }));
  }

  // The job's exit code; nothing if it still runs after a while, and is killed.
  std::optional<int> finish() const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    int status = 0;
    while (::waitpid(job_, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > deadline) {
        ::kill(job_, SIGKILL);
        ::waitpid(job_, &status, 0);
        return std::nullopt;
      }
      std::this_thread::yield();
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  int64_t ranks_ = 2;
  int64_t servers_ = 0;
  UniqueFd reader_;
  pid_t job_ = -1;
};

TEST_F(LocalJobOutput, AReaderThatStallsDoesNotEndTheJob) {
  // Servers take none of a rank's threads, whose number may change bits.
  ranks_ = 1;
  servers_ = 3;
  start(("cpus" + std::to_string(usable_cpus()) + " train fill train final").c_str());
  EXPECT_EQ(finish(), contract::kExitDone);
}

TEST_F(LocalJobOutput, ATerminalThatIsStoppedDoesNotEndOrHoldUpTheJob) {
  start_on_stopped_terminal("train fill train final");
  EXPECT_EQ(finish(), contract::kExitDone);
}

TEST_F(LocalJobOutput, AReaderThatKeepsUpGetsEveryLine) {
  start("train fill fill train final");
  int64_t lines = 0;
  std::array<char, 65536> buffer{};
  for (;;) {
    const ssize_t size = ::read(reader_.get(), buffer.data(), buffer.size());
    if (size <= 0) break;
    lines += std::count(buffer.data(), buffer.data() + size, '\n');
  }
  EXPECT_EQ(finish(), contract::kExitDone);
  EXPECT_EQ(lines, 20'000);
}

TEST_F(LocalJobOutput, AReaderThatIsGoneDoesNotEndTheJob) {
  start("train fill train final");
  reader_.reset();
  EXPECT_EQ(finish(), contract::kExitDone);
}

TEST(VisibleGpusOfNode, AreOthersOnEachNode) {
  EXPECT_EQ(visible_gpus_of_node(0, 2, std::nullopt), "0,1");
  EXPECT_EQ(visible_gpus_of_node(1, 2, std::nullopt), "2,3");
}

TEST(VisibleGpusOfNode, AreAmongThoseThatTheUserChose) {
  EXPECT_EQ(visible_gpus_of_node(0, 1, "GPU-5,3"), "GPU-5");
  EXPECT_EQ(visible_gpus_of_node(1, 1, "GPU-5,3"), "3");
  EXPECT_EQ(visible_gpus_of_node(1, 2, "4,5,6"), "6");
  EXPECT_EQ(visible_gpus_of_node(2, 1, "GPU-5,3"), "");
  EXPECT_EQ(visible_gpus_of_node(0, 1, ""), "");
}

}  // namespace
}  // namespace gnn::agent
