#pragma once

#include "common/page_buffer.h"
#include "worker/sampling/core/draw.h"
#include "worker/sampling/core/excluded_pairs.h"
#include "worker/sampling/core/id_map.h"
#include "worker/sampling/core/rng.h"
#include "worker/sampling/core/sampling_rule.h"

#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

namespace gnn::sampling::core {

/// One edge type's in-neighbour lists as plain arrays. The caller keeps them alive and has checked
/// them: offsets monotone from 0, ids in [0, number of nodes of source_type), each end within its
/// list.
struct RelationView {
  const int64_t* indptr = nullptr;  ///< [number of nodes of destination_type + 1]
  /// [number of nodes of destination_type]: where the visible part of each list ends; null: all of
  /// it is visible.
  const int64_t* ends = nullptr;
  const int32_t* indices32 = nullptr;  ///< exactly one of indices32 and indices64 is set
  const int64_t* indices64 = nullptr;
  const int64_t* edge_ids = nullptr;  ///< null: an edge's id is its position
  int source_type = 0;
  int destination_type = 0;
  /// Keys the draws, in [0, kMaxLanes). A relation with its own lane draws the same whichever other
  /// relations are sampled beside it.
  uint32_t lane = 0;
  /// Instead of KernelOptions::fanout; empty: that one.
  std::vector<int64_t> fanout = {};

  static constexpr uint32_t kMaxLanes = uint32_t{1} << 24;
};

/// Default of KernelOptions::sampler_memory_bytes.
inline constexpr int64_t kSamplerMemoryBytes = 200'000'000;

struct KernelOptions {
  std::vector<int64_t> fanout;  ///< per hop, index 0 next to the seeds; -1 takes all
  bool replace = false;         ///< with replacement
  SamplingRule rule = SamplingRule::NewNodes;
  bool with_edge_ids = false;
  /// Bounds what a kernel keeps between batches. Its draw buffers come first; node types take a
  /// table of 4 bytes per node, which maps ids directly, while one fits into the rest. The other
  /// types' ids are mapped by hashing, with the same result, in memory that grows with the batch.
  int64_t sampler_memory_bytes = kSamplerMemoryBytes;
};

/// The arrays of one sampled batch. Reused for batch after batch, they stop allocating once they
/// have grown.
struct SampleArena {
  struct NodeList {
    Buffer<int64_t> ids;         ///< global ids in order of discovery
    std::vector<int64_t> up_to;  ///< [hops + 1]: number of ids known after each hop
  };
  struct EdgeList {
    Buffer<int64_t> indptr;          ///< the hops' offsets; indptr_at says where each hop's start
    Buffer<int32_t> indices;         ///< local source ids, all hops
    Buffer<int64_t> edge_ids;        ///< parallel to indices; empty unless requested
    std::vector<int64_t> up_to;      ///< [hops + 1]: number of edges after each hop
    std::vector<int64_t> indptr_at;  ///< [hops]: where the hop's offsets start in indptr
  };
  std::vector<NodeList> nodes;  ///< per node type
  std::vector<EdgeList> edges;  ///< per edge type

  [[nodiscard]] size_t bytes() const;
};

/// Uniform neighbour sampling with relabelling in one pass.
/// - NewNodes: hop h expands the nodes discovered in hop h - 1. All hops share one CSC per edge
///   type, whose indptr continues from hop to hop.
/// - AllSeen: every hop expands all nodes known so far and has its own offsets, from 0.
/// Threads: one kernel per thread; the graph may be shared.
class NeighborKernel {
 public:
  NeighborKernel(
      std::vector<int64_t> num_nodes, std::vector<RelationView> relations, KernelOptions options
  );

  /// Fills `arena`. `seeds` per node type, each in [0, num_nodes), which the caller has checked. A
  /// seed given twice keeps two rows; edges refer to the first. `excluded` is empty or has one
  /// element per relation, null where nothing is excluded: drawn edges of those pairs are left out,
  /// and nothing is drawn instead.
  void sample(
      std::span<const std::span<const int64_t>> seeds,
      const StreamPosition& position,
      SampleArena& arena,
      std::span<const ExcludedPairs* const> excluded = {}
  );

  /// Bytes of this kernel's own state (id maps, draw buffers, pipeline), without the batch's
  /// arrays.
  [[nodiscard]] size_t state_bytes() const;

 private:
  using IdMap = std::variant<DirectIdMap, HashIdMap<uint32_t>, HashIdMap<uint64_t>>;
  struct HopRange {
    int64_t begin = 0;
    int64_t end = 0;
  };
  struct HopContext {
    const RelationView& relation;
    SampleArena& arena;
    size_t edge_type = 0;
    HopRange destinations{};
    int64_t fanout = 0;
    Philox4x32::Key key{};
    uint32_t lane = 0;
    int64_t first_edge = 0;   // where the hop's edges start in the edge list
    int64_t indptr_base = 0;  ///< what the hop's first offset is
    int64_t indptr_at = 0;
    const ExcludedPairs* excluded = nullptr;
  };
  class ChunkFiller;
  class EdgeExclusion;

  void place_seeds(std::span<const std::span<const int64_t>> seeds, SampleArena& arena);
  void expand(HopContext hop, size_t hop_index);
  [[nodiscard]] const std::vector<int64_t>& fanout_of(const RelationView& relation) const;
  [[nodiscard]] int64_t edge_bound(const HopContext& hop) const;
  template <class Id, class Map>
  int64_t expand_with(const HopContext& hop, const Id* indices, Map& map, int64_t& num_local);

  std::vector<int64_t> num_nodes_;
  std::vector<RelationView> relations_;
  KernelOptions options_;
  std::vector<IdMap> maps_;
  std::vector<int64_t> num_local_;
  NeighborDraw draw_;
  std::vector<int64_t> drawn_;       // a wide node's drawn positions, handed out chunk by chunk
  std::vector<int64_t> positions_;   // one chunk's positions in the edge arrays
  std::vector<int64_t> global_ids_;  // the global source ids there
};

}  // namespace gnn::sampling::core
