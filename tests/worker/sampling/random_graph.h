#pragma once

#include "worker/sampling/core/rng.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gnn::sampling {

/// In-neighbour lists with everything that trips samplers: nodes without edges, self-loops,
/// parallel edges and hubs.
struct RandomGraph {
  std::vector<int64_t> indptr{0};
  std::vector<int64_t> indices;

  RandomGraph(int64_t num_destinations, int64_t num_sources, int64_t mean_degree, uint64_t seed) {
    core::CounterRng rng({static_cast<uint32_t>(seed), 77}, 0, 0);
    for (int64_t node = 0; node < num_destinations; ++node) {
      uint64_t degree = rng.below(static_cast<uint64_t>(2 * mean_degree + 1));
      if (node % 7 == 3) degree = 0;
      if (node % 50 == 10) degree = static_cast<uint64_t>(40 * mean_degree);
      for (uint64_t i = 0; i < degree; ++i) {
        // Squaring favours small ids: hubs on the source side too.
        const double u = static_cast<double>(rng.next32()) * 0x1p-32;
        indices.push_back(static_cast<int64_t>(u * u * static_cast<double>(num_sources)));
      }
      indptr.push_back(static_cast<int64_t>(indices.size()));
    }
  }

  [[nodiscard]] int64_t degree(int64_t node) const {
    return indptr[static_cast<size_t>(node) + 1] - indptr[static_cast<size_t>(node)];
  }
};

}  // namespace gnn::sampling
