#pragma once

#include "common/api/gnn_job.h"
#include "common/clock.h"
#include "common/guarded.h"
#include "common/metrics.h"
#include "controller/objects/meta.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gnn::app {

/// The gnnjob_* series: what each job is and does. They are removed with the job, and some time
/// after its end, so that what they cost depends only on the jobs that are active.
/// Threads: safe from any thread.
class JobMetrics {
 public:
  /// How long after its end a job is shown: long enough for a scrape to see how it ended.
  static constexpr Duration kShownAfterEnd = std::chrono::minutes(10);

  /// `registry` must not be read after this is gone.
  JobMetrics(MetricsRegistry& registry, const Clock& clock);

  /// Sets the job's gauges, and creates its counters at zero.
  void show(const api::GnnJob& job);
  /// Counts what a status write changed: restarts and durations.
  void count_change(const api::GnnJob& job, const api::GnnJobStatus& after);
  void remove(const std::string& namespace_, const std::string& name);

 private:
  /// What the series of one job show.
  struct Shown {
    std::string task{};
    std::string model{};
    std::string metric{};  ///< that of the evaluations, as the spec says
    std::vector<std::pair<std::string, std::string>> conditions{};  ///< type and status
    api::NodeCounts nodes{};
    std::optional<api::ServerCounts> servers{};  ///< only of a job that has servers
    int64_t gpus = 0;                            ///< that the workers of an unfinished job ask for
    bool gpus_idle = false;                      ///< the job trains without them
    std::optional<api::JobProgress> progress{};  ///< only of a job that trains
    std::map<std::string, int64_t> restarts{};   ///< by reason
    std::optional<TimePoint> ended{};
  };
  using Jobs = std::map<objects::ObjectKey, Shown>;

  Histogram queue_duration();
  Histogram startup_duration();
  Histogram run_duration(std::string_view result);
  void count_restarts(const api::GnnJob& job, const api::GnnJobStatus& after);
  [[nodiscard]] bool is_long_ended(const Shown& job) const;
  using TakePart = std::function<void(SeriesFamily part)>;
  using AddSeries = std::function<void(MetricLabels labels, double value)>;
  using TellSeries = std::function<void(const Shown& job, const AddSeries& add)>;

  /// Without those that ended long ago.
  [[nodiscard]] Jobs shown_now();
  void read(const TakePart& take);
  static void read_states(const Jobs& jobs, const TakePart& take);
  static void read_progress(const Jobs& jobs, const TakePart& take);
  /// Hands over, in parts, what `tell` adds for each job.
  static void read_family(
      const Jobs& jobs, SeriesFamily family, const TakePart& take, const TellSeries& tell
  );

  MetricsRegistry& registry_;
  const Clock& clock_;
  Guarded<Jobs> jobs_;
};

}  // namespace gnn::app
