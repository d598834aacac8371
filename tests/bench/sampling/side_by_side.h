#pragma once

#include "tests/bench/sampling/bench_graph.h"

#include <cstdint>
#include <string>
#include <vector>

namespace gnn::bench {

/// One measurement to be held beside another program's on the same graph and seeds.
struct SideBySideOptions {
  std::vector<int64_t> fanout{15, 10, 5};  ///< index 0 next to the seeds
  std::string rule = "new-nodes";          ///< or "all-seen"
  bool replace = false;
  bool gather = false;
  int64_t batch_size = 1024;
  int64_t num_threads = 1;
  int64_t warm_up_batches = 5;
};

/// Samples all `seeds`, batch after batch, one batch per thread at a time, and gathers their
/// features if asked. Returns one JSON object: edges, nodes, batches, seconds, edges_per_second,
/// state_bytes_per_thread. Throws std::runtime_error for a seed outside the graph.
[[nodiscard]] std::string measure_side_by_side(
    const BenchGraph& graph, const std::vector<int64_t>& seeds, const SideBySideOptions& options
);

}  // namespace gnn::bench
