#pragma once

#include "common/page_buffer.h"
#include "worker/sampling/core/draw.h"
#include "worker/sampling/core/drawn_lists.h"
#include "worker/sampling/core/excluded_pairs.h"
#include "worker/sampling/core/id_map.h"
#include "worker/sampling/core/relation_view.h"
#include "worker/sampling/core/rng.h"
#include "worker/sampling/core/sampling_rule.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

namespace gnn::sampling::core {

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

  /// The same in steps, where others draw (HopDraw), and a relation's lists may lie elsewhere: begin(),
  /// then for each hop in turn destinations() of every relation, and add_hop(). No other batch comes
  /// in between.
  void begin(std::span<const std::span<const int64_t>> seeds, SampleArena& arena);
  /// Whose in-neighbours by a relation `hop` draws; empty if its fan-out there is 0.
  [[nodiscard]] std::span<const int64_t> destinations(
      size_t relation, size_t hop, const SampleArena& arena
  ) const;
  /// Relabels what was drawn: one element of `drawn` per relation, for its destinations in their
  /// order. Sources are in [0, num_nodes) of their type, which the caller has checked.
  void add_hop(
      size_t hop,
      std::span<const DrawnLists> drawn,
      SampleArena& arena,
      std::span<const ExcludedPairs* const> excluded = {}
  );

  /// A relation's fan-out in a hop.
  [[nodiscard]] int64_t fanout(size_t relation, size_t hop) const {
    const std::vector<int64_t>& own = relations_[relation].fanout;
    return own.empty() ? options_.fanout[hop] : own[hop];
  }

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
    size_t index = 0;  // of the hop
    HopRange destinations{};
    int64_t fanout = 0;
    int64_t first_edge = 0;   // where the hop's edges start in the edge list
    int64_t indptr_base = 0;  // what the hop's first offset is
    int64_t indptr_at = 0;
    const ExcludedPairs* excluded = nullptr;
  };
  class GraphSource;
  class DrawnSource;
  class EdgeExclusion;

  void place_seeds(std::span<const std::span<const int64_t>> seeds, SampleArena& arena);
  [[nodiscard]] HopRange range_of(
      const RelationView& relation, size_t hop, const SampleArena& arena
  ) const;
  [[nodiscard]] HopContext context_of(
      size_t edge_type,
      size_t hop,
      SampleArena& arena,
      std::span<const ExcludedPairs* const> excluded
  ) const;
  [[nodiscard]] static std::span<const int64_t> destinations_of(const HopContext& hop);
  [[nodiscard]] int64_t edge_bound(const HopContext& hop) const;
  // Places and offsets of the hop, and room for up to `bound` edges.
  void reserve(HopContext& hop, int64_t bound);
  // Takes the hop's edges from `source` and relabels them.
  template <class Source>
  void expand(const HopContext& hop, Source& source);
  template <class Source, class Map>
  int64_t relabel(const HopContext& hop, Source& source, Map& map, int64_t& num_local);
  void end_hop(SampleArena& arena);

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
