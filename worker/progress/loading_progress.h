#pragma once

#include "common/progress_bar.h"
#include "worker/progress/progress_sink.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace gnn::progress {

/// Tells of reading or making a data set where no bar is seen: each call is a mark, so that only a
/// rank that stands still looks hung, and what takes long says every ten seconds how far it is.
/// Threads: one.
class LoadingProgress final : public ProgressBar {
 public:
  /// `sink` and `bar` outlive it. `bar` is shown, too; it may be null.
  explicit LoadingProgress(
      ProgressSink& sink,
      ProgressBar* bar = nullptr,
      ProgressBarClock clock = &std::chrono::steady_clock::now
  );

  void begin(std::string_view label, int64_t total, std::string_view unit) override;
  void advance_to(int64_t done, std::string_view note) override;
  void end() override;
  void say(std::string_view line) override;

 private:
  ProgressSink& sink_;
  ProgressBar* bar_;
  ProgressBarClock clock_;
  std::string label_;
  std::string unit_;
  int64_t total_ = 0;
  std::chrono::steady_clock::time_point said_;
};

}  // namespace gnn::progress
