#include "worker/training/learning_rate.h"

#include <cmath>
#include <numbers>
#include <optional>
#include <string>

namespace gnn::training {

LearningRate::LearningRate(const api::Training& training, int64_t steps_per_epoch)
    : initial_(training.optimizer.learning_rate.value()),
      schedule_(training.optimizer.schedule.value_or(api::LearningRateSchedule{})),
      steps_per_epoch_(steps_per_epoch),
      length_(
          schedule_.interval == api::ScheduleInterval::Epoch ? training.epochs
                                                             : training.epochs * steps_per_epoch
      ) {}

Result<LearningRate> LearningRate::create(const api::Training& training, int64_t steps_per_epoch) {
  LearningRate made(training, steps_per_epoch);
  const std::optional<api::Warmup>& warmup = made.schedule_.warmup;
  if (!warmup || warmup->length < made.length_) return made;
  const bool epochs = made.schedule_.interval == api::ScheduleInterval::Epoch;
  return fail(
      ErrorKind::Configuration,
      "spec.training.optimizer.schedule.warmup.length: expected fewer than the " +
          std::to_string(made.length_) + (epochs ? " epochs" : " steps") +
          " of the training, found " + std::to_string(warmup->length)
  );
}

double LearningRate::at(const Position& position) const {
  const int64_t count = schedule_.interval == api::ScheduleInterval::Epoch
                            ? position.epoch
                            : position.epoch * steps_per_epoch_ + position.step;
  const int64_t warm_at = schedule_.warmup ? schedule_.warmup->length : 0;
  if (count < warm_at) {
    const double start = schedule_.warmup->start_factor.value();
    const double done = static_cast<double>(count) / static_cast<double>(warm_at);
    return initial_ * (start + (1 - start) * done);
  }
  switch (schedule_.type) {
    case api::ScheduleType::Constant:
      break;
    case api::ScheduleType::Step: {
      const double gamma = schedule_.gamma.value_or(api::Decimal{"0.1"}).value();
      const int64_t changes = (count - warm_at) / schedule_.step_size.value_or(1);
      return initial_ * std::pow(gamma, static_cast<double>(changes));
    }
    case api::ScheduleType::Cosine: {
      const double least = schedule_.min_learning_rate.value_or(api::Decimal{"0"}).value();
      const double done =
          static_cast<double>(count - warm_at) / static_cast<double>(length_ - warm_at);
      return least + (initial_ - least) * (1 + std::cos(std::numbers::pi * done)) / 2;
    }
  }
  return initial_;
}

void set_learning_rate(torch::optim::Optimizer& optimizer, double learning_rate) {
  for (torch::optim::OptimizerParamGroup& group : optimizer.param_groups())
    group.options().set_lr(learning_rate);
}

}  // namespace gnn::training
