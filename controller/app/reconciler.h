#pragma once

#include "common/guarded.h"
#include "controller/app/caches.h"
#include "controller/app/data_key.h"
#include "controller/app/executor.h"
#include "controller/app/job_metrics.h"
#include "controller/app/optional_apis.h"
#include "controller/app/progress_client.h"
#include "controller/app/progress_pace.h"
#include "controller/client/server_clock.h"
#include "controller/reconcile/plan.h"
#include "controller/reconcile/progress_turns.h"
#include "controller/runtime/controller_loop.h"
#include "controller/runtime/event_recorder.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace gnn::app {

struct ReconcilerOptions {
  reconcile::OperatorConfig config;
  bool poll_progress = true;
  /// How often a job is asked for its progress, unless there are many.
  Duration progress_interval = std::chrono::seconds(5);
  /// Asks the pod with that address for its progress.
  std::function<Result<std::string>(const std::string& address)> fetch_progress =
      &app::fetch_progress;
  /// Whether so many jobs wait for a pass before one of this namespace that news can wait.
  std::function<bool(const std::string& namespace_)> busy = [](const std::string&) {
    return false;
  };
  /// Whether jobs of this namespace lately waited long for each other, because it has its share of the workers.
  std::function<bool(const std::string& namespace_)> was_held_back = [](const std::string&) {
    return false;
  };
  /// Draws the random part of the name of a job's data key.
  std::function<Result<std::string>()> draw_data_key_suffix = &app::draw_data_key_suffix;
  /// What is known of the APIs for groups of pods and of Kueue's.
  std::function<OptionalApis()> optional_apis = [] { return OptionalApis(); };
  /// The time, and how certain it is. Empty: it is the clock's, and certain.
  std::function<client::ServerClock::Reading()> time{};
  /// How long a create may fail before the job's status tells.
  Duration failing_patience = std::chrono::seconds(5);
};

/// Joins the caches to the pure plan(): gathers what a pass may look at, has the plan carried out,
/// and remembers between passes what the API server does not store (the last refusals, the last
/// progress report).
/// Threads: different jobs from any thread, each job from one at a time.
class Reconciler {
 public:
  /// `watch_progress(key, interval)` must have poll_progress(key) called after the interval.
  Reconciler(
      Caches& caches,
      Executor& executor,
      runtime::EventRecorder& events,
      JobMetrics& metrics,
      Clock& clock,
      ReconcilerOptions options,
      std::function<void(const objects::ObjectKey&, Duration)> watch_progress
  );

  [[nodiscard]] runtime::Outcome reconcile(const objects::ObjectKey& key);

  /// Asks the job's node 0 for its progress. Returns when to ask again; calls `changed(key)` if the
  /// report differs from the last one.
  [[nodiscard]] runtime::Outcome poll_progress(
      const objects::ObjectKey& key, const std::function<void(const objects::ObjectKey&)>& changed
  );

 private:
  /// What is kept of a job between passes, as long as its UID stays the same.
  struct Memory {
    std::string uid{};
    std::vector<reconcile::ApiRefusal> refusals{};
    int64_t refused_in_a_row = 0;
    std::optional<TimePoint> status_written{};
    std::optional<TimePoint> counts_written{};
    std::optional<reconcile::CutStatus> cut_status{};
    reconcile::WriteHistory writes{};
    std::optional<api::ProgressReport> report{};
    std::optional<TimePoint> awaits_culprit_since{};
    std::optional<TimePoint> failing_since{};  ///< a create
    reconcile::NewDataKey new_data_key{};
    std::set<std::string> impostors{};  ///< as in Observed
    std::map<std::string, reconcile::StartTrouble> start_troubles{};
  };

