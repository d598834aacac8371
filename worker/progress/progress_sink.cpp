#include "worker/progress/progress_sink.h"

#include <limits>

namespace gnn::progress {

const std::string& EpochReport::metric() const {
  for (const std::optional<Measure>* part : {&validation, &test, &train_set})
    if (part->has_value()) return (*part)->metric;
  return train.metric;
}

StepSeconds& StepSeconds::operator+=(const StepSeconds& more) {
  wait += more.wait;
  forward += more.forward;
  backward += more.backward;
  reduce += more.reduce;
  optimizer += more.optimizer;
  total += more.total;
  return *this;
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
