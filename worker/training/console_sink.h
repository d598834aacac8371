#pragma once

#include "common/progress.h"
#include "worker/training/progress_sink.h"

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gnn::training {

enum class ConsoleFormat {
  Text,  ///< the tutorials' lines: "Epoch 00000 | Average Loss 1.0986 | Accuracy 0.3333 | Time
         ///< 0.1234"
  Json,  ///< one object a line, with every number of the reports
};

struct ConsoleOptions {
  ConsoleFormat format = ConsoleFormat::Text;
  bool report_steps = false;  ///< Json: a line for every step too
};

/// Writes a run's progress for people (lines on `out`, a bar on `progress`) or for programs (JSON
/// lines on `out`). Only rank 0 should have one: the reports are global.
class ConsoleSink final : public ProgressSink {
 public:
  /// `out` outlives the sink; `progress` may be null: no bar.
  ConsoleSink(std::FILE* out, std::unique_ptr<Progress> progress, ConsoleOptions options);
  ~ConsoleSink() override;

  void on_phase(Phase phase) override;
  void on_step(const StepReport& report) override;
  void on_epoch(const EpochReport& report) override;
  void on_final(const FinalReport& report) override;
  void on_checkpoint(const CheckpointReport& report) override;
  void on_message(const std::string& message) override;

 private:
  void line(const std::string& text);
  void end_bar();

  std::FILE* out_;
  std::unique_ptr<Progress> progress_;
  ConsoleOptions options_;
  bool bar_running_ = false;
  bool said_training_ = false;
};

/// "Epoch 00004 | Average Loss 0.6931 | Accuracy 0.5000 | Time 0.1234"; the accuracy is the
/// validation set's, the training batches' where the epoch had no validation.
[[nodiscard]] std::string epoch_line(const EpochReport& report);

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
  void on_step(const StepReport& report) override;
  void on_epoch(const EpochReport& report) override;
  void on_final(const FinalReport& report) override;
  void on_checkpoint(const CheckpointReport& report) override;
  void on_message(const std::string& message) override;

 private:
  std::vector<ProgressSink*> sinks_;
};

/// Drops everything.
class NullSink final : public ProgressSink {
 public:
  void on_phase(Phase) override {}
  void on_step(const StepReport&) override {}
  void on_epoch(const EpochReport&) override {}
  void on_final(const FinalReport&) override {}
  void on_checkpoint(const CheckpointReport&) override {}
  void on_message(const std::string&) override {}
};

}  // namespace gnn::training
