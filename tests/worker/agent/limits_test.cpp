#include "worker/agent/limits.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>

namespace gnn::agent {
namespace {

namespace fs = std::filesystem;

class LimitsTest : public ::testing::Test {
 protected:
  LimitsTest() : root_(fs::path(::testing::TempDir()) / ("cgroup-" + std::to_string(::getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~LimitsTest() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  CgroupFiles files() const {
    return {.root = root_.string(), .membership = (root_ / "membership").string()};
  }

  fs::path root_;
};

TEST_F(LimitsTest, ReadsTheTightestQuotaOfCgroupV2) {
  write("membership", "0::/pod/worker\n");
  write("pod/worker/cpu.max", "max 100000\n");
  write("pod/cpu.max", "250000 100000\n");
  EXPECT_EQ(cpu_quota(files()), 2.5);
}

TEST_F(LimitsTest, ReadsQuotaOfCgroupV1) {
  write("membership", "4:memory:/a\n1:cpu,cpuacct:/a/b\n0::/\n");
  write("cpu/a/b/cpu.cfs_quota_us", "150000\n");
  write("cpu/a/b/cpu.cfs_period_us", "100000\n");
  write("cpu/cpu.cfs_quota_us", "-1\n");
  write("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(files()), 1.5);
  EXPECT_EQ(usable_cpus(files()), 1);
}

TEST_F(LimitsTest, ReadsTheMountsRootWhereTheMembershipNamesTheHostsPath) {
  write("membership", "0::/kubepods/besteffort/pod1/abc\n");
  write("cpu.max", "300000 100000\n");
  EXPECT_EQ(cpu_quota(files()), 3.0);
}

TEST_F(LimitsTest, WithoutAQuotaTheAffinityDecides) {
  write("membership", "0::/\n");
  EXPECT_EQ(cpu_quota(files()), std::nullopt);
  EXPECT_GE(usable_cpus(files()), 1);
}

TEST_F(LimitsTest, NeverGivesLessThanOneCpu) {
  write("membership", "0::/\n");
  write("cpu.max", "20000 100000\n");
  EXPECT_EQ(usable_cpus(files()), 1);
}

TEST_F(LimitsTest, TheTightestLimitOfMemoryCounts) {
  write("membership", "4:memory:/a/b\n0::/c/d\n");
  const int64_t machine = usable_memory(files());
  EXPECT_GT(machine, int64_t{1} << 26);
  write("memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
  write("c/d/memory.max", "max\n");
  EXPECT_EQ(usable_memory(files()), machine);
  write("memory/a/memory.limit_in_bytes", "2097152\n");
  EXPECT_EQ(usable_memory(files()), 2097152);
  write("c/memory.max", "1048576\n");
  EXPECT_EQ(usable_memory(files()), 1048576);
}

TEST_F(LimitsTest, ReadsMemoryEventsOfBothVersions) {
  write("membership", "4:memory:/a\n0::/b\n");
  EXPECT_FALSE(memory_state(files()));
  write("memory/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  write("memory/a/memory.max_usage_in_bytes", "1048576\n");
  write("memory/a/memory.limit_in_bytes", "2097152\n");
  auto state = memory_state(files());
  ASSERT_TRUE(state);
  EXPECT_EQ(state->oom_kills, 2);
  EXPECT_EQ(state->peak_bytes, 1048576);
  write("b/memory.events", "low 0\nhigh 0\nmax 4\noom 3\noom_kill 3\n");
  write("b/memory.peak", "4096\n");
  write("b/memory.max", "max\n");
  state = memory_state(files());
  ASSERT_TRUE(state);
  EXPECT_EQ(state->oom_kills, 3);
  EXPECT_EQ(state->peak_bytes, 4096);
  EXPECT_FALSE(state->limit_bytes);
}

// In a process of its own: a hard limit does not rise again.
TEST(AllowOpenFiles, RaisesTheSoftLimitAndNamesAHardOneThatIsTooLow) {
  const auto try_limits = [] {
    const rlimit before{.rlim_cur = 50, .rlim_max = 100};
    if (::setrlimit(RLIMIT_NOFILE, &before) != 0) return 1;
    if (!allow_open_files(40) || !allow_open_files(90)) return 2;
    rlimit after{};
    if (::getrlimit(RLIMIT_NOFILE, &after) != 0 || after.rlim_cur != 90) return 3;
    if (!allow_open_files(95, 101)) return 6;
    if (::getrlimit(RLIMIT_NOFILE, &after) != 0 || after.rlim_cur != 100) return 7;
    const Status refused = allow_open_files(101);
    if (refused || refused.error().kind != ErrorKind::Configuration) return 4;
    return refused.error().message.find("100 open files here, and needs 101") == std::string::npos
               ? 5
               : 0;
  };
  EXPECT_EXIT(std::exit(try_limits()), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace gnn::agent
