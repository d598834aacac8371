#include "worker/agent/signals.h"

#include <gtest/gtest.h>

#include <csignal>
#include <fcntl.h>
#include <unistd.h>
#include <vector>

namespace gnn::agent {
namespace {

TEST(SignalEvents, HandsOutEachSignalOnce) {
  SignalEvents events({SIGUSR1});
  EXPECT_TRUE(events.take().empty());
  ::raise(SIGUSR1);
  EXPECT_EQ(events.take(), std::vector<int>{SIGUSR1});
  EXPECT_TRUE(events.take().empty());
}

TEST(SignalEvents, RestoringUnblocksThem) {
  const SignalEvents events({SIGUSR1});
  restore_signals();
  sigset_t blocked;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  EXPECT_EQ(::sigismember(&blocked, SIGUSR1), 0);
}

TEST(UniqueFd, ClosesWhatItOwnsOnce) {
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  {
    UniqueFd first(fd);
    const UniqueFd second(std::move(first));
    EXPECT_EQ(second.get(), fd);
    EXPECT_GE(::fcntl(fd, F_GETFD), 0);
  }
  EXPECT_LT(::fcntl(fd, F_GETFD), 0);
}

}  // namespace
}  // namespace gnn::agent
