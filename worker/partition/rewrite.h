#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "common/thread_pool.h"
#include "worker/data/array.h"
#include "worker/data/dataset_arrays.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gnn::partition {

/// What the arrays of a renumbered data set are made with.
struct RewriteTools {
  data::ArrayStorage& storage;
  /// Memory for the elements that one pass over an array places; there are as many passes as that
  /// takes.
  int64_t pass_bytes;
  ThreadPool& others;
  ProgressBar& progress;
};

/// Copies memory between mapped files, with few of their pages in memory at once.
void copy_in_pieces(const std::byte* from, std::byte* to, int64_t bytes, ThreadPool& others);

/// The rows of `rows` in the order of new ids: row r becomes row new_ids[r]. Committed under `name`,
/// unless an earlier run has done so. Bytes are copied as they are.
/// Shapes: rows [N, ...], new_ids [N], each of 0 to N - 1 once.
/// Errors: those of the storage.
Result<data::Array> rewrite_rows(
    const data::Array& rows,
    const std::vector<int64_t>& new_ids,
    const std::string& name,
    const RewriteTools& tools
);

/// The lists of an edge table in the order of its destinations' new ids, with new ids of its sources,
/// which ascend in each list; of one source, edge ids do. Edges keep their ids: where `keep_ids`, and
/// the table has none because an edge's id is its position, the result has them.
/// Errors: those of the storage.
Result<data::EdgeTable> rewrite_edges(
    const data::EdgeTable& table,
    const std::vector<int64_t>& new_sources,
    const std::vector<int64_t>& new_destinations,
    bool keep_ids,
    const RewriteTools& tools
);

/// Memory that rewrite_edges() takes beside pass_bytes and the ids.
int64_t rewrite_edges_bytes(const data::EdgeTable& table);

}  // namespace gnn::partition
