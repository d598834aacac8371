#pragma once

#include "common/clock.h"
#include "common/metrics.h"
#include "worker/agent/agent_options.h"
#include "worker/agent/job_numbers.h"
#include "worker/agent/messages.h"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gnn::agent {

/// Collects what a node's ranks report: as series for /metrics (docs/metrics.md), and as numbers
/// for /progress.
/// Threads: one thread, but others may read the registry.
class NodeProgress {
 public:
  explicit NodeProgress(const AgentOptions& options);

  void on_report(int64_t rank, const RankReport& report, MonotonicPoint now, TimePoint wall_time);
  void on_memory(int64_t rank, int64_t resident_bytes);
  void on_round(int64_t round);
  /// `phase`: a Phase, "Rendezvous" or "Leaving".
  void on_phase(const std::string& phase, int64_t running_ranks);
  void on_failure(const Failure& failure);
  void on_refused(int64_t refused);
  /// How many sampling servers take part.
  void on_servers(int64_t servers);

  /// From the lowest local rank: global values are the same on every rank.
  [[nodiscard]] const JobNumbers& numbers() const { return numbers_; }
  [[nodiscard]] progress::Phase phase() const { return phase_; }
  /// Sum over this node's ranks, over the last ten seconds.
  [[nodiscard]] double items_per_second() const;
  [[nodiscard]] const MetricsRegistry& registry() const { return registry_; }

 private:
  struct Sample {
    MonotonicPoint at{};
    int64_t items = 0;
    int64_t steps = 0;
  };

  Counter failures(int exit_code);
  Histogram checkpoint_durations(int64_t rank);
  void count(int64_t rank, const RankReport& before, const RankReport& report);
  void count_remote(
      int64_t rank, const progress::RemoteData& before, const progress::RemoteData& data
  );
  void count_served(
      int64_t rank, const progress::ServedData& before, const progress::ServedData& data
  );
  void count_tracking(
      int64_t rank, const progress::TrackingData& before, const progress::TrackingData& data
  );
  void show(int64_t rank, const RankReport& report, TimePoint wall_time);
  void show_epoch(int64_t rank, const progress::EpochReport& epoch);
  void read_numbers(const RankReport& report);
  void read_measures(const progress::EpochReport& epoch);
  void read_final(const progress::FinalReport& final);
  void choose_metric(const std::string& metric);
  [[nodiscard]] static double rate_of(const std::deque<Sample>& samples, int64_t Sample::*field);
  [[nodiscard]] MetricLabels node_labels() const;
  [[nodiscard]] MetricLabels rank_labels(int64_t rank) const;

  const AgentOptions* options_;
  MetricsRegistry registry_;
  std::map<int64_t, RankReport> reports_;
  std::map<int64_t, std::deque<Sample>> samples_;
  JobNumbers numbers_;
  progress::Phase phase_ = progress::Phase::Setup;
  std::string shown_phase_;
  int64_t refused_ = 0;
};

}  // namespace gnn::agent
