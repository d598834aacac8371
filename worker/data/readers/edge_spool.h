#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/data/array.h"
#include "worker/data/csc_builder.h"

#include <cstdint>
#include <string>
#include <vector>

namespace gnn::data {

/// Edges whose number is not known before the last one is read. They go to the storage's scratch
/// memory, a quarter of a million at a time: int32 where their ids allow, else int64.
class EdgeSpool final : public EdgeSource {
 public:
  /// `storage` must outlive finish(). Messages name edge i as `where_prefix` followed by i + 1.
  EdgeSpool(ArrayStorage& storage, std::string where_prefix);

  /// Errors: those of ArrayStorage::scratch().
  Status add(int64_t source, int64_t destination);
  /// Call it after the last add(), before anything below.
  Status finish() { return store(); }

  /// -1 without edges.
  [[nodiscard]] int64_t largest_id() const { return largest_id_; }
  [[nodiscard]] int64_t num_edges() const override { return num_edges_; }
  void for_each_chunk(const Chunk& chunk) const override;
  [[nodiscard]] std::string where(int64_t index) const override;

 private:
  Status store();

  ArrayStorage& storage_;
  std::string where_prefix_;
  std::vector<int64_t> sources_;  // of the piece that is being filled
  std::vector<int64_t> destinations_;
  std::vector<Array> pieces_;  // each its sources, then its destinations
  int64_t num_edges_ = 0;
  int64_t largest_id_ = -1;
};

/// Adds the edges of a text file with a source and a destination per line, numbered from `first_id`,
/// to `spool`.
/// Errors: NotFound, Io, Data with file and line.
Result<EdgeSpool> read_text_edges(
    const std::string& path, int64_t first_id, EdgeSpool spool, ProgressBar& progress
);

}  // namespace gnn::data
