#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace gnn::tasks {

/// What Balanced weights are counted from.
struct LabelledItems {
  at::Tensor labels;          ///< int64 [items], -1 for none; undefined where they are not here
  at::Tensor training_items;  ///< int64 [training items], places in `labels`
  int64_t num_classes = 0;
};

/// The weight of each class in the loss, float [classes] on the CPU; undefined without `weights`. A
/// class without training items weighs 0.
/// Errors: Configuration naming the field unless there is a weight for each class.
[[nodiscard]] Result<at::Tensor> class_weights_of(
    const std::optional<api::ClassWeights>& weights, const LabelledItems& items
);

}  // namespace gnn::tasks
