#pragma once

#include "common/api/gnn_job.h"

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <memory>
#include <vector>

namespace gnn::training {

/// The optimizer that spec.training.optimizer names, for parameters of one device, at least one.
[[nodiscard]] std::unique_ptr<torch::optim::Optimizer> make_optimizer(
    const api::Optimizer& options, const std::vector<at::Tensor>& parameters
);

}  // namespace gnn::training
