#pragma once

#include "worker/sampling/subgraph.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace gnn::training {

/// What one training step consumes. All tensors are on the loader's device.
struct MiniBatch {
  at::Tensor seeds;  ///< int64 [B], global node ids.
  at::Tensor x;      ///< [num_src of blocks[0], F], the stored dtype; undefined without features.
  at::Tensor y;      ///< [B], the labels of the seeds; undefined without labels.
  sampling::SampledSubgraph subgraph;
  int64_t batch_index = 0;  ///< This rank's batch in the epoch, from 0.
};

}  // namespace gnn::training
