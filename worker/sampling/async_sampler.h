#pragma once

#include "common/executor.h"
#include "common/result.h"
#include "worker/sampling/core/rng.h"
#include "worker/sampling/neighbor.h"
#include "worker/sampling/subgraph.h"

#include <ATen/core/Tensor.h>

#include <functional>
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
  using Done = std::function<void(Result<SampledSubgraph>)>;

  virtual ~Sampler() = default;
  /// Samples and calls `done` with the subgraph, or why there is none: before it returns, or in a
  /// task of `executor`. If it waits for other nodes, it holds no thread meanwhile, and what it
  /// computes on their replies runs in such tasks, too.
  /// Threads: any.
  virtual void start(SampleRequest request, const Executor& executor, Done done) = 0;
  /// The same for one who waits: what is computed on replies runs on the threads that receive them.
  [[nodiscard]] std::future<Result<SampledSubgraph>> submit(SampleRequest request);
  /// Bytes that it keeps in this process per batch that is being sampled, without the graph.
  [[nodiscard]] virtual int64_t state_bytes_per_batch() const { return 0; }
};

/// Samples this process's graph on the calling thread, before start() returns. A loader samples in
/// parallel by calling it from several threads.
class LocalSampler final : public Sampler {
 public:
  explicit LocalSampler(NeighborSampler sampler) : sampler_(std::move(sampler)) {}
  void start(SampleRequest request, const Executor& executor, Done done) override;
  [[nodiscard]] int64_t state_bytes_per_batch() const override {
    return sampler_.state_bytes_per_thread();
  }

 private:
  NeighborSampler sampler_;
};

}  // namespace gnn::sampling
