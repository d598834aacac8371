#pragma once

#include "common/result.h"
#include "worker/gpu/kernels/launch_shape.h"
#include "worker/gpu/kernels/neighbor_steps.h"
#include "worker/sampling/core/excluded_pairs.h"
#include "worker/sampling/core/neighbor_kernel.h"
#include "worker/sampling/core/relation_view.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace gnn::gpu {

/// A sampler, and the most that a batch of it starts from.
struct SamplerShape {
  std::vector<int64_t> num_nodes;                       ///< per node type
  std::vector<sampling::core::RelationView> relations;  ///< of which no array is read
  std::vector<int64_t> num_edges;                       ///< per relation
  sampling::core::KernelOptions options{};
  std::vector<int64_t> seeds;     ///< per node type
  std::vector<int64_t> excluded;  ///< pairs per relation; empty: none
};

/// What sampling takes of a device's memory, in bytes.
struct SamplerMemory {
  size_t sampler = 0;  ///< of one sampler, with the batch that it has sampled last
  size_t batch = 0;    ///< of one batch, copied out of its sampler, at most
};

namespace internal {

// A device that allocates and does nothing: what is left of a sampler's work is what it asks for.
class CountingDevice {
 public:
  // `most_edges`: of each relation in a hop that takes all neighbours, of which only a device knows how
  // many there are.
  CountingDevice(CounterLayout layout, std::vector<int64_t> most_edges)
      : layout_(layout), most_edges_(std::move(most_edges)) {}

  template <class Body>
  void launch(const Body&, const LaunchShape&) {}
  // reinterpret_cast: an address that is not null, which nobody reads.
  [[nodiscard]] void* allocate(size_t) { return reinterpret_cast<void*>(alignof(int64_t)); }
  void free(void*) {}
  [[nodiscard]] void* allocate_host(size_t bytes) { return ::operator new(bytes); }
  void free_host(void* memory) { ::operator delete(memory); }
  void copy_within(void*, const void*, size_t) {}
  void upload(void*, const void*, size_t) {}
  void fill(void*, int, size_t) {}
  void wait() {}
  // Nothing is downloaded but counters.
  void download(void* to, const void*, size_t) {
    auto* const counters = static_cast<int64_t*>(to);
    std::fill_n(counters, layout_.size(), 0);
    for (int64_t relation = 0; relation < layout_.relations; ++relation) {
      for (int64_t hop = 0; hop <= layout_.hops; ++hop) {
        counters[layout_.edges_up_to(relation, hop)] =
            hop * most_edges_[static_cast<size_t>(relation)];
      }
    }
  }

 private:
  CounterLayout layout_;
  std::vector<int64_t> most_edges_;
};

}  // namespace internal

/// What a sampler, and each of its batches, takes of a device's memory at most. Seeds that are all
/// different are counted on where hops take all neighbours.
/// Errors: those of NeighborSteps::begin().
[[nodiscard]] inline Result<SamplerMemory> sampler_memory(const SamplerShape& shape) {
  const CounterLayout layout{
      .types = static_cast<int64_t>(shape.num_nodes.size()),
      .relations = static_cast<int64_t>(shape.relations.size()),
      .hops = static_cast<int64_t>(shape.options.fanout.size())
  };
  internal::CountingDevice device(layout, shape.num_edges);
  NeighborSteps<internal::CountingDevice> steps(
      device, shape.num_nodes, shape.relations, shape.options, {}
  );
  const std::vector<int64_t> ids(static_cast<size_t>(
      shape.seeds.empty() ? 0 : *std::max_element(shape.seeds.begin(), shape.seeds.end())
  ));
  std::vector<std::span<const int64_t>> seeds;
  for (const int64_t count : shape.seeds)
    seeds.push_back(std::span(ids).first(static_cast<size_t>(count)));
  std::vector<sampling::core::ExcludedPairs> pairs(shape.excluded.size());
  std::vector<const sampling::core::ExcludedPairs*> excluded;
  for (size_t i = 0; i < pairs.size(); ++i) {
    for (int64_t pair = 0; pair < shape.excluded[i]; ++pair) pairs[i].add(pair, pair);
    pairs[i].build();
    excluded.push_back(&pairs[i]);
  }
  GNN_RETURN_IF_ERROR(steps.begin(seeds, {}, excluded));
  return SamplerMemory{.sampler = steps.bytes(), .batch = steps.batch_bytes()};
}

}  // namespace gnn::gpu
