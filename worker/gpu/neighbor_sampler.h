#pragma once

#include "common/result.h"
#include "worker/gpu/kernels/largest_batch.h"
#include "worker/gpu/kernels/sampled_batch.h"
#include "worker/gpu/stream.h"
#include "worker/sampling/core/drawn_lists.h"
#include "worker/sampling/core/excluded_pairs.h"
#include "worker/sampling/core/neighbor_kernel.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace gnn::gpu {

struct NeighborSamplerOptions {
  sampling::core::KernelOptions kernel;
  /// Threads that read neighbour lists at once; 0: as many as the GPU runs. Lists in the host's memory
  /// are read as fast by fewer, which leaves the GPU to others.
  int64_t most_reading_threads = 0;
  /// It takes the memory for this one when it is made: what sampler_memory() says. Larger ones take
  /// more. Nothing: as batches come.
  std::optional<LargestBatch> largest{};
};

/// core::NeighborKernel on a GPU: the same ids, offsets and order, bit for bit. One batch at a time:
/// begin() gives it to the GPU and returns, wait() returns it, and it lasts until the next begin().
/// For several batches in flight use several samplers, each with a stream of its own.
/// Threads: one at a time. It uses the GPU that was current when it was made.
class NeighborSampler {
 public:
  /// `num_nodes` per node type. What `relations` points to is memory of the GPU, or pinned memory of
  /// the host (PinnedRange), and stays there. The sampler's work goes to `stream`.
  /// Errors: Configuration in a build without CUDA kernels, and for a largest batch that begin() refuses;
  /// OutOfMemory; Internal with CUDA's reason.
  [[nodiscard]] static Result<NeighborSampler> create(
      std::vector<int64_t> num_nodes,
      std::vector<sampling::core::RelationView> relations,
      NeighborSamplerOptions options,
      Stream stream
  );
  ~NeighborSampler();
  NeighborSampler(NeighborSampler&&) noexcept;
  NeighborSampler& operator=(NeighborSampler&&) noexcept;

  /// Begins a batch around `seeds`, per node type, without the edges `excluded`, which are given as to
  /// core::NeighborKernel::sample(): all in host memory that may be reused at once. Waits
  /// for the GPU only where its own memory grows, and at hops that take all neighbours.
  /// Errors: Data naming the first seed that is not in the graph; Configuration for a batch of 2^31
  /// nodes of a type, or edges of a hop, or more; OutOfMemory; Internal.
  [[nodiscard]] Status begin(
      std::span<const std::span<const int64_t>> seeds,
      const sampling::core::StreamPosition& position,
      std::span<const sampling::core::ExcludedPairs* const> excluded = {}
  );

  /// The same in steps, where some lists lie elsewhere: begin_hops(), then for each hop in turn
  /// destinations() of every relation, and add_hop(), then wait(). The relations have the lists from
  /// their first_node on. Both wait for the GPU, which sends the next hop's nodes.
  /// Errors: those of begin(), of add_hop() too, after which the batch is over.
  [[nodiscard]] Status begin_hops(
      std::span<const std::span<const int64_t>> seeds,
      const sampling::core::StreamPosition& position,
      std::span<const sampling::core::ExcludedPairs* const> excluded = {}
  );
  /// Whose in-neighbours by a relation the next hop draws, in host memory until the hop is added; empty
  /// if its fan-out there is 0.
  [[nodiscard]] std::span<const int64_t> destinations(size_t relation) const;
  /// Ends the hop: one element of `drawn` per relation, for its destinations in their order, as
  /// core::NeighborKernel::add_hop() takes them. For the nodes of a piece without counts the GPU draws.
  [[nodiscard]] Status add_hop(std::span<const sampling::core::DrawnLists> drawn);

  /// The batch that was begun, once it is there. Later work of the same stream may use its arrays;
  /// that of others once wait() has returned.
  /// Errors: Internal with CUDA's reason.
  [[nodiscard]] Result<SampledBatch> wait();

  /// Bytes of GPU memory that it holds.
  [[nodiscard]] size_t device_bytes() const;

 private:
  class Impl;
  explicit NeighborSampler(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace gnn::gpu
