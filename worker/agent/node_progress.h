#pragma once

#include "common/clock.h"
#include "common/metrics.h"
#include "worker/agent/agent_options.h"
#include "worker/agent/messages.h"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gnn::agent {

/// The training numbers that /progress and the result show. Absent: not known.
struct JobNumbers {
  std::optional<int64_t> epoch{};  ///< Epochs begun, from 1.
  std::optional<int64_t> epochs{};
  std::optional<int64_t> step{};  ///< Optimizer steps since training began.
  std::optional<int64_t> steps_per_epoch{};
  std::optional<int64_t> step_in_epoch{};
  std::optional<double> loss{};
  std::optional<double> train_metric{};
  std::optional<double> validation_metric{};
  std::optional<double> test_metric{};
  std::optional<int64_t> eta_seconds{};
  std::string checkpoint{};
  std::string parameters_hash{};
};

/// Gathers what is known of a node's ranks: for /metrics as series (docs/metrics.md), for /progress
/// as numbers. Threading: one thread; the registry may be read by others.
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

  /// Of the lowest local rank: what is global is the same on every rank.
  [[nodiscard]] const JobNumbers& numbers() const { return numbers_; }
  [[nodiscard]] training::Phase phase() const { return phase_; }
  /// Of this node's ranks together, over the last seconds.
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
  void show(int64_t rank, const RankReport& report, TimePoint wall_time);
  void show_epoch(int64_t rank, const training::EpochReport& epoch);
  void read_numbers(const RankReport& report);
  [[nodiscard]] static double rate_of(const std::deque<Sample>& samples, int64_t Sample::*field);
  [[nodiscard]] MetricLabels node_labels() const;
  [[nodiscard]] MetricLabels rank_labels(int64_t rank) const;

  const AgentOptions* options_;
  MetricsRegistry registry_;
  std::map<int64_t, RankReport> reports_;
  std::map<int64_t, std::deque<Sample>> samples_;
  JobNumbers numbers_;
  training::Phase phase_ = training::Phase::Setup;
  std::string shown_phase_;
  int64_t refused_ = 0;
};

/// The body of /progress (docs/schemas/progress.v1.json). `phase`: a Phase, "Rendezvous" or
/// "Leaving".
[[nodiscard]] std::string encode_progress(
    const AgentOptions& options,
    int64_t round,
    const std::string& phase,
    const JobNumbers& numbers,
    double items_per_second
);

}  // namespace gnn::agent
