#pragma once

#include "common/api/gnn_job.h"
#include "worker/loader/mini_batch.h"
#include "worker/nn/models/model.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace gnn::training {

/// What the model says of a batch, beside the truth. Each task has its own shapes; a classification
/// of items has these.
struct Scores {
  at::Tensor logits;  ///< float [items, classes], on the model's device
  at::Tensor labels;  ///< int64 [items], on the same device
};

/// The type of the rows that a model gets, from which it computes as spec.training.precision says:
/// float32 or bfloat16.
[[nodiscard]] at::ScalarType input_type(const api::Training& training);

/// Runs the model on a mini-batch of a homogeneous graph. Features become `inputs` from any dtype.
[[nodiscard]] Scores scores_of(
    nn::NodeModel& model, const loader::MiniBatch& batch, at::ScalarType inputs = at::kFloat
);

/// The mean cross entropy of a classification, a scalar; weighted by the classes of the items, if
/// there are weights: float [classes] on the scores' device, or undefined.
[[nodiscard]] at::Tensor cross_entropy(const Scores& scores, const at::Tensor& class_weights = {});

/// The sum of the weights of the items' classes; nothing if `class_weights` is undefined. Waits for a
/// GPU.
[[nodiscard]] std::optional<double> weight_of(
    const Scores& scores, const at::Tensor& class_weights
);

/// The class with the highest of each item's logits [items, classes], the first of equals; -1 where a
/// logit is NaN. int64 [items].
[[nodiscard]] at::Tensor answers_of(const at::Tensor& logits);

/// How many labels are the answers. An int64 scalar on the scores' device.
[[nodiscard]] at::Tensor count_correct(const Scores& scores);

}  // namespace gnn::training
