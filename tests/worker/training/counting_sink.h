#pragma once

#include "worker/progress/progress_sink.h"

#include <cstdint>
#include <string>

namespace gnn::training {

/// Counts the marks of progress, and passes over all else.
class CountingSink : public progress::ProgressSink {
 public:
  void on_phase(progress::Phase) override {}
  void on_mark() override { ++marks; }
  void on_step(const progress::StepReport&) override {}
  void on_epoch(const progress::EpochReport&) override {}
  void on_final(const progress::FinalReport&) override {}
  void on_checkpoint(const progress::CheckpointReport&) override {}
  void on_message(const std::string&) override {}

  int64_t marks = 0;
};

}  // namespace gnn::training
