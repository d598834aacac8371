#pragma once

#include "common/result.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <thread>
#include <vector>

namespace gnn::testing {

/// Preloaded, it gives a program the wall clock that FAKETIME says.
inline constexpr const char* kFaketimeLibrary =
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";

struct CommandOutput {
  int exit_code = 0;   ///< 128 + signal if a signal ended it
  std::string output;  ///< stdout
  std::string errors;  ///< stderr
};

/// Runs a program to its end.
/// Errors: it cannot be started, or `timeout` passed (it is killed then).
[[nodiscard]] Result<CommandOutput> run_command(
    const std::vector<std::string>& arguments,
    std::string_view standard_input = {},
    std::chrono::milliseconds timeout = std::chrono::minutes(2)
);

/// Starts programs that die with this process, also when it is killed: the kernel ties that to the
/// thread that starts them, so one thread of its own does it.
/// Threads: any thread.
class ProcessSpawner {
 public:
  ProcessSpawner();
  ~ProcessSpawner();
  ProcessSpawner(const ProcessSpawner&) = delete;
  ProcessSpawner& operator=(const ProcessSpawner&) = delete;

  /// stdout and stderr are appended to `log_file`. Returns the process id, a child of this process.
  [[nodiscard]] Result<pid_t> spawn(
      const std::vector<std::string>& arguments, const std::string& log_file
  );

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> task_;
  bool stopping_ = false;
  std::thread thread_;
};

/// Waits for a child; false: it still runs when the time is up.
[[nodiscard]] bool wait_for_exit(pid_t pid, std::chrono::milliseconds timeout);

}  // namespace gnn::testing
