#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace gnn::loader {

/// The nodes at one side of a batch's links, each once.
struct LinkSeeds {
  at::Tensor ids;   ///< int64 [S], global ids, ascending
  at::Tensor rows;  ///< int64 [L]: the place of each link's end among them
};

/// Shapes: ends [L], global node ids of one type, at least 0.
[[nodiscard]] LinkSeeds index_ends(std::span<const int64_t> ends);

}  // namespace gnn::loader
