#include "common/page_buffer.h"
#include "tests/bench/sampling/bench_graph.h"
#include "worker/sampling/core/rng.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace gnn::bench {

namespace {

constexpr int64_t kNodes = 2449029;
constexpr double kEdges = 123.7e6;
constexpr size_t kFeatures = 100;

struct Arrays {
  Buffer<int64_t> indptr;
  Buffer<int32_t> indices;
  Buffer<float> features;
};

}  // namespace

BenchGraph make_products_shape() {
  const auto arrays = std::make_shared<Arrays>();
  sampling::core::CounterRng rng({2024, 1}, 0, 0);

  std::vector<double> weights(kNodes);
  double total = 0;
  for (double& weight : weights) {
    const double u = (static_cast<double>(rng.next32()) + 1) * 0x1p-32;
    weight = std::min(std::pow(u, -1 / 1.6), 20000.0);
    total += weight;
  }
  arrays->indptr.reserve(kNodes + 1);
  int64_t num_edges = 0;
  for (int64_t node = 0; node < kNodes; ++node) {
    arrays->indptr[node] = num_edges;
    num_edges += std::llround(weights[static_cast<size_t>(node)] * kEdges / total);
  }
  arrays->indptr[kNodes] = num_edges;

  // The owner of a uniformly drawn edge end is a node in proportion to its degree.
  std::vector<int32_t> owners(static_cast<size_t>(num_edges));
  for (int64_t node = 0; node < kNodes; ++node) {
    std::fill(
        owners.begin() + arrays->indptr[node],
        owners.begin() + arrays->indptr[node + 1],
        static_cast<int32_t>(node)
    );
  }
  arrays->indices.reserve(num_edges);
  for (int64_t edge = 0; edge < num_edges; ++edge) {
    arrays->indices[edge] = owners[rng.below32(static_cast<uint32_t>(num_edges))];
  }
  const int64_t num_values = kNodes * static_cast<int64_t>(kFeatures);
  arrays->features.reserve(num_values);
  for (int64_t i = 0; i < num_values; ++i) arrays->features[i] = static_cast<float>(i % 1000);

  BenchGraph graph;
  graph.num_nodes = kNodes;
  graph.num_edges = num_edges;
  graph.relation.indptr = arrays->indptr.data();
  graph.relation.indices32 = arrays->indices.data();
  // reinterpret_cast: rows are copied as bytes, whatever their type.
  graph.features = reinterpret_cast<const std::byte*>(arrays->features.data());
  graph.row_bytes = kFeatures * sizeof(float);
  graph.owner = arrays;
  return graph;
}

std::vector<int64_t> random_nodes(size_t count, int64_t num_nodes, uint64_t stream) {
  sampling::core::CounterRng rng({99, 1}, 0, stream);
  std::vector<int64_t> nodes(count);
  for (int64_t& node : nodes)
    node = static_cast<int64_t>(rng.below(static_cast<uint64_t>(num_nodes)));
  return nodes;
}

}  // namespace gnn::bench
