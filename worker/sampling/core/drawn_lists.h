#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gnn::sampling::core {

/// The in-neighbours that were drawn for some nodes, in the order of these.
struct DrawnPiece {
  const uint32_t* counts = nullptr;   ///< [nodes]: how many were drawn for each
  const int64_t* sources = nullptr;   ///< [sum of counts]: global ids
  const int64_t* edge_ids = nullptr;  ///< [sum of counts]; null where nobody wants them
  int64_t num_edges = 0;              ///< sum of counts
};

/// The in-neighbours of a hop's destinations by one relation, drawn by several nodes of a job, each
/// for the destinations that it owns.
struct DrawnLists {
  std::span<const DrawnPiece> pieces;  ///< of each owner, for its destinations in their order
  std::span<const int32_t> owners;     ///< [destinations]: the piece that has each; empty: no edges
  int64_t num_edges = 0;
};

}  // namespace gnn::sampling::core
