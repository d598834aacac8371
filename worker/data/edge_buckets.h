#pragma once

#include "common/result.h"
#include "worker/data/array.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace gnn::data {

/// How edges are dealt to buckets: bucket b has the destinations [b << shift, (b + 1) << shift).
struct BucketPlan {
  uint32_t shift = 0;
  size_t buckets = 1;
  size_t block_edges = 1;  ///< edges of a bucket that are kept in memory before they are stored
};

/// Buckets whose edges fit into half of `memory_bytes` if destinations are alike, and whose blocks and
/// numbers of edges by destination take an eighth each. `edge_bytes`: of an edge, both where it is
/// kept and where it is sorted.
inline BucketPlan plan_buckets(
    int64_t num_edges, int64_t num_destinations, int64_t edge_bytes, int64_t memory_bytes
) {
  constexpr int64_t kMostBuckets = 4096;
  constexpr int64_t kFewestBlockEdges = 16;
  constexpr int64_t kMostBlockEdges = 4096;
  const auto nodes = static_cast<uint64_t>(num_destinations);
  const int64_t memory = std::max<int64_t>(memory_bytes, 8);
  // Twice as many as if destinations were alike, which they are not.
  const int64_t by_edges = num_edges / (std::max<int64_t>(memory / edge_bytes / 4, 1)) + 1;
  const int64_t by_nodes = num_destinations / (memory / 8 / 8 + 1) + 1;
  const auto wanted =
      static_cast<uint64_t>(std::min({std::max(by_edges, by_nodes), kMostBuckets, num_destinations})
      );
  BucketPlan plan;
  plan.shift = static_cast<uint32_t>(std::bit_width(nodes / wanted)) - 1;
  plan.buckets = static_cast<size_t>(((nodes - 1) >> plan.shift) + 1);
  const int64_t block_bytes = memory / 8 / static_cast<int64_t>(plan.buckets);
  plan.block_edges =
      static_cast<size_t>(std::clamp(block_bytes / edge_bytes, kFewestBlockEdges, kMostBlockEdges));
  return plan;
}

/// Edges by ranges of their destinations, in scratch memory that is written and read in blocks. Each
/// bucket keeps the order in which its edges came.
template <class Edge>
class EdgeBuckets {
 public:
  /// `storage` must outlive add().
  EdgeBuckets(const BucketPlan& plan, ArrayStorage& storage)
      : plan_(plan), storage_(storage), buckets_(plan.buckets) {}

  /// Errors: those of ArrayStorage::scratch().
  Status add(const Edge& edge) {
    Bucket& bucket = buckets_[static_cast<size_t>(edge.destination) >> plan_.shift];
    if (bucket.pending.empty()) {
      bucket.pending.reserve(plan_.block_edges);
    }
    bucket.pending.push_back(edge);
    ++num_edges_;
    return bucket.pending.size() < plan_.block_edges ? Status() : store(bucket);
  }

  [[nodiscard]] int64_t num_edges() const { return num_edges_; }
  [[nodiscard]] size_t num_buckets() const { return buckets_.size(); }
  [[nodiscard]] int64_t first_destination(size_t bucket) const {
    return static_cast<int64_t>(bucket << plan_.shift);
  }

  /// Calls visit(edge) for the edges of a bucket.
  template <class Visit>
  void for_each(size_t bucket, const Visit& visit) const {
    for (const size_t block : buckets_[bucket].blocks) {
      for (const Edge& edge : block_at(block)) visit(edge);
    }
    for (const Edge& edge : buckets_[bucket].pending) visit(edge);
  }

 private:
  static constexpr size_t kSlabBytes = size_t{16} << 20U;

  struct Bucket {
    std::vector<Edge> pending;
    std::vector<size_t> blocks;
  };

  [[nodiscard]] size_t blocks_per_slab() const {
    return std::max<size_t>(kSlabBytes / (plan_.block_edges * sizeof(Edge)), 1);
  }
  [[nodiscard]] std::span<const Edge> block_at(size_t block) const {
    const Array& slab = slabs_[block / blocks_per_slab()];
    const auto* edges = reinterpret_cast<const Edge*>(slab.bytes());
    return {edges + block % blocks_per_slab() * plan_.block_edges, plan_.block_edges};
  }
  // Blocks are stored one behind the other, whatever their buckets.
  Status store(Bucket& bucket) {
    const size_t place = num_blocks_ % blocks_per_slab();
    if (place == 0) {
      const size_t bytes = blocks_per_slab() * plan_.block_edges * sizeof(Edge);
      GNN_ASSIGN_OR_RETURN(
          Array slab, storage_.scratch(DType::UInt8, {static_cast<int64_t>(bytes)})
      );
      slabs_.push_back(std::move(slab));
    }
    auto* edges = reinterpret_cast<Edge*>(slabs_.back().mutable_bytes());
    std::copy(bucket.pending.begin(), bucket.pending.end(), edges + place * plan_.block_edges);
    bucket.blocks.push_back(num_blocks_++);
    bucket.pending.clear();
    return {};
  }

  BucketPlan plan_;
  ArrayStorage& storage_;
  std::vector<Bucket> buckets_;
  std::vector<Array> slabs_;
  size_t num_blocks_ = 0;
  int64_t num_edges_ = 0;
};

}  // namespace gnn::data
