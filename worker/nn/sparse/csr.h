#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace gnn::nn {

/// A sparse 0/1 matrix by rows. An entry may occur more than once and counts each time.
struct Csr {
  at::Tensor indptr;   ///< int64 [num_rows + 1]
  at::Tensor indices;  ///< int32 or int64 [E]: columns
  int64_t num_rows = 0;
  int64_t num_cols = 0;
};

}  // namespace gnn::nn
