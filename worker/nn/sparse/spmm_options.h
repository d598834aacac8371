#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace gnn::nn {

/// What spmm does besides summing; an undefined tensor leaves its part out. Scales are float32 for
/// a bfloat16 x, of x's own type otherwise (spmm_scale_type).
struct SpmmOptions {
  at::Tensor row_scale;     ///< [num_rows]: multiplies each row's sum
  at::Tensor col_scale;     ///< [num_cols]: multiplies each row of x
  at::Tensor root;          ///< [r, F], r <= num_rows: added to the first r rows of the result
  at::Tensor root_scale;    ///< [r]: multiplies the rows of root
  bool skip_loops = false;  ///< leaves out the entries of a row in its own column
  /// int64 [num_rows]: each row's own column; undefined: row i's is column i.
  at::Tensor own_columns = {};
  /// The type of root and result: that of x if absent, or float32 for a bfloat16 x.
  std::optional<at::ScalarType> result = {};
};

}  // namespace gnn::nn
