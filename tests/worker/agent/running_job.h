#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <sys/types.h>
#include <vector>

namespace gnn::testing {

using Variables = std::map<std::string, std::string>;

/// The children of a process, in order of their start.
[[nodiscard]] std::vector<pid_t> children_of(pid_t parent);

/// Whether a file system can be mounted at `path` here.
[[nodiscard]] bool may_mount(const std::string& path);

/// A job of several nodes on this machine, one at a time, and what it leaves behind. No process of
/// it outlives the test.
class RunningJobTest : public ::testing::Test {
 protected:
  RunningJobTest();
  ~RunningJobTest() override;

  void fresh_folder();

  /// Starts a program whose output goes to a file. The variable TEST_SMALL_DISK mounts a file system
  /// of 700 KiB at the path that it names, which this program alone sees; TEST_READ_ONLY_DISK one
  /// that takes no writes.
  static pid_t spawn(
      const std::vector<std::string>& arguments,
      const Variables& variables,
      const std::filesystem::path& output
  );
  /// Starts the job's parent: agents are its children, and ranks theirs.
  void start_program(const std::vector<std::string>& arguments, Variables variables);

  /// Waits for the job's end; returns its exit code, minus a signal that ended it, or -1 after a
  /// time-out.
  int finish(std::chrono::seconds limit = std::chrono::seconds(180));

  /// Whether `condition` comes true within half a minute.
  static bool wait_until(const std::function<bool()>& condition);

  [[nodiscard]] pid_t agent_of(int node) const {
    return children_of(job_).at(static_cast<size_t>(node));
  }
  [[nodiscard]] std::string output() const;
  /// What a node's agent left as its pod's result.
  [[nodiscard]] std::string result_of(int node) const;

  /// Processes that outlive the job become our children; after a moment there must be none.
  static void expect_no_orphan();

  std::filesystem::path folder_;
  pid_t job_ = -1;
};

}  // namespace gnn::testing
