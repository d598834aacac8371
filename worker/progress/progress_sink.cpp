#include "worker/progress/progress_sink.h"

#include <limits>

namespace gnn::progress {

double Accuracy::value() const {
  if (total == 0) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(correct) / static_cast<double>(total);
}

void Pace::add(double piece_seconds) {
  ++pieces;
  seconds += piece_seconds;
}

double Pace::seconds_per_piece() const {
  if (pieces == 0) return std::numeric_limits<double>::quiet_NaN();
  return seconds / static_cast<double>(pieces);
}

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::Setup:
      return "Setup";
    case Phase::Train:
      return "Train";
    case Phase::Validate:
      return "Validate";
    case Phase::Test:
      return "Test";
    case Phase::Checkpoint:
      return "Checkpoint";
    case Phase::Done:
      return "Done";
  }
  return "Unknown";
}

}  // namespace gnn::progress
