#pragma once

#include "common/progress_bar.h"
#include "worker/progress/progress_sink.h"

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gnn::progress {

enum class ConsoleFormat {
  /// The tutorials' lines: "Epoch 00000 | Average Loss 1.0986 | Accuracy 0.3333 | Time 0.1234".
  Text,
  Json,  ///< one object a line, with every number of the reports
};

struct ConsoleOptions {
  ConsoleFormat format = ConsoleFormat::Text;
  int64_t log_steps = 0;  ///< steps between two lines of steps; 0: none
};

/// Writes a run's progress for people (lines on `out`, a bar of each epoch and each evaluation on
/// `progress`) or for programs (JSON lines on `out`). Only rank 0 needs one: the reports are the same on all ranks.
class ConsoleSink final : public ProgressSink {
 public:
  /// `out` outlives the sink. Without `progress` there is no bar.
  ConsoleSink(std::FILE* out, std::unique_ptr<ProgressBar> progress, ConsoleOptions options);
  ~ConsoleSink() override;

  void on_phase(Phase phase) override;
  void on_evaluation(const EvaluationProgress& evaluation) override;
  void on_step(const StepReport& report) override;
  void on_epoch(const EpochReport& report) override;
  void on_final(const FinalReport& report) override;
  void on_checkpoint(const CheckpointReport& report) override;
  void on_message(const std::string& message) override;

 private:
  void line(const std::string& text);
  void log_step(const StepReport& report);
  void begin_bar(const std::string& label, int64_t total, std::string_view unit);
  void end_bar();

  std::FILE* out_;
  std::unique_ptr<ProgressBar> progress_;
  ConsoleOptions options_;
  bool bar_running_ = false;
  bool said_training_ = false;
  Phase phase_ = Phase::Setup;
  // Steps of this epoch since its last line.
  Pace unlogged_warm_up_;
  Pace unlogged_;
};

/// "Epoch 00004 | Average Loss 0.6931 | Accuracy 0.5000 | Time 0.1234 | Time per Step 0.0123 | Time
/// per Evaluation Batch 0.0045"; the accuracy, or another metric by its title, is the validation
/// set's, the training batches' where the epoch had no validation. With the training set among the
/// evaluated parts each part has its number: "Train 0.5000 | Validation 0.4000 | Test 0.3000", or
/// "Train AUC 0.5000 | …". The last two are left out where nothing was measured; a layer-wise
/// evaluation has its whole time instead: "Evaluation Time 0.1234".
[[nodiscard]] std::string epoch_line(const EpochReport& report);

/// "Epoch 00004 | Step 00010 | Loss 0.6931 | Time 0.0123"; the step is counted from 1, and the time
/// is seconds per step.
[[nodiscard]] std::string step_line(const StepReport& report, double seconds_per_step);

/// "Remote Bytes per Step 123456 | Cache Hit Rate 0.8123 | Expected 0.8200"; without a row that is not
/// local there is no hit rate, and without a prediction none is expected.
[[nodiscard]] std::string remote_line(const RemoteSummary& remote);

/// The report as one JSON object without a line end; NaN and infinities are null.
[[nodiscard]] std::string to_json_line(const StepReport& report);
[[nodiscard]] std::string to_json_line(const EpochReport& report);
[[nodiscard]] std::string to_json_line(const FinalReport& report);
[[nodiscard]] std::string to_json_line(const CheckpointReport& report);

/// Passes every call to several sinks, in order.
class TeeSink final : public ProgressSink {
 public:
  explicit TeeSink(std::vector<ProgressSink*> sinks) : sinks_(std::move(sinks)) {}

  void on_phase(Phase phase) override;
  void on_mark() override;
  void on_evaluation(const EvaluationProgress& evaluation) override;
  void on_remote_meter(const std::shared_ptr<const RemoteMeter>& meter) override;
  void on_served_meter(const std::shared_ptr<const ServedMeter>& meter) override;
  void on_step(const StepReport& report) override;
  void on_epoch(const EpochReport& report) override;
  void on_final(const FinalReport& report) override;
  void on_checkpoint(const CheckpointReport& report) override;
  void on_message(const std::string& message) override;

 private:
  std::vector<ProgressSink*> sinks_;
};

/// Drops everything; also a base for sinks of a few calls.
class NullSink : public ProgressSink {
 public:
  void on_phase(Phase) override {}
  void on_step(const StepReport&) override {}
  void on_epoch(const EpochReport&) override {}
  void on_final(const FinalReport&) override {}
  void on_checkpoint(const CheckpointReport&) override {}
  void on_message(const std::string&) override {}
};

}  // namespace gnn::progress
