#pragma once

#include "worker/checkpoint/checkpoint_state.h"

#include <optional>
#include <string>
#include <vector>

namespace gnn::checkpoint {

/// The name of the first tensor that holds a NaN or an infinity; nothing if all values are finite.
/// Integers always are. All tensors of floating point are on one device, which is waited for once.
[[nodiscard]] std::optional<std::string> first_not_finite(
    const std::vector<CheckpointTensor>& tensors
);

}  // namespace gnn::checkpoint
