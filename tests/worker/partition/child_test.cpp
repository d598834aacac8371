#include "worker/partition/child.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <limits>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace gnn::partition {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

TEST(Child, LeavesItsResultInSharedMemoryOrReportsHowItEnded) {
  void* shared =
      mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  int own = 1;
  const Status whole = run_in_child("work", kNoLimit, [&]() -> Status {
    *static_cast<int*>(shared) = 7;
    own = 2;
    return {};
  });
  EXPECT_TRUE(whole);
  EXPECT_EQ(*static_cast<int*>(shared), 7);
  EXPECT_EQ(own, 1);
  munmap(shared, sizeof(int));

  const auto ends_with = [](const std::function<Status()>& work) {
    const Status ended = run_in_child("METIS", kNoLimit, work);
    EXPECT_FALSE(ended);
    return ended ? Error{} : ended.error();
  };
  const Error failed = ends_with([]() -> Status { return fail(ErrorKind::Data, "no graph"); });
  EXPECT_EQ(failed.kind, ErrorKind::Data);
  EXPECT_EQ(failed.message, "METIS: no graph");
  const Error crashed = ends_with([]() -> Status {
    std::raise(SIGSEGV);
    return {};
  });
  EXPECT_EQ(crashed.kind, ErrorKind::Internal);
  EXPECT_THAT(crashed.message, HasSubstr("METIS: its process crashed: Segmentation fault"));
  const Error aborted = ends_with([]() -> Status { std::abort(); });
  EXPECT_THAT(aborted.message, HasSubstr("crashed: Aborted"));
  const Error left = ends_with([]() -> Status { _exit(42); });
  EXPECT_THAT(left.message, HasSubstr("ended with code 42"));
  // As the kernel ends it where memory runs out.
  const Error killed = ends_with([]() -> Status {
    std::raise(SIGKILL);
    return {};
  });
  EXPECT_EQ(killed.kind, ErrorKind::OutOfMemory);
  EXPECT_EQ(killed.message, "METIS: its process ran out of memory");
  const Error full = ends_with([]() -> Status { throw std::bad_alloc(); });
  EXPECT_EQ(full.kind, ErrorKind::OutOfMemory);

  // It may take no more memory than it is allowed.
  const auto map = [](size_t bytes) {
    return run_in_child("work", int64_t{64} << 20U, [bytes]() -> Status {
      void* memory =
          mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) return fail(ErrorKind::OutOfMemory, "no more");
      return {};
    });
  };
  EXPECT_TRUE(map(size_t{32} << 20U));
  EXPECT_FALSE(map(size_t{80} << 20U));
}

}  // namespace
}  // namespace gnn::partition
