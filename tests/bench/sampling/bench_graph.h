#pragma once

#include "worker/sampling/core/neighbor_kernel.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gnn::bench {

/// A graph and its features as plain arrays, generated or mapped from files.
struct BenchGraph {
  sampling::core::RelationView relation;
  int64_t num_nodes = 0;
  int64_t num_edges = 0;
  const std::byte* features = nullptr;  ///< num_nodes rows, or null
  size_t row_bytes = 0;
  std::shared_ptr<void> owner;  ///< keeps the arrays
};

/// A power-law graph of ogbn-products' size: 2,449,029 nodes, about 124 M directed edges, 100
/// floats per node. In-degrees follow degree^-2.6, capped at 20,000 times the smallest; a
/// neighbour is drawn in proportion to its degree.
[[nodiscard]] BenchGraph make_products_shape();

/// The same with a tenth of ogbn-papers100M's nodes and edges, 11,105,996 and about 161.8 M, and its
/// 128 floats per node: 5.7 GB of them.
[[nodiscard]] BenchGraph make_tenth_of_papers_shape();

/// Nodes drawn uniformly, the same for the same stream.
[[nodiscard]] std::vector<int64_t> random_nodes(size_t count, int64_t num_nodes, uint64_t stream);

/// Maps indptr.npy (int64), indices.npy (int32 or int64) and, if present, features.npy (two
/// dimensions) of `directory`. Throws std::runtime_error naming the file and what is wrong with it.
[[nodiscard]] BenchGraph map_npy_graph(const std::string& directory);
/// Writes those files. Throws std::runtime_error.
void write_npy_graph(const BenchGraph& graph, const std::string& directory);
/// Reads an int64 vector. Throws std::runtime_error.
[[nodiscard]] std::vector<int64_t> read_npy_ids(const std::string& path);

}  // namespace gnn::bench
