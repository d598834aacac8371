#pragma once

#include "common/result.h"
#include "worker/sampling/core/item_sampler.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace gnn::loader {

/// Checks that every id lies in [0, limit).
/// Shapes: ids int64 [K], CPU, contiguous; TORCH_CHECK otherwise.
/// Errors: Data naming the first bad id of `name`.
[[nodiscard]] Status check_ids(const at::Tensor& ids, const char* name, int64_t limit);

/// Checks where an epoch is to start.
/// Errors: Configuration unless epoch >= 0 and first_batch is in [0, batches of this rank].
[[nodiscard]] Status check_start(
    const sampling::core::ItemSampler& items, int64_t epoch, int64_t first_batch
);

}  // namespace gnn::loader
