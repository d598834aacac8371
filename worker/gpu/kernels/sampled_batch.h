#pragma once

#include <cstdint>
#include <vector>

namespace gnn::gpu {

/// The arrays of a sampled batch in device memory: those of core::SampleArena.
struct SampledBatch {
  struct Nodes {
    const int64_t* ids = nullptr;  ///< global ids in order of discovery
    std::vector<int64_t> up_to;    ///< [hops + 1]: number of ids known after each hop
  };
  struct Edges {
    const int64_t* indptr = nullptr;   ///< the hops' offsets; indptr_at says where each hop's start
    const int32_t* indices = nullptr;  ///< local source ids, all hops
    const int64_t* edge_ids = nullptr;  ///< parallel to indices; null unless requested
    std::vector<int64_t> up_to;         ///< [hops + 1]: number of edges after each hop
    std::vector<int64_t> indptr_at;     ///< [hops]: where the hop's offsets start in indptr
  };
  std::vector<Nodes> nodes;  ///< per node type
  std::vector<Edges> edges;  ///< per relation
};

}  // namespace gnn::gpu
