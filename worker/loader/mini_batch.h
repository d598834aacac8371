#pragma once

#include "worker/loader/device_copy.h"
#include "worker/sampling/subgraph.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace gnn::loader {

/// Where the time of a batch went. Seconds hold what it waited for other nodes.
struct BatchCost {
  double sample_seconds = 0;
  double fetch_seconds = 0;  ///< features and labels
};

/// A sampled neighbourhood, as one training step consumes it. All tensors are on the loader's
/// device.
struct MiniBatch {
  at::Tensor seeds;  ///< int64 [B], global node ids
  at::Tensor x;  ///< [num_sources of blocks[0], F], the stored dtype; undefined without features
  at::Tensor y;  ///< [B], the labels of the seeds; undefined without labels
  sampling::SampledSubgraph subgraph;
  int64_t batch_index = 0;  ///< this rank's batch in the epoch, from 0
  BatchCost cost{};         ///< of making it
};

void for_each_tensor(MiniBatch& batch, VisitTensor visit);

}  // namespace gnn::loader
