#pragma once

#include "worker/sampling/cpu/buffer.h"
#include "worker/sampling/cpu/draw.h"
#include "worker/sampling/cpu/id_map.h"
#include "worker/sampling/rng.h"

#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

namespace gnn::sampling::cpu {

/// One edge type's in-neighbour lists as plain arrays. The caller keeps them alive and has checked
/// them: offsets monotone from 0, ids in [0, number of nodes of source_type).
struct RelationView {
  const int64_t* indptr = nullptr;     // [num_dst + 1]
  const int32_t* indices32 = nullptr;  // exactly one of the two is set
  const int64_t* indices64 = nullptr;
  const int64_t* edge_ids = nullptr;  // null: an edge's id is its position
  int64_t num_dst = 0;
  int source_type = 0;
  int target_type = 0;
};

struct KernelOptions {
  std::vector<int64_t> fanout;  // per hop, index 0 next to the seeds; -1 takes all
  bool replace = false;
  bool expand_all_seen =
      false;  // DGL's rule; otherwise PyG's, which expands only the nodes new in the hop before
  bool with_edge_ids = false;
  int64_t map_budget_bytes =
      int64_t{160} << 20;  // above it ids are mapped by hashing instead of a direct look-up
};

/// The arrays of one sampled batch. Reused from batch to batch, they stop allocating once they have
/// grown.
struct SampleArena {
  struct NodeList {
    Buffer<int64_t> ids;         // global ids in order of discovery
    std::vector<int64_t> up_to;  // [hops + 1]: number of ids known after each hop
  };
  struct EdgeList {
    Buffer<int64_t> indptr;          // the hops' offsets one after the other; see hop_indptr
    Buffer<int32_t> indices;         // local source ids, all hops
    Buffer<int64_t> edge_ids;        // as indices; empty unless asked for
    std::vector<int64_t> up_to;      // [hops + 1]: number of edges after each hop
    std::vector<int64_t> indptr_at;  // [hops]: where the hop's offsets start in indptr
  };
  std::vector<NodeList> nodes;  // per node type
  std::vector<EdgeList> edges;  // per edge type

  [[nodiscard]] size_t bytes() const;
};

/// Uniform neighbour sampling with relabelling in one pass. One per thread; the graph may be
/// shared. New-nodes rule (PyG): hop h expands the nodes new in hop h-1, all hops share one CSC per
/// edge type, and indptr continues from hop to hop. All-seen rule (DGL): every hop expands all
/// nodes known so far and has offsets of its own, from 0.
class NeighborKernel {
 public:
  NeighborKernel(
      std::vector<int64_t> num_nodes, std::vector<RelationView> relations, KernelOptions options
  );

  /// Fills `arena`. `seeds` per node type, each in [0, num_nodes): the caller checks. A seed given
  /// twice keeps two rows, the first of which its neighbours' edges refer to.
  void sample(
      std::span<const std::span<const int64_t>> seeds,
      const StreamPosition& position,
      SampleArena& arena
  );

  /// Bytes of this thread's own state (id maps, draw scratch, pipeline), the batch's arrays not
  /// counted.
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
    HopRange targets{};
    int64_t fanout = 0;
    Philox4x32::Key key{};
    uint32_t lane = 0;
    int64_t first_edge = 0;   // where the hop's edges start in the edge list
    int64_t indptr_base = 0;  // what the hop's first offset is
    int64_t indptr_at = 0;
  };
  template <class Id>
  class ChunkFiller;

  void place_seeds(std::span<const std::span<const int64_t>> seeds, SampleArena& arena);
  void expand(size_t edge_type, size_t hop, Philox4x32::Key key, SampleArena& arena);
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
  std::vector<int64_t> positions_;   // ring of chunks: positions in the edge arrays
  std::vector<int64_t> global_ids_;  // one chunk of global source ids
};

}  // namespace gnn::sampling::cpu
