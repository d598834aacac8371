#pragma once

#include "common/guarded.h"
#include "common/metrics.h"
#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/agent/agent_options.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace gnn::agent {

/// Passes on what a long task tells of its progress, and shows it in /progress and /metrics.
/// Threads: the tasks are one thread's, the pages any's.
class PrepareProgress final : public ProgressBar {
 public:
  PrepareProgress(const AgentOptions& options, ProgressBar& console);

  void begin(std::string_view label, int64_t total, std::string_view unit) override;
  void advance_to(int64_t done, std::string_view note) override;
  void end() override;
  void say(std::string_view line) override;

  /// The body of /progress.
  [[nodiscard]] std::string progress_page() const;
  /// That of /metrics.
  [[nodiscard]] std::string metrics_page() const { return registry_.expose(); }

 private:
  struct Task {
    std::string label;
    int64_t total = 0;  ///< 0: not known
    int64_t done = 0;
  };

  const AgentOptions& options_;
  ProgressBar& console_;
  MetricsRegistry registry_;
  Gauge ratio_;
  mutable Guarded<Task> task_;
};

/// Makes the data and returns what it has made in a sentence.
using PrepareWork = std::function<Result<std::string>(ProgressBar& progress)>;

/// Runs a pod that prepares a job's data: serves the agent's pages while `work` is at it, writes its
/// words to the termination log, and returns the contract's exit code. If the pod is told to stop, the
/// process ends at once with kExitPreempted: the next pod resumes what it leaves behind.
/// Threads: call it before any thread is started.
[[nodiscard]] int run_prepare_pod(const AgentOptions& options, const PrepareWork& work);

}  // namespace gnn::agent