  [[nodiscard]] client::ServerClock::Reading read_time() const;
  void look_at_clock(reconcile::Observed& observed) const;
  /// Has the API server say what time it is, as any reply does, unless it was asked a moment ago.
  void ask_the_time(const objects::ObjectKey& job);
  [[nodiscard]] runtime::Outcome pass(
      const objects::ObjectKey& key, const std::shared_ptr<const api::GnnJob>& job
  );
  /// A pass of a job that the cache has no room for.
  [[nodiscard]] runtime::Outcome reconcile_left_out(const objects::ObjectKey& key);
  /// Returns whether it is one of the few of its namespace that get passes.
  [[nodiscard]] bool remember_left_out(const objects::ObjectKey& key);
  void forget_left_out(const objects::ObjectKey& key);
  [[nodiscard]] runtime::Outcome clean_up(const objects::ObjectKey& key);
  [[nodiscard]] reconcile::Observed observe(const api::GnnJob& job, const objects::ObjectKey& key);
  /// Leaves the status as it was if another job's progress is to be written before.
  void await_turn(const reconcile::Observed& observed, reconcile::Plan& plan);
  /// For the next passes.
  void remember(
      const reconcile::Observed& observed, const reconcile::Plan& plan, Execution& execution
  );
  /// Turns a create that keeps failing into a refusal, which the next pass reports. For a pass that
  /// had actions.
  void report_lasting_failure(Memory& memory, TimePoint now, Execution& execution) const;
  /// Counts the writes that were made, and logs those that do not last.
  void count_writes(
      const objects::ObjectKey& key, const Execution& execution, TimePoint now, Memory& memory
  ) const;
  void log_refusals(
      const objects::ObjectKey& key, const std::vector<reconcile::ApiRefusal>& refusals
  ) const;
  void log_written(
      const objects::ObjectKey& key, const api::GnnJobStatus& before, const api::GnnJobStatus& after
  ) const;
  /// Adds the pods of the job that no watch shows.
  [[nodiscard]] std::optional<client::ApiError> look_for_strays(
      const objects::ObjectKey& job, std::vector<objects::Pod>& pods
  );
  /// Pods that are ahead of the cached job: reads it, and where they are ahead of that, too, notes that they
  /// are none of its pods.
  [[nodiscard]] std::optional<client::ApiError> look_at_pods_ahead(
      const objects::ObjectKey& key, reconcile::Observed& observed
  );
  /// Reads the events of a pod that does not start, and does not say why: once or twice for each pod.
  void look_at_events(reconcile::Observed& observed);
  /// The pods cache may be behind the job's, and must not make a pod look deleted: asks for those
  /// that are missed, until one is gone indeed.
  [[nodiscard]] std::optional<client::ApiError> look_for_missed_pods(reconcile::Observed& observed);
  /// Draws the name of a new data key if the plan needs one.
  [[nodiscard]] Status name_data_key(reconcile::Observed& observed);
  /// What the plan must know of the job's queue.
  [[nodiscard]] std::optional<client::ApiError> look_at_queue(reconcile::Observed& observed);
  [[nodiscard]] std::optional<std::string> find_older_gang(const api::GnnJob& job) const;
  [[nodiscard]] std::optional<std::string> progress_address(const api::GnnJob& job) const;
  void record_events(const reconcile::Plan& plan, const api::GnnJob& job);
  /// Keeps what a job's pod says. Returns whether it is news.
  bool hear(const objects::ObjectKey& key, const std::string& uid, api::ProgressReport report);
  [[nodiscard]] Memory recall(const objects::ObjectKey& key, const std::string& uid);

  Caches& caches_;
  Executor& executor_;
  runtime::EventRecorder& events_;
  JobMetrics& metrics_;
  Clock& clock_;
  const ReconcilerOptions options_;
  const std::function<void(const objects::ObjectKey&, Duration)> watch_progress_;
  ProgressPace pace_;
  Guarded<reconcile::ProgressTurns> turns_;
  Guarded<std::optional<MonotonicPoint>> asked_the_time_{std::nullopt};
  Guarded<std::map<objects::ObjectKey, Memory>> memory_;
  Guarded<std::map<std::string, std::set<std::string>>> left_out_;  ///< jobs by namespace
};

}  // namespace gnn::app
