#include "worker/tracking/tracking_sink.h"

#include <cmath>
#include <utility>
#include <vector>

namespace gnn::tracking {
namespace {

// Puts down what there is.
class Scalars {
 public:
  void add(std::string name, double value) {
    scalars_.push_back({.name = std::move(name), .value = value});
  }
  void add(std::string name, const std::optional<double>& value) {
    if (value) add(std::move(name), *value);
  }
  void add_rate(std::string name, int64_t count, double seconds) {
    if (seconds > 0) add(std::move(name), static_cast<double>(count) / seconds);
  }
  void add_measure(const std::string& part, const std::optional<progress::Measure>& measure) {
    if (measure && !measure->metric.empty() && !std::isnan(measure->value))
      add(part + "/" + measure->metric, measure->value);
  }
  [[nodiscard]] std::vector<Scalar> take() { return std::move(scalars_); }

 private:
  std::vector<Scalar> scalars_;
};

}  // namespace

TrackingSink::TrackingSink(
    int64_t log_steps, const Clock& clock, std::function<void(const Record&)> tell
)
    : log_steps_(log_steps), clock_(clock), tell_(std::move(tell)) {}

void TrackingSink::start_at(int64_t step) {
  if (started_) return;
  started_ = true;
  tell_({.step = step, .time = clock_.now(), .start = true});
}

void TrackingSink::tell(int64_t step, std::vector<Scalar> scalars) {
  tell_({.step = step, .time = clock_.now(), .scalars = std::move(scalars)});
}

void TrackingSink::on_step(const progress::StepReport& report) {
  const int64_t step = report.global_step + 1;
  start_at(step);
  learning_rate_ = report.learning_rate;
  if (log_steps_ == 0 || (report.step + 1) % log_steps_ != 0) return;
  Scalars scalars;
  scalars.add("step/loss", report.loss);
  scalars.add("step/learning_rate", report.learning_rate);
  scalars.add("step/gradient_norm", report.gradient_norm);
  scalars.add("step/seconds", report.seconds.total);
  scalars.add_rate("step/sampled_edges_per_second", report.sampled_edges, report.seconds.total);
  tell(step, scalars.take());
}

void TrackingSink::on_epoch(const progress::EpochReport& report) {
  const int64_t step = report.global_step.value_or((report.epoch + 1) * report.steps);
  start_at(step);
  Scalars scalars;
  scalars.add("epoch/loss", report.average_loss);
  scalars.add("epoch/learning_rate", learning_rate_);
  scalars.add("epoch/seconds", report.seconds);
  if (report.steady_steps.pieces > 0)
    scalars.add("epoch/seconds_per_step", report.steady_steps.seconds_per_piece());
  scalars.add("epoch/evaluation_seconds", report.evaluation.seconds);
  scalars.add_rate(
      "epoch/sampled_edges_per_second", report.sampled_edges, report.step_seconds.total
  );
  scalars.add_measure("train", report.train);
  scalars.add_measure("train_set", report.train_set);
  scalars.add_measure("validation", report.validation);
  scalars.add_measure("test", report.test);
  tell(step, scalars.take());
}

void TrackingSink::on_final(const progress::FinalReport& report) {
  if (report.preempted) return;  // another process goes on
  Scalars scalars;
  for (const auto& [name, value] : report.metrics)
    if (!std::isnan(value)) scalars.add("final/" + name, value);
  tell(report.global_steps, scalars.take());
}

}  // namespace gnn::tracking
