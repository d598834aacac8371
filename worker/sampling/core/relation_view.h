#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gnn::sampling::core {

/// One edge type's in-neighbour lists as plain arrays. The caller keeps them alive and has checked
/// them: offsets monotone, ids in [0, number of nodes of source_type), each end within its list.
struct RelationView {
  const int64_t* indptr = nullptr;  ///< [number of nodes with lists + 1]
  /// [number of nodes with lists]: where the visible part of each list ends; null: all of it is
  /// visible.
  const int64_t* ends = nullptr;
  const int32_t* indices32 = nullptr;  ///< exactly one of indices32 and indices64 is set
  const int64_t* indices64 = nullptr;
  const int64_t* edge_ids = nullptr;  ///< null: an edge's id is its position
  /// The node of the first list: 0 where all nodes have theirs here, as NeighborKernel::sample()
  /// expects it.
  int64_t first_node = 0;
  int source_type = 0;
  int destination_type = 0;
  /// Keys the draws, in [0, kMaxLanes). A relation with its own lane draws the same whichever other
  /// relations are sampled beside it.
  uint32_t lane = 0;
  /// Instead of KernelOptions::fanout; empty: that one.
  std::vector<int64_t> fanout = {};

  static constexpr uint32_t kMaxLanes = uint32_t{1} << 24;
};

/// Where the visible part of each list ends. Lists that are visible as a whole end where the next
/// begins, so that one code serves both. Null of a relation without arrays.
[[nodiscard]] inline const int64_t* ends_of(const RelationView& relation) {
  if (relation.ends != nullptr || relation.indptr == nullptr) return relation.ends;
  return relation.indptr + 1;
}

/// The lane of a relation's draws in a hop.
[[nodiscard]] inline uint32_t hop_lane(const RelationView& relation, size_t hop) {
  return static_cast<uint32_t>(hop) | relation.lane << 8;
}

}  // namespace gnn::sampling::core
