#pragma once

#include "common/guarded.h"
#include "controller/app/caches.h"
#include "controller/app/executor.h"
#include "controller/app/job_metrics.h"
#include "controller/reconcile/plan.h"
#include "controller/runtime/controller_loop.h"
#include "controller/runtime/event_recorder.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gnn::app {

struct ReconcilerOptions {
  reconcile::OperatorConfig config;
  bool poll_progress = true;
  Duration progress_interval = std::chrono::seconds(5);
  Duration progress_timeout = std::chrono::seconds(1);
};

/// Between the caches and the pure plan(): gathers what a pass may look at, has the plan carried
/// out, and remembers between passes what is not in the API server (the last refusals, the last
/// progress). Threading: one job by one thread at a time; different jobs from any threads.
class Reconciler {
 public:
  /// `watch_progress(key)` asks for poll_progress(key) to be called after the progress interval.
  Reconciler(
      Caches& caches,
      Executor& executor,
      runtime::EventRecorder& events,
      JobMetrics& metrics,
      Clock& clock,
      ReconcilerOptions options,
      std::function<void(const objects::ObjectKey&)> watch_progress
  );

  [[nodiscard]] runtime::Outcome reconcile(const objects::ObjectKey& key);

  /// Asks node 0 of the job for its progress. Returns when to ask again; `changed(key)` is called
  /// when there is news.
  [[nodiscard]] runtime::Outcome poll_progress(
      const objects::ObjectKey& key, const std::function<void(const objects::ObjectKey&)>& changed
  );

 private:
  /// What is kept of a job between passes, while its UID is the same.
  struct Memory {
    std::string uid{};
    std::vector<reconcile::ApiRefusal> refusals{};
    std::optional<TimePoint> status_written{};
    std::optional<reconcile::Report> report{};
    std::optional<TimePoint> awaits_culprit_since{};
  };

  /// What was refused is input of the next pass, which says so in the status: at once the first
  /// time. What is refused again waits, so that the API server is not asked in a tight loop.
  [[nodiscard]] Duration pause_after(
      const std::vector<reconcile::ApiRefusal>& now,
      const std::vector<reconcile::ApiRefusal>& before
  ) const;
  [[nodiscard]] runtime::Outcome clean_up(const objects::ObjectKey& key);
  [[nodiscard]] reconcile::Observed observe(const api::GnnJob& job, const objects::ObjectKey& key);
  [[nodiscard]] std::optional<std::string> find_older_gang(const api::GnnJob& job) const;
  void record_events(const reconcile::Plan& plan, const api::GnnJob& job);
  [[nodiscard]] Memory recall(const objects::ObjectKey& key, const std::string& uid);

  Caches& caches_;
  Executor& executor_;
  runtime::EventRecorder& events_;
  JobMetrics& metrics_;
  Clock& clock_;
  const ReconcilerOptions options_;
  const std::function<void(const objects::ObjectKey&)> watch_progress_;
  Guarded<std::map<objects::ObjectKey, Memory>> memory_;
};

}  // namespace gnn::app
