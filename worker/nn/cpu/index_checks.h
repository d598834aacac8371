#pragma once

#include <cstdint>

namespace gnn::nn::cpu {

/// Index of the first entry outside [0, num_cols), or -1. I is int32_t or int64_t.
template <class I>
int64_t first_outside(const I* indices, int64_t num_entries, int64_t num_cols);

/// How many of the indices are `value`. I is int32_t or int64_t.
template <class I>
int64_t count_equal(const I* indices, int64_t num_entries, int64_t value);

/// Index of the first value that is below the one before it, or -1.
int64_t first_falling(const int64_t* values, int64_t size);

}  // namespace gnn::nn::cpu
