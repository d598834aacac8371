#pragma once

#include "common/result.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>

namespace gnn::graph {

/// The feature rows of a node or edge type: read-only, in memory or mapped from a file, in the
/// dtype that they were stored in. Cheap to copy: copies share the rows.
/// Threads: safe; nothing changes after create().
class FeatureStore {
 public:
  /// Shapes: rows [num_rows, width] on the CPU, of any dtype but complex and quantised.
  /// Errors: Data if the tensor is undefined, not two-dimensional, not dense or not on the CPU.
  static Result<FeatureStore> create(const at::Tensor& rows);

  [[nodiscard]] int64_t num_rows() const { return rows_.size(0); }
  [[nodiscard]] int64_t width() const { return rows_.size(1); }
  [[nodiscard]] int64_t row_bytes() const { return row_bytes_; }
  [[nodiscard]] at::ScalarType dtype() const { return rows_.scalar_type(); }

  /// First byte of row `id`, which must be in [0, num_rows()). Rows are row_bytes() apart.
  [[nodiscard]] const std::byte* row(int64_t id) const { return data_ + id * row_bytes_; }

  /// All rows, contiguous [num_rows, width]. Do not write to it: it may be a read-only mapping.
  [[nodiscard]] const at::Tensor& rows() const { return rows_; }

  /// Copies the rows of `ids` (int64 [K], CPU) into a new tensor [K, width] of the same dtype.
  /// Errors: TORCH_CHECK if an id is outside [0, num_rows()).
  [[nodiscard]] at::Tensor gather(const at::Tensor& ids) const;

 private:
  explicit FeatureStore(at::Tensor rows);

  at::Tensor rows_;
  const std::byte* data_;
  int64_t row_bytes_;
};

}  // namespace gnn::graph
