#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/training/training_state.h"

#include <torch/optim/optimizer.h>

#include <cstdint>

namespace gnn::training {

/// The learning rate of each step, as spec.training.optimizer says. It is a function of the step's
/// position alone, so that a resumed run has the rates of one that never stopped.
/// Source: torch.optim.lr_scheduler's StepLR, CosineAnnealingLR, LinearLR and SequentialLR, each in
/// its closed form.
class LearningRate {
 public:
  /// Errors: Configuration naming the field if the training ends before the warm-up does.
  [[nodiscard]] static Result<LearningRate> create(
      const api::Training& training, int64_t steps_per_epoch
  );

  /// Of the step at `position`.
  [[nodiscard]] double at(const Position& position) const;

 private:
  LearningRate(const api::Training& training, int64_t steps_per_epoch);

  double initial_;
  api::LearningRateSchedule schedule_;
  int64_t steps_per_epoch_;
  int64_t length_;  // of the training, in the schedule's interval
};

/// From now on the optimizer's steps have this learning rate.
void set_learning_rate(torch::optim::Optimizer& optimizer, double learning_rate);

}  // namespace gnn::training
