#pragma once

#include "common/result.h"
#include "worker/gpu/kernels/largest_batch.h"
#include "worker/gpu/kernels/launch_shape.h"
#include "worker/gpu/kernels/neighbor_steps.h"
#include "worker/sampling/core/excluded_pairs.h"
#include "worker/sampling/core/neighbor_kernel.h"
#include "worker/sampling/core/relation_view.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace gnn::gpu {

/// A sampler, and its largest batch.
struct SamplerShape {
  std::vector<int64_t> num_nodes;                       ///< per node type
  std::vector<sampling::core::RelationView> relations;  ///< of which no array is read
  sampling::core::KernelOptions options{};
  LargestBatch largest{};
};

/// What sampling takes of a device's memory, in bytes.
struct SamplerMemory {
  size_t sampler = 0;             ///< of one sampler, with the batch that it has sampled last
  size_t batch = 0;               ///< of one batch, copied out of its sampler, at most
  size_t pinned = 0;              ///< of the host's memory, by one sampler
  std::vector<int64_t> arrays{};  ///< as NeighborSteps::reserve() takes them
};

namespace internal {

// A device that allocates and does nothing: what is left of a sampler's work is what it asks for.
class CountingDevice {
 public:
  explicit CountingDevice(const std::vector<ListLengths>& lists) : lists_(lists) {}

  template <class Body>
  void launch(const Body&, const LaunchShape&) {}
  // reinterpret_cast: an address that is not null, which nobody reads.
  [[nodiscard]] void* allocate(size_t) { return reinterpret_cast<void*>(alignof(int64_t)); }
  void free(void*) {}
  [[nodiscard]] void* allocate_host(size_t bytes) { return ::operator new(bytes); }
  void free_host(void* memory) { ::operator delete(memory); }
  void copy_within(void*, const void*, size_t) {}
  void upload(void*, const void*, size_t) {}
  void download(void*, const void*, size_t) {}
  void fill(void*, int, size_t) {}
  void wait() {}
  // Of a hop that takes all neighbours of so many nodes, of which only a device knows how many there
  // are.
  [[nodiscard]] int64_t most_edges(int64_t relation, int64_t nodes) const {
    return lists_.at(static_cast<size_t>(relation)).most_edges(nodes);
  }

 private:
  const std::vector<ListLengths>& lists_;
};

}  // namespace internal

/// What a sampler of these steps, and each of its batches, takes of memory at most, as long as no batch
/// is larger.
/// Errors: those of NeighborSteps::begin().
[[nodiscard]] inline Result<SamplerMemory> sampler_memory(
    const SamplerShape& shape, const StepOptions& options = {}
) {
  const LargestBatch& largest = shape.largest;
  internal::CountingDevice device(largest.lists);
  NeighborSteps<internal::CountingDevice> steps(
      device, shape.num_nodes, shape.relations, shape.options, options
  );
  if (largest.in_steps) steps.ask_for_steps();
  const std::vector<int64_t> ids(static_cast<size_t>(
      largest.seeds.empty() ? 0 : *std::max_element(largest.seeds.begin(), largest.seeds.end())
  ));
  std::vector<std::span<const int64_t>> seeds;
  for (const int64_t count : largest.seeds)
    seeds.push_back(std::span(ids).first(static_cast<size_t>(count)));
  std::vector<sampling::core::ExcludedPairs> pairs(largest.excluded.size());
  std::vector<const sampling::core::ExcludedPairs*> excluded;
  for (size_t i = 0; i < pairs.size(); ++i) {
    for (int64_t pair = 0; pair < largest.excluded[i]; ++pair) pairs[i].add(pair, pair);
    pairs[i].build();
    excluded.push_back(&pairs[i]);
  }
  GNN_RETURN_IF_ERROR(steps.begin(seeds, {}, excluded));
  return SamplerMemory{
      .sampler = steps.asked_bytes(),
      .batch = steps.asked_batch_bytes(),
      .pinned = steps.asked_host_bytes(),
      .arrays = steps.asked()
  };
}

/// Has `steps`, of these options, take all the memory of its largest batch at once: the bytes that
/// sampler_memory() says. Before its first batch.
/// Errors: those of sampler_memory(); throws what the device does.
template <class Device>
[[nodiscard]] Status reserve_largest(
    NeighborSteps<Device>& steps, const SamplerShape& shape, const StepOptions& options
) {
  GNN_ASSIGN_OR_RETURN(const SamplerMemory memory, sampler_memory(shape, options));
  steps.reserve(memory.arrays);
  return {};
}

}  // namespace gnn::gpu
