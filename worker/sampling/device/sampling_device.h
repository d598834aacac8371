#pragma once

#include "common/result.h"
#include "worker/gpu/kernels/largest_batch.h"
#include "worker/gpu/kernels/sampled_batch.h"
#include "worker/sampling/core/drawn_lists.h"
#include "worker/sampling/core/excluded_pairs.h"
#include "worker/sampling/core/neighbor_kernel.h"
#include "worker/sampling/core/relation_view.h"
#include "worker/sampling/core/rng.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace gnn::sampling::device {

/// The most that a batch starts from, and may come to.
using gpu::LargestBatch;
using gpu::ListLengths;

/// Samples batches on a device, one at a time: begin(), wait(), copies of what the model takes of the
/// batch, finish(). Its arrays are used again by the next begin().
/// Threads: one at a time.
class BatchSampler {
 public:
  virtual ~BatchSampler() = default;

  /// Begins a batch around `seeds`, per node type, in [0, num_nodes), which the caller has checked.
  /// `excluded` is empty or has one element per relation, as core::NeighborKernel::sample() takes them.
  /// Errors: Configuration for a batch that is too large; OutOfMemory.
  [[nodiscard]] virtual Status begin(
      std::span<const std::span<const int64_t>> seeds,
      const core::StreamPosition& position,
      std::span<const core::ExcludedPairs* const> excluded
  ) = 0;
  /// The same in steps, where some lists lie elsewhere: begin_hops(), then for each hop in turn
  /// destinations() of every relation, and add_hop(), then wait(). The relations have the lists from
  /// their first_node on. What waits for the device is brief: it has one hop to do.
  /// Errors: those of begin(), of add_hop() too, after which the batch is over.
  [[nodiscard]] virtual Status begin_hops(
      std::span<const std::span<const int64_t>> seeds,
      const core::StreamPosition& position,
      std::span<const core::ExcludedPairs* const> excluded
  ) = 0;
  /// Whose in-neighbours by a relation the next hop draws, in memory of the host until the hop is added;
  /// empty if its fan-out there is 0.
  [[nodiscard]] virtual std::span<const int64_t> destinations(size_t relation) const = 0;
  /// Ends the hop: one element of `drawn` per relation, for its destinations in their order, as
  /// core::NeighborKernel::add_hop() takes them. For the nodes of a piece without counts the device
  /// draws.
  [[nodiscard]] virtual Status add_hop(std::span<const core::DrawnLists> drawn) = 0;
  /// Waits for the batch that was begun.
  [[nodiscard]] virtual Result<gpu::SampledBatch> wait() = 0;
  /// A tensor of the device that holds the first `count` elements of an array of that batch once
  /// finish() has returned. Throws what torch throws.
  [[nodiscard]] virtual at::Tensor copy_of(
      const void* array, int64_t count, at::ScalarType dtype
  ) = 0;
  /// Waits for the copies.
  [[nodiscard]] virtual Status finish() = 0;
};

/// What a batch sampler samples.
struct SamplerSpec {
  std::vector<int64_t> num_nodes;  ///< per node type
  /// Whose arrays lie where SamplingDevice::place() put them.
  std::vector<core::RelationView> relations;
  core::KernelOptions options;
  /// The sampler takes the memory for it when it is made: what memory_of_sampler() says. Nothing: as
  /// batches come.
  std::optional<LargestBatch> largest{};
};

/// Of a sampler's batches.
struct BatchLimits {
  /// The most that have a sampler of the device at the same time.
  size_t in_flight = std::numeric_limits<size_t>::max();
  std::optional<LargestBatch> largest{};  ///< as SamplerSpec has it
};

/// A processor that samples: a GPU, or in tests an emulated one.
/// Threads: any.
class SamplingDevice {
 public:
  /// Bytes where the device reads them, for as long as `owner` lives.
  struct Placed {
    std::shared_ptr<const void> owner;
    const std::byte* data = nullptr;
  };

  virtual ~SamplingDevice() = default;
  /// Has the device read `bytes`, which live as long as the result and do not change: in place, or a
  /// copy in its memory.
  /// Errors: OutOfMemory; Configuration if it cannot.
  [[nodiscard]] virtual Result<Placed> place(std::span<const std::byte> bytes) = 0;
  /// Errors: OutOfMemory; Configuration if it cannot sample, or not the largest batch.
  [[nodiscard]] virtual Result<std::unique_ptr<BatchSampler>> make_sampler(SamplerSpec spec) = 0;
};

}  // namespace gnn::sampling::device
