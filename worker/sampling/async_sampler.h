#pragma once

#include "common/result.h"
#include "worker/sampling/neighbor.h"
#include "worker/sampling/rng.h"
#include "worker/sampling/subgraph.h"

#include <ATen/core/Tensor.h>

#include <future>

namespace gnn::sampling {

struct SampleRequest {
  at::Tensor seeds;  ///< int64 [S], global ids.
  StreamPosition position;
};

/// Samples by global ids, wherever the graph lies.
class Sampler {
 public:
  virtual ~Sampler() = default;
  /// Threads: any. The future holds the subgraph or why there is none.
  [[nodiscard]] virtual std::future<Result<SampledSubgraph>> submit(SampleRequest request) = 0;
};

/// The graph of this process: samples on the calling thread, so that the future is ready at once. A
/// loader's threads are its parallelism, one mini-batch each.
class LocalSampler final : public Sampler {
 public:
  explicit LocalSampler(NeighborSampler sampler) : sampler_(std::move(sampler)) {}
  [[nodiscard]] std::future<Result<SampledSubgraph>> submit(SampleRequest request) override;

 private:
  NeighborSampler sampler_;
};

}  // namespace gnn::sampling
