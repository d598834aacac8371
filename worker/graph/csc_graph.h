#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/data/partitions.h"
#include "worker/graph/share.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace gnn::graph {

/// Immutable in-neighbour lists (CSC): the sources of node v's in-edges are
/// indices[indptr[v] .. indptr[v + 1]). Copies share storage.
/// Threads: safe to read from any thread.
class CscGraph {
 public:
  /// Checks shapes, dtypes, monotonicity of indptr and the range of every index.
  /// Shapes: indptr int64 [num_destinations + 1]; indices int32 or int64 [E], in [0, num_sources);
  /// edge_ids int64 [E], or undefined. All contiguous and on the CPU.
  /// Errors: Data, naming the tensor and the first bad position.
  [[nodiscard]] static Result<CscGraph> create(
      at::Tensor indptr, at::Tensor indices, int64_t num_sources, at::Tensor edge_ids = {}
  );

  /// The same, but looks at no elements besides the ends of indptr: until check_elements() has passed
  /// for all shares, no list may be read.
  [[nodiscard]] static Result<CscGraph> create_unchecked(
      at::Tensor indptr, at::Tensor indices, int64_t num_sources, at::Tensor edge_ids = {}
  );

  /// Checks the part `share` of indptr and indices; with `destinations` that of the lists of these
  /// alone, and touches nothing of others.
  /// Errors: Data, naming the tensor and the first bad position.
  [[nodiscard]] Status check_elements(
      Share share,
      ProgressBar& progress,
      const std::optional<data::IdRange>& destinations = std::nullopt
  ) const;

  [[nodiscard]] int64_t num_sources() const { return num_sources_; }
  [[nodiscard]] int64_t num_destinations() const { return indptr_.numel() - 1; }
  [[nodiscard]] int64_t num_edges() const { return indices_.numel(); }

  [[nodiscard]] const at::Tensor& indptr() const { return indptr_; }
  [[nodiscard]] const at::Tensor& indices() const { return indices_; }
  /// Undefined if an edge's id is its position.
  [[nodiscard]] const at::Tensor& edge_ids() const { return edge_ids_; }

 private:
  CscGraph() = default;

  at::Tensor indptr_;
  at::Tensor indices_;
  at::Tensor edge_ids_;
  int64_t num_sources_ = 0;
};

}  // namespace gnn::graph
