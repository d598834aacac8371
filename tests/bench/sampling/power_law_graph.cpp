#include "common/page_buffer.h"
#include "tests/bench/sampling/bench_graph.h"
#include "worker/sampling/core/rng.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <memory>
#include <thread>
#include <vector>

namespace gnn::bench {

namespace {

constexpr int64_t kStretch = int64_t{1} << 20;

struct GraphSize {
  int64_t nodes = 0;
  double edges = 0;  // about
  int64_t floats = 0;
};

struct Arrays {
  Buffer<int64_t> indptr;
  Buffer<int32_t> indices;
  Buffer<float> features;
};

sampling::core::CounterRng stream_of(int64_t number) {
  return {{2024, 1}, 0, static_cast<uint64_t>(number)};
}

// Calls part(stretch, begin, end) for stretches of [0, size) on all cores. How many these are changes
// no stretch.
template <class Part>
void in_stretches(int64_t size, const Part& part) {
  std::atomic<int64_t> next = 0;
  std::vector<std::future<void>> threads;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
    threads.push_back(std::async(std::launch::async, [&] {
      while (true) {
        const int64_t stretch = next++;
        if (stretch * kStretch >= size) return;
        part(stretch, stretch * kStretch, std::min(size, (stretch + 1) * kStretch));
      }
    }));
  }
  for (std::future<void>& thread : threads) thread.get();
}

// In-degrees of a power law, and for each edge the owner of a uniformly drawn edge's end: a node in
// proportion to its degree.
void draw_graph(const GraphSize& size, Arrays& arrays) {
  sampling::core::CounterRng rng = stream_of(0);
  std::vector<double> weights(static_cast<size_t>(size.nodes));
  double total = 0;
  for (double& weight : weights) {
    const double u = (static_cast<double>(rng.next32()) + 1) * 0x1p-32;
    weight = std::min(std::pow(u, -1 / 1.6), 20000.0);
    total += weight;
  }
  arrays.indptr.reserve(size.nodes + 1);
  int64_t num_edges = 0;
  for (int64_t node = 0; node < size.nodes; ++node) {
    arrays.indptr[node] = num_edges;
    num_edges += std::llround(weights[static_cast<size_t>(node)] * size.edges / total);
  }
  arrays.indptr[size.nodes] = num_edges;

  std::vector<int32_t> owners(static_cast<size_t>(num_edges));
  for (int64_t node = 0; node < size.nodes; ++node) {
    std::fill(
        owners.begin() + arrays.indptr[node],
        owners.begin() + arrays.indptr[node + 1],
        static_cast<int32_t>(node)
    );
  }
  arrays.indices.reserve(num_edges);
  in_stretches(num_edges, [&](int64_t stretch, int64_t begin, int64_t end) {
    sampling::core::CounterRng drawn = stream_of(1 + stretch);
    for (int64_t edge = begin; edge < end; ++edge)
      arrays.indices[edge] = owners[drawn.below32(static_cast<uint32_t>(num_edges))];
  });
}

BenchGraph make_graph(const GraphSize& size) {
  const auto arrays = std::make_shared<Arrays>();
  draw_graph(size, *arrays);
  const int64_t num_values = size.nodes * size.floats;
  arrays->features.reserve(num_values);
  in_stretches(num_values, [&](int64_t /*stretch*/, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) arrays->features[i] = static_cast<float>(i % 1000);
  });

  BenchGraph graph;
  graph.num_nodes = size.nodes;
  graph.num_edges = arrays->indptr[size.nodes];
  graph.relation.indptr = arrays->indptr.data();
  graph.relation.indices32 = arrays->indices.data();
  // reinterpret_cast: rows are copied as bytes, whatever their type.
  graph.features = reinterpret_cast<const std::byte*>(arrays->features.data());
  graph.row_bytes = static_cast<size_t>(size.floats) * sizeof(float);
  graph.owner = arrays;
  return graph;
}

}  // namespace

BenchGraph make_products_shape() {
  return make_graph({.nodes = 2'449'029, .edges = 123.7e6, .floats = 100});
}

BenchGraph make_tenth_of_papers_shape() {
  return make_graph({.nodes = 11'105'996, .edges = 161.6e6, .floats = 128});
}

std::vector<int64_t> random_nodes(size_t count, int64_t num_nodes, uint64_t stream) {
  sampling::core::CounterRng rng({99, 1}, 0, stream);
  std::vector<int64_t> nodes(count);
  for (int64_t& node : nodes)
    node = static_cast<int64_t>(rng.below(static_cast<uint64_t>(num_nodes)));
  return nodes;
}

}  // namespace gnn::bench
