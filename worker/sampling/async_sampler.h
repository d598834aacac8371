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
  /// Bytes that it keeps in this process for each thread that samples, the graph not counted.
  [[nodiscard]] virtual int64_t state_bytes_per_thread() const { return 0; }
};

/// The graph of this process: samples on the calling thread, so that the future is ready at once. A
/// loader's threads are its parallelism, one mini-batch each.
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
