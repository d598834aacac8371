#pragma once

#include "common/api/gnn_job.h"
#include "worker/sampling/neighbor.h"

#include <cstdint>
#include <vector>

namespace gnn::tasks {

/// How a spec samples neighbours, by the fan-outs of training or of evaluation.
[[nodiscard]] inline sampling::NeighborSamplerOptions sampler_options(
    const api::Sampling& sampling, const std::vector<int64_t>& fanout
) {
  return {
      .fanout = fanout,
      .replace = sampling.replace,
      .rule = sampling.rule == api::SamplingRule::AllSeen ? sampling::SamplingRule::AllSeen
                                                          : sampling::SamplingRule::NewNodes,
  };
}

}  // namespace gnn::tasks
