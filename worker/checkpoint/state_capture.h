#pragma once

#include "common/result.h"
#include "worker/checkpoint/checkpoint_state.h"

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <optional>
#include <string>
#include <vector>

namespace gnn::checkpoint {

/// Copies of the parameters and buffers on the CPU, by their names in the module, in order of
/// registration.
[[nodiscard]] std::vector<CheckpointTensor> capture_module(const torch::nn::Module& module);

/// Copies the values into the module's own tensors, on any device: an optimizer that holds them
/// still does.
/// Errors: Configuration naming the first tensor that is missing, unknown or of another shape or
/// dtype; then nothing was changed.
[[nodiscard]] Status restore_module(
    torch::nn::Module& module, const std::vector<CheckpointTensor>& tensors
);

/// Copies of each parameter's state on the CPU, as "<index of the parameter>/<field>". Parameters
/// without a step so far have no entries.
/// Errors: Internal unless the optimizer is an Adam, AdamW or SGD.
[[nodiscard]] Result<std::vector<CheckpointTensor>> capture_optimizer(
    const torch::optim::Optimizer& optimizer
);

/// The first parameter or buffer, by its name, or part of the optimizer's state, as
/// "<field> of <parameter>", that holds a NaN or an infinity; nothing if all are finite.
/// Errors: Internal as in capture_optimizer().
[[nodiscard]] Result<std::optional<std::string>> find_not_finite(
    const torch::nn::Module& module, const torch::optim::Optimizer& optimizer
);

/// Bytes of the state that the optimizer keeps now; 0 for one that capture_optimizer() does not
/// know.
[[nodiscard]] int64_t optimizer_bytes(const torch::optim::Optimizer& optimizer);

/// Replaces the optimizer's state. `module` has the names of its parameters, for messages.
/// Errors: Configuration as in restore_module(), and Internal as in capture_optimizer().
[[nodiscard]] Status restore_optimizer(
    const torch::nn::Module& module,
    torch::optim::Optimizer& optimizer,
    const std::vector<CheckpointTensor>& tensors
);

}  // namespace gnn::checkpoint
