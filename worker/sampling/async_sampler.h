#pragma once

#include "common/result.h"
#include "worker/sampling/core/rng.h"
#include "worker/sampling/neighbor.h"
#include "worker/sampling/subgraph.h"

#include <ATen/core/Tensor.h>

#include <future>
#include <vector>

namespace gnn::sampling {

struct SampleRequest {
  std::vector<at::Tensor> seeds;  ///< per node type: int64 [S], global ids; undefined without any
  core::StreamPosition position;
  std::vector<ExcludedEdges> excluded = {};  ///< drawn edges that the batch must not have
};

/// Samples around seeds given by global ids, wherever the graph is.
class Sampler {
 public:
  virtual ~Sampler() = default;
  /// The future holds the subgraph, or why there is none.
  /// Threads: any.
  [[nodiscard]] virtual std::future<Result<SampledSubgraph>> submit(SampleRequest request) = 0;
  /// Bytes that it keeps in this process per sampling thread, without the graph.
  [[nodiscard]] virtual int64_t state_bytes_per_thread() const { return 0; }
};

/// Samples this process's graph on the calling thread: the future is ready on return. A loader
/// samples in parallel by calling it from several threads.
class LocalSampler final : public Sampler {
 public:
  explicit LocalSampler(NeighborSampler sampler) : sampler_(std::move(sampler)) {}
  [[nodiscard]] std::future<Result<SampledSubgraph>> submit(SampleRequest request) override;
  [[nodiscard]] int64_t state_bytes_per_thread() const override {
    return sampler_.state_bytes_per_thread();
  }

 private:
  NeighborSampler sampler_;
};

}  // namespace gnn::sampling
