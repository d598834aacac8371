#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "common/thread_pool.h"
#include "worker/data/array.h"
#include "worker/data/dataset_arrays.h"

#include <cstdint>
#include <limits>
#include <span>
#include <string>

namespace gnn::data {

struct CoOccurrenceOptions {
  int64_t num_sources = 0;  ///< number of nodes that the edges come from
  int64_t at_least = 1;     ///< the smallest count that makes an edge, in [1, 2^31]
  /// Which edges count; both empty: all. `ends` cuts each destination's list at this place of
  /// `indices`: [number of destinations]. `mask` has a byte for each edge id, or for each place if the
  /// edges have no ids; zero hides the edge.
  std::span<const int64_t> ends{};
  std::span<const uint8_t> mask{};
  /// That scratch and result may take together.
  int64_t memory_bytes = std::numeric_limits<int64_t>::max();
  std::string name = "co_occurrence";  ///< of the arrays: NAME.indptr and NAME.indices
};

/// Connects the destinations of `edges` that share sources: with M[u, i] the number of edges from u
/// to i, nodes i and j are joined if (M^T M)[i, j] >= at_least. Equal edges count as often as they
/// occur; no node is joined to itself. The result is symmetric, (destination, "to", destination),
/// without duplicates and with ascending neighbours. Arrays that an earlier run completed are
/// reused.
///
/// Row by row (Gustavson 1978), rows in parallel. Destinations are ranked by degree, and a row adds
/// up only those of higher degree: that is half of the products, and most of them fall on few sums.
/// Takes time in proportion to the sum of the squared degrees of the sources. Scratch memory: 8 bytes
/// for each element of M that is not zero, and half of the size of the result. Other memory: 16 bytes a
/// source, and a destination 24 and for each thread 4. The result does not depend on the number of
/// threads.
/// `edges`: ids in range, as graph::make_dataset() checks.
/// Errors: Configuration for `at_least` or a view that does not fit `edges`, and for more memory than
/// `memory_bytes`; those of `storage`.
Result<EdgeTable> co_occurrence(
    const EdgeTable& edges,
    const CoOccurrenceOptions& options,
    ThreadPool& pool,
    ArrayStorage& storage,
    ProgressBar& progress
);

}  // namespace gnn::data
