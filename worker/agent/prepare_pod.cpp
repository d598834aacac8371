#include "worker/agent/prepare_pod.h"

#include "common/contract.h"
#include "common/log.h"
#include "common/out_of_memory.h"
#include "worker/agent/final_result.h"
#include "worker/agent/pages.h"
#include "worker/agent/signals.h"

#include <algorithm>
#include <csignal>
#include <memory>
#include <poll.h>
#include <stop_token>
#include <thread>
#include <unistd.h>
#include <utility>

namespace gnn::agent {
namespace {

constexpr int kTurnMilliseconds = 200;

void report(const AgentOptions& options, int exit_code, const std::string& message) {
  const NodeResult result{.exit_code = exit_code, .message = message};
  if (const Status written = write_result(options, result); !written) {
    log_warning("cannot write the final result", {{"why", written.error().message}});
  }
}

// Ends the process when it is told to stop, unless the work has ended before.
class StopWatch {
 public:
  explicit StopWatch(const AgentOptions& options)
      : options_(options),
        signals_({SIGTERM, SIGINT}),
        thread_([this](const std::stop_token& stop) { watch(stop); }) {}

  // Whether this is the first end, whose result counts.
  bool is_first_end() { return !std::exchange(*ended_.lock(), true); }

 private:
  void watch(const std::stop_token& stop) {
    pollfd descriptor{.fd = signals_.fd(), .events = POLLIN, .revents = 0};
    while (!stop.stop_requested()) {
      if (::poll(&descriptor, 1, kTurnMilliseconds) <= 0 || signals_.take().empty()) continue;
      if (!is_first_end()) return;
      report(options_, contract::kExitPreempted, "asked to stop; the next pod goes on from here");
      ::_exit(contract::kExitPreempted);
    }
  }

  const AgentOptions& options_;
  SignalEvents signals_;  // before the thread, which must not take the signals itself
  Guarded<bool> ended_{false};
  std::jthread thread_;
};

Result<std::string> guarded(const PrepareWork& work, ProgressBar& progress) {
  try {
    return work(progress);
  } catch (const std::exception& error) {
    if (is_out_of_memory(error)) return fail(ErrorKind::OutOfMemory, "out of memory");
    return fail(ErrorKind::Internal, error.what());
  }
}

}  // namespace

PrepareProgress::PrepareProgress(const AgentOptions& options, ProgressBar& console)
    : options_(options),
      console_(console),
      ratio_(registry_.gauge(
          "gnn_prepare_ratio",
          "How much of the present task of preparing data is done.",
          {{"job", options.job}, {"node", "0"}}
      )) {}

void PrepareProgress::begin(std::string_view label, int64_t total, std::string_view unit) {
  *task_.lock() = {.label = std::string(label), .total = total, .done = 0};
  ratio_.set(0);
  console_.begin(label, total, unit);
}

void PrepareProgress::advance_to(int64_t done, std::string_view note) {
  {
    const auto task = task_.lock();
    task->done = done;
    if (task->total > 0) {
      ratio_.set(std::min(1.0, static_cast<double>(done) / static_cast<double>(task->total)));
    }
  }
  console_.advance_to(done, note);
}

void PrepareProgress::end() {
  console_.end();
}

void PrepareProgress::say(std::string_view line) {
  console_.say(line);
}

std::string PrepareProgress::progress_page() const {
  const Task task = *task_.lock();
  api::ProgressReport report = make_report(options_, 0, {});
  report.phase = contract::kPhasePrepare;
  report.doing = task.label;
  if (task.total > 0) report.percent = std::clamp<int64_t>(100 * task.done / task.total, 0, 100);
  return api::encode(report, contract::kMaxProgressBytes);
}

int run_prepare_pod(const AgentOptions& options, const PrepareWork& work) {
  StopWatch stop_watch(options);
  const std::unique_ptr<ProgressBar> console = make_progress_bar(stderr);
  PrepareProgress progress(options, *console);
  const auto end = [&](int exit_code, const std::string& message) {
    if (!stop_watch.is_first_end()) ::pause();  // the other end is about to leave
    report(options, exit_code, message);
    return exit_code;
  };
  const auto server = serve_pages(
      options.http_address,
      {.metrics = [&] { return progress.metrics_page(); },
       .progress = [&] { return progress.progress_page(); },
       .healthy = [] { return true; }}
  );
  Result<std::string> made =
      server ? guarded(work, progress) : Result<std::string>(tl::make_unexpected(server.error()));
  if (made) return end(contract::kExitDone, *made);
  log_error(made.error().message);
  return end(contract::exit_code_for(made.error().kind), made.error().message);
}

}  // namespace gnn::agent
