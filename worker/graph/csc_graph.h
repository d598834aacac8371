#pragma once

#include "common/result.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace gnn::graph {

/// Immutable in-neighbour lists (CSC): the sources of the edges that end in node v are
/// indices[indptr[v] .. indptr[v + 1]).
/// Copies share storage. Threading: safe to read from any thread.
class CscGraph {
 public:
  /// Checks shapes, dtypes, monotonicity of indptr and the range of every index.
  /// Shapes: indptr int64 [num_dst + 1]; indices int32 or int64 [E], values in [0, num_src_nodes);
  /// edge_ids int64 [E], or undefined. All contiguous and on the CPU.
  /// Errors: Data, naming the tensor and the first bad position.
  [[nodiscard]] static Result<CscGraph> create(
      at::Tensor indptr, at::Tensor indices, int64_t num_src_nodes, at::Tensor edge_ids = {}
  );

  [[nodiscard]] int64_t num_src_nodes() const { return num_src_nodes_; }
  [[nodiscard]] int64_t num_dst_nodes() const { return indptr_.numel() - 1; }
  [[nodiscard]] int64_t num_edges() const { return indices_.numel(); }

  [[nodiscard]] const at::Tensor& indptr() const { return indptr_; }
  [[nodiscard]] const at::Tensor& indices() const { return indices_; }
  /// Undefined when edges carry no ids of their own.
  [[nodiscard]] const at::Tensor& edge_ids() const { return edge_ids_; }

 private:
  CscGraph() = default;

  at::Tensor indptr_;
  at::Tensor indices_;
  at::Tensor edge_ids_;
  int64_t num_src_nodes_ = 0;
};

}  // namespace gnn::graph
