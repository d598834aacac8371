#include "worker/progress/loading_progress.h"

namespace gnn::progress {
namespace {

constexpr std::chrono::seconds kBetweenMessages{10};

}  // namespace

LoadingProgress::LoadingProgress(ProgressSink& sink, ProgressBar* bar, ProgressBarClock clock)
    : sink_(sink), bar_(bar), clock_(clock), said_(clock_()) {}

void LoadingProgress::begin(std::string_view label, int64_t total, std::string_view unit) {
  sink_.on_mark();
  label_ = label;
  unit_ = unit;
  total_ = total;
  if (bar_ != nullptr) bar_->begin(label, total, unit);
}

void LoadingProgress::advance_to(int64_t done, std::string_view note) {
  sink_.on_mark();
  if (bar_ != nullptr) return bar_->advance_to(done, note);
  const auto now = clock_();
  if (now - said_ < kBetweenMessages) return;
  said_ = now;
  std::string message = label_ + ": " + short_count(static_cast<double>(done));
  if (total_ > 0) message += " of " + short_count(static_cast<double>(total_));
  sink_.on_message(message + " " + unit_);
}

void LoadingProgress::end() {
  sink_.on_mark();
  if (bar_ != nullptr) bar_->end();
}

void LoadingProgress::say(std::string_view line) {
  sink_.on_mark();
  if (bar_ != nullptr) return bar_->say(line);
  sink_.on_message(std::string(line));
}

}  // namespace gnn::progress
