#pragma once

#include "worker/training/progress_sink.h"

#include <cstdint>
#include <string>

namespace gnn::training {

/// Counts the marks of progress, and passes over all else.
class CountingSink final : public ProgressSink {
 public:
  void on_phase(Phase) override {}
  void on_mark() override { ++marks; }
  void on_step(const StepReport&) override {}
  void on_epoch(const EpochReport&) override {}
  void on_final(const FinalReport&) override {}
  void on_checkpoint(const CheckpointReport&) override {}
  void on_message(const std::string&) override {}

  int64_t marks = 0;
};

}  // namespace gnn::training
