#pragma once

#include "common/result.h"
#include "worker/training/checkpoint.h"

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <vector>

namespace gnn::training {

/// Parameters and buffers by their names in the module, in order of registration; copies on the
/// CPU.
[[nodiscard]] std::vector<CheckpointTensor> capture_module(const torch::nn::Module& module);

/// Copies the values into the module's own tensors (on whatever device), so that the optimizer
/// keeps its hold. Errors: Configuration naming the first tensor that is missing, unknown or of
/// another shape or dtype; then nothing was changed.
[[nodiscard]] Status restore_module(
    torch::nn::Module& module, const std::vector<CheckpointTensor>& tensors
);

/// State of each parameter of an Adam, AdamW or SGD, under "<index of the parameter>/<what>";
/// copies on the CPU. Parameters that have had no step have no entries.
[[nodiscard]] Result<std::vector<CheckpointTensor>> capture_optimizer(
    const torch::optim::Optimizer& optimizer
);

/// Bytes of the state that the optimizer keeps by now; 0 of a kind that capture_optimizer() does
/// not know.
[[nodiscard]] int64_t optimizer_bytes(const torch::optim::Optimizer& optimizer);

/// Errors: Configuration as in restore_module.
[[nodiscard]] Status restore_optimizer(
    torch::optim::Optimizer& optimizer, const std::vector<CheckpointTensor>& tensors
);

}  // namespace gnn::training
