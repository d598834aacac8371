#pragma once

#include "common/api/gnn_job.h"
#include "worker/graph/dataset.h"
#include "worker/sampling/device/sampling_device.h"
#include "worker/tasks/items.h"

#include <cstdint>
#include <vector>

namespace gnn::tasks {

/// What the samplers of a job sample.
struct SampledData {
  const api::Sampling& sampling;
  const api::Training& training;
  const graph::Dataset& dataset;
  std::vector<int64_t> edge_types;  ///< in the order of the relations
  bool in_steps = false;            ///< other nodes draw from the lists that are theirs
};

/// Neighbours that are drawn by an edge type instead of sampling.fanout; empty: those.
[[nodiscard]] std::vector<int64_t> own_fanout(
    const api::Sampling& sampling, const graph::EdgeTypeData& type
);

/// The most nodes of each type that a batch starts from.
[[nodiscard]] std::vector<int64_t> seeds_of(const SampledData& data, Use use);

/// The most that a batch of a part starts from: the ends of links with those of their negatives, all
/// different, and the edges that it leaves out. Of an extracted part the lists of its own nodes alone are
/// known, for hops that take all neighbours.
[[nodiscard]] sampling::device::LargestBatch largest_batch(
    const SampledData& data, api::Part part, Use use
);

/// The sampler of a part with that batch, for memory_of_sampler(): without arrays.
[[nodiscard]] sampling::device::SamplerSpec sampler_spec(
    const SampledData& data, api::Part part, Use use
);

}  // namespace gnn::tasks
