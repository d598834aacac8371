#pragma once

#include "worker/progress/measure.h"
#include "worker/progress/remote_data.h"
#include "worker/progress/served_data.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace gnn::progress {

/// What a rank is doing. Its agent may have a time-out for each phase.
enum class Phase { Setup, Train, Validate, Test, Checkpoint, Done };

/// Seconds that a step spent, by phase; of an epoch the sums over its steps. `wait` is the time
/// without a batch: loading that did not overlap with compute.
struct StepSeconds {
  double wait = 0;
  double forward = 0;
  double backward = 0;  ///< with the reduction time that overlaps with it
  /// Waiting for other ranks: buffers, gradients once this rank's are ready, all of a shadow step.
  double reduce = 0;
  double optimizer = 0;
  double total = 0;

  StepSeconds& operator+=(const StepSeconds& more);
};

/// What a rank's data path has done for training since the rank started, and where it stalled.
struct DataPath {
  int64_t feature_bytes = 0;  ///< gathered
  /// Loading threads, summed, had no room for another batch: the model is the bottleneck.
  double sample_stall_seconds = 0;
  /// The copy to the device had no batch to copy; 0 without a device.
  double copy_stall_seconds = 0;
  /// Training had no batch: loading is the bottleneck.
  double training_stall_seconds = 0;
};

/// Bytes that a rank holds, by owner. Mapped files count in full, though the ranks of a node share
/// them.
struct MemoryByOwner {
  int64_t graph = 0;
  int64_t features = 0;
  int64_t sampler = 0;  ///< state of its threads, without batches
  int64_t model = 0;    ///< parameters, buffers, gradients and the optimizer's state
};

/// Seconds of equal pieces of work, of one rank.
struct Pace {
  int64_t pieces = 0;
  double seconds = 0;

  void add(double piece_seconds);
  /// NaN without pieces.
  [[nodiscard]] double seconds_per_piece() const;
};

/// One optimizer step of one rank.
struct StepReport {
  int64_t epoch = 0;
  int64_t epochs = 0;
  int64_t step = 0;             ///< in this epoch, from 0
  int64_t steps_per_epoch = 0;  ///< the longest rank's
  int64_t global_step = 0;      ///< before it, since the start of training
  double loss = 0;              ///< mean over the items of all ranks: the same on every rank
  double learning_rate = 0;
  /// Of the gradients of all ranks together, before they were clipped; nothing where none are.
  std::optional<double> gradient_norm{};
  int64_t items = 0;          ///< this rank's seeds (or graphs); 0 in a shadow step
  int64_t sampled_edges = 0;  ///< this rank's
  int64_t input_nodes = 0;    ///< this rank's
  StepSeconds seconds;
  bool warm_up = false;  ///< among the epoch's first, which may take longer
  DataPath data_path;    ///< this rank's
  MemoryByOwner memory;  ///< this rank's
};

/// What an evaluation counts its work in: batches, or the edges that layers sum over.
enum class EvaluationUnit { Batches, Edges };

/// How far a rank is in evaluating one part, or all parts in one pass.
struct EvaluationProgress {
  int64_t done = 0;
  int64_t total = 0;
  EvaluationUnit unit = EvaluationUnit::Batches;
};

/// One try to write a checkpoint, by the rank that writes.
struct CheckpointReport {
  bool written = false;
  std::string path;   ///< of its manifest, when written
  int64_t bytes = 0;  ///< of the checkpoint's files, when written
  double seconds = 0;
};

/// The epoch of a training whose validation is best; the first of equals.
struct BestEpoch {
  int64_t epoch = 0;         ///< from 0
  double value = 0;          ///< of its validation
  std::string checkpoint{};  ///< path of its manifest; empty if none is kept
};

/// One epoch, over all ranks where nothing else is said.
struct EpochReport {
  int64_t epoch = 0;
  int64_t epochs = 0;
  int64_t steps = 0;
  double average_loss = 0;  ///< over all items of the epoch
  Measure train;            ///< of the training batches, in training mode
  /// On the training set, in evaluation mode like the next two, and of the same metric.
  std::optional<Measure> train_set;
  std::optional<Measure> validation;
  std::optional<Measure> test;
  double seconds = 0;
  StepSeconds step_seconds;  ///< this rank's
  Pace steady_steps;         ///< this rank's steps without the warm-up
  /// This rank's batches, and the seconds of all evaluations; no batches if layer by layer.
  Pace evaluation;
  int64_t items = 0;          ///< this rank's
  int64_t sampled_edges = 0;  ///< this rank's
  /// Steps since the start of training, with this epoch's; nothing for an epoch of another training,
  /// or of a version that did not keep it.
  std::optional<int64_t> global_step{};
  std::optional<BestEpoch> best{};  ///< of the epochs so far, with this one

  /// The metric of the evaluations, or of `train` where there was none.
  [[nodiscard]] const std::string& metric() const;
};

/// The end of a run that did not fail, preempted or not.
struct FinalReport {
  int64_t epochs = 0;
  int64_t global_steps = 0;
  double average_loss = 0;  ///< of the last epoch
  std::string metric;       ///< EpochReport::metric() of the last epoch, e.g. "accuracy"
  /// "train_accuracy", "train_set_accuracy", "validation_accuracy", "test_accuracy", and so on.
  std::map<std::string, double> metrics;
  std::string test_model{};  ///< whose the test's are: "last" or "best"; empty where none is chosen
  std::optional<BestEpoch> best{};
  std::string checkpoint;  ///< path of the newest one, or empty
  /// XXH64 over the final parameters and buffers, 16 hex digits; or empty.
  std::string parameters_hash;
  bool preempted = false;
  double seconds = 0;
  Pace steady_steps;                      ///< of this rank, since it started
  int64_t run_steps = 0;                  ///< since it started
  std::optional<RemoteSummary> remote{};  ///< since it started, where nodes read from each other
};

/// Where a rank's progress goes: the console, the agent's socket, a test. An implementation blocks
/// no longer than it takes to write a line.
/// Threads: called on the rank's training thread, in order.
class ProgressSink {
 public:
  virtual ~ProgressSink() = default;
  virtual void on_phase(Phase phase) = 0;
  /// Work is done that no report mentions, e.g. a batch of an evaluation: a sign that the rank does
  /// not hang. Cheap.
  virtual void on_mark() {}
  /// Comes with a mark. Cheap.
  virtual void on_evaluation(const EvaluationProgress&) {}
  /// From now on, and for as long as it is kept, `meter` tells what this rank reads from other nodes.
  virtual void on_remote_meter(const std::shared_ptr<const RemoteMeter>& /*meter*/) {}
  /// The same of the batches that servers make for this rank.
  virtual void on_served_meter(const std::shared_ptr<const ServedMeter>& /*meter*/) {}
  virtual void on_step(const StepReport& report) = 0;
  virtual void on_epoch(const EpochReport& report) = 0;
  virtual void on_final(const FinalReport& report) = 0;
  /// Only on the rank that writes them.
  virtual void on_checkpoint(const CheckpointReport& report) = 0;
  /// A sentence for whoever reads the log, e.g. "Resumed from …"; numbers belong in the reports.
  virtual void on_message(const std::string& message) = 0;
};

[[nodiscard]] std::string_view to_string(Phase phase);

}  // namespace gnn::progress
