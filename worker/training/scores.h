#pragma once

#include "worker/loader/mini_batch.h"
#include "worker/nn/models/model.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace gnn::training {

/// What the model says of a batch, beside the truth. Each task has its own shapes; a classification
/// of items has these.
struct Scores {
  at::Tensor logits;  ///< float [items, classes], on the model's device
  at::Tensor labels;  ///< int64 [items], on the same device
};

/// Runs the model on a mini-batch of a homogeneous graph. Features become float from any dtype.
[[nodiscard]] Scores scores_of(nn::NodeModel& model, const loader::MiniBatch& batch);

/// The mean cross entropy of a classification, a scalar.
[[nodiscard]] at::Tensor cross_entropy(const Scores& scores);

/// How many labels have the highest logit; among equals the first counts. An int64 scalar on the
/// scores' device.
[[nodiscard]] at::Tensor count_correct(const Scores& scores);

}  // namespace gnn::training
