#pragma once

#include "worker/graph/block.h"

#include <ATen/ATen.h>
#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace gnn::testing {

/// A block from its in-neighbour lists: lists[i] holds the sources of destination i's edges.
inline graph::Block make_block(
    const std::vector<std::vector<int64_t>>& lists,
    int64_t num_sources,
    at::ScalarType index = at::kLong
) {
  std::vector<int64_t> indptr = {0};
  std::vector<int64_t> indices;
  for (const auto& list : lists) {
    indices.insert(indices.end(), list.begin(), list.end());
    indptr.push_back(static_cast<int64_t>(indices.size()));
  }
  return graph::Block{
      .indptr = torch::tensor(indptr, torch::kInt64),
      .indices = torch::tensor(indices, torch::kInt64).to(index),
      .edge_ids = {},
      .num_sources = num_sources,
      .num_destinations = static_cast<int64_t>(lists.size()),
  };
}

/// The block's matrix [num_destinations, num_sources], each edge counting once.
inline at::Tensor dense(const graph::Block& block, at::ScalarType type = at::kDouble) {
  at::Tensor matrix = torch::zeros({block.num_destinations, block.num_sources}, type);
  for (int64_t row = 0; row < block.num_destinations; ++row) {
    for (int64_t edge = block.indptr[row].item<int64_t>();
         edge < block.indptr[row + 1].item<int64_t>();
         ++edge) {
      matrix[row][block.indices[edge].item<int64_t>()] += 1;
    }
  }
  return matrix;
}

/// Random in-neighbour lists, some of them empty; sources may repeat and may be the destination
/// itself.
inline graph::Block random_block(
    int64_t num_destinations,
    int64_t num_sources,
    int64_t max_degree,
    int64_t seed,
    at::ScalarType index = at::kLong
) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(seed));
  const at::Tensor degrees =
      torch::randint(0, max_degree + 1, {num_destinations}, generator, torch::kInt64);
  at::Tensor indptr = torch::zeros({num_destinations + 1}, torch::kInt64);
  indptr.narrow(0, 1, num_destinations).copy_(degrees.cumsum(0));
  const int64_t edges = indptr[num_destinations].item<int64_t>();
  return graph::Block{
      .indptr = indptr,
      .indices = torch::randint(0, num_sources, {edges}, generator, torch::kInt64).to(index),
      .edge_ids = {},
      .num_sources = num_sources,
      .num_destinations = num_destinations,
  };
}

}  // namespace gnn::testing
