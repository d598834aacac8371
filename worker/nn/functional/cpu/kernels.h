#pragma once

#include <cstdint>

/// Loops over plain memory, apart from the tensor code so that they alone need OpenMP and vector
/// flags.
namespace gnn::nn::cpu {

/// Storage bits of a bfloat16.
struct BFloat16 {
  uint16_t bits;
};

template <class T>
struct ScaleOf {
  using Type = T;
};
template <>
struct ScaleOf<BFloat16> {
  using Type = float;
};

/// Arguments of spmm; null leaves a part out. T is float, double or BFloat16; I is int32_t or
/// int64_t.
template <class T, class I>
struct SpmmArguments {
  using Scale = typename ScaleOf<T>::Type;
  const int64_t* indptr = nullptr;
  const I* indices = nullptr;
  const T* x = nullptr;
  int64_t x_stride = 0;
  T* out = nullptr;
  int64_t out_stride = 0;
  const Scale* row_scale = nullptr;
  const Scale* col_scale = nullptr;
  const T* root = nullptr;
  int64_t root_stride = 0;
  const Scale* root_scale = nullptr;
  int64_t num_roots = 0;
  int64_t num_rows = 0;
  int64_t num_columns = 0;  ///< Of x and out: F.
  bool skip_loops = false;
};

template <class T, class I>
void spmm(const SpmmArguments<T, I>& arguments);

/// Writes the transposed matrix: t_indptr [num_cols + 1], t_indices [E].
template <class I>
void transpose(
    const int64_t* indptr,
    const I* indices,
    int64_t num_rows,
    int64_t num_cols,
    int64_t* t_indptr,
    I* t_indices
);

/// Index of the first entry outside [0, num_cols), or -1.
template <class I>
int64_t first_outside(const I* indices, int64_t num_entries, int64_t num_cols);

/// Index of the first value that is below the one before it, or -1.
int64_t first_falling(const int64_t* values, int64_t size);

/// y = max(y, 0) with each element kept with probability 1 - p and then divided by it, in place.
/// Element i's draw is a function of (key, i) alone.
template <class T>
void relu_dropout(T* y, int64_t size, double p, uint64_t key);

/// grad = output > 0 ? grad_output * scale : 0
template <class T>
void relu_dropout_backward(
    const T* output, const T* grad_output, T* grad, int64_t size, double scale
);

}  // namespace gnn::nn::cpu
