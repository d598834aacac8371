#pragma once

#include "common/api/gnn_job.h"
#include "worker/sampling/neighbor.h"

namespace gnn::tasks {

/// How a spec samples neighbours for `part`: evaluations may have fan-outs of their own.
[[nodiscard]] inline sampling::NeighborSamplerOptions sampler_options(
    const api::Sampling& sampling, const api::Training& training, api::Part part
) {
  const auto& evaluated = training.evaluation.fanout;
  return {
      .fanout = part != api::Part::Train && evaluated ? *evaluated : sampling.fanout,
      .replace = sampling.replace,
      .rule = sampling.rule == api::SamplingRule::AllSeen ? sampling::SamplingRule::AllSeen
                                                          : sampling::SamplingRule::NewNodes,
  };
}

}  // namespace gnn::tasks
