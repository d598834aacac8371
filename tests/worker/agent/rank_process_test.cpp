#include "worker/agent/rank_process.h"

#include "common/contract.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace gnn::agent {
namespace {

// All that comes through a pipe until its other end is closed.
std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
    ::poll(&entry, 1, -1);
    const ssize_t size = ::read(fd, buffer.data(), buffer.size());
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (size <= 0) return text;
    text.append(buffer.data(), static_cast<size_t>(size));
  }
}

int wait_for(const RankProcess& process) {
  int status = 0;
  EXPECT_EQ(::waitpid(process.pid(), &status, 0), process.pid());
  return status;
}

Result<RankProcess> shell(const std::string& script, const Environment& environment = {}) {
  return RankProcess::spawn({"/bin/sh", "-c", script}, environment);
}

TEST(RankProcess, HasTheGivenEnvironmentAndAPipeForEachOutput) {
  const auto process = shell("echo \"rank $RANK\"; echo sorry >&2; exit 65", {{"RANK", "3"}});
  ASSERT_TRUE(process) << process.error().message;
  EXPECT_EQ(read_all(process->output()), "rank 3\n");
  EXPECT_EQ(read_all(process->error()), "sorry\n");
  const int status = wait_for(*process);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), contract::kExitData);
}

TEST(RankProcess, InheritsItsEndOfTheSocketAndNoOtherDescriptor) {
  std::array<int, 2> other{};
  ASSERT_EQ(::pipe(other.data()), 0);  // inheritable, as a careless library leaves it
  const auto process = shell(
      "fd=${GNN_AGENT_SOCKET#fd:}; [ -e /proc/self/fd/$fd ] && echo socket; "
      "[ -e /proc/self/fd/" +
      std::to_string(other[0]) + " ] && [ " + std::to_string(other[0]) + " != $fd ] && echo other"
  );
  ASSERT_TRUE(process) << process.error().message;
  EXPECT_EQ(read_all(process->output()), "socket\n");
  wait_for(*process);
  for (const int fd : other) ::close(fd);
}

TEST(RankProcess, SignalsWhatTheRankStartedToo) {
  const auto process = shell("sleep 1000 & echo started; wait");
  ASSERT_TRUE(process) << process.error().message;
  std::array<char, 8> buffer{};
  pollfd entry{.fd = process->output(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&entry, 1, 60'000), 1);
  ASSERT_GT(::read(process->output(), buffer.data(), buffer.size()), 0);
  process->signal(SIGKILL);
  const int status = wait_for(*process);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(read_all(process->output()), "") << "ends only when all writers are gone";
}

TEST(RankProcess, SaysWhyAProgramCannotBeStarted) {
  const auto process = RankProcess::spawn({"/nonexistent/rank"}, {});
  ASSERT_TRUE(process) << process.error().message;
  EXPECT_NE(read_all(process->error()).find("No such file"), std::string::npos);
  const int status = wait_for(*process);
  EXPECT_EQ(WEXITSTATUS(status), contract::kExitOther);
}

TEST(LineSplitter, EmitsTheSameLinesHoweverTheBytesArrive) {
  const std::string text = "one\n\ntwo\nthree";
  for (size_t size = 1; size <= text.size(); ++size) {
    LineSplitter splitter;
    std::vector<std::string> lines;
    const auto keep = [&lines](std::string_view line) { lines.emplace_back(line); };
    for (size_t at = 0; at < text.size(); at += size)
      splitter.append(std::string_view(text).substr(at, size), keep);
    splitter.finish(keep);
    EXPECT_EQ(lines, (std::vector<std::string>{"one", "", "two", "three"})) << size;
  }
}

TEST(LineSplitter, SplitsEndlessLines) {
  LineSplitter splitter;
  size_t longest = 0;
  splitter.append(std::string(100'000, 'x'), [&](std::string_view line) {
    longest = std::max(longest, line.size());
  });
  EXPECT_GT(longest, 0U);
  EXPECT_LE(longest, 8192U);
}

}  // namespace
}  // namespace gnn::agent
