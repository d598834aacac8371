#pragma once

#include "tests/support/control_plane.h"
#include "tests/support/http.h"

#include <chrono>
#include <functional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace gnn::testing {

/// Polls until `done()`; false when the time is up.
[[nodiscard]] bool eventually(
    const std::function<bool()>& done, std::chrono::milliseconds timeout = std::chrono::seconds(60)
);

struct ControllerArguments {
  std::string kubeconfig;
  std::string name_space;  ///< empty: all
  std::vector<std::string> more{};
  std::string progress = "off";
  /// Of libfaketime, e.g. "+1h": how far the wall clock is off, read anew at each look at it. Empty: the
  /// true time. Time that only passes is true in any case.
  std::string clock_file{};
};

/// gnn-controller as a process.
/// Threads: one thread.
class ControllerProcess {
 public:
  ControllerProcess(const ControlPlane& cluster, const ControllerArguments& arguments);
  /// Kills it, so that its lease stays taken until it runs out; terminate() gives that back.
  ~ControllerProcess();
  ControllerProcess(const ControllerProcess&) = delete;
  ControllerProcess& operator=(const ControllerProcess&) = delete;

  /// Returns after SIGSTOP once all of its threads have stopped, or it has ended.
  void signal(int number) const;
  /// SIGTERM, and its exit code.
  [[nodiscard]] int terminate();
  /// Waits for its end by itself; the exit code, or -1 if it still runs then. 128 + n: by signal n.
  [[nodiscard]] int wait(std::chrono::milliseconds timeout);
  /// Waits until it reconciles.
  [[nodiscard]] bool wait_working(std::chrono::milliseconds timeout = std::chrono::seconds(30));
  [[nodiscard]] std::string log() const;
  [[nodiscard]] pid_t pid() const { return pid_; }
  /// GET on the port of the metrics, or of the probes.
  [[nodiscard]] HttpReply http(const std::string& path) const;

 private:
  std::string log_file_;
  pid_t pid_ = 0;
  bool ended_ = false;
};

/// `gnn-controller release` on everything in that namespace; its exit code.
[[nodiscard]] int run_release(
    const std::string& kubeconfig,
    const std::string& name_space,
    std::chrono::milliseconds timeout = std::chrono::minutes(2),
    const std::vector<std::string>& more = {}
);

}  // namespace gnn::testing
