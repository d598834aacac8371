#include "worker/nn/cpu/index_checks.h"

namespace gnn::nn::cpu {

template <class I>
int64_t first_outside(const I* indices, int64_t num_entries, int64_t num_cols) {
  // One unsigned comparison finds negatives too; the loop has no exit, so that it vectorises.
  bool any = false;
  for (int64_t entry = 0; entry < num_entries; ++entry) {
    any |= static_cast<uint64_t>(static_cast<int64_t>(indices[entry])) >=
           static_cast<uint64_t>(num_cols);
  }
  if (!any) return -1;
  for (int64_t entry = 0; entry < num_entries; ++entry) {
    if (indices[entry] < 0 || static_cast<int64_t>(indices[entry]) >= num_cols) return entry;
  }
  return -1;
}

template <class I>
int64_t count_equal(const I* indices, int64_t num_entries, int64_t value) {
  int64_t count = 0;
  for (int64_t entry = 0; entry < num_entries; ++entry) {
    count += static_cast<int64_t>(static_cast<int64_t>(indices[entry]) == value);
  }
  return count;
}

int64_t first_falling(const int64_t* values, int64_t size) {
  for (int64_t i = 1; i < size; ++i) {
    if (values[i] < values[i - 1]) return i;
  }
  return -1;
}

template int64_t first_outside<int32_t>(const int32_t*, int64_t, int64_t);
template int64_t first_outside<int64_t>(const int64_t*, int64_t, int64_t);
template int64_t count_equal<int32_t>(const int32_t*, int64_t, int64_t);
template int64_t count_equal<int64_t>(const int64_t*, int64_t, int64_t);

}  // namespace gnn::nn::cpu
