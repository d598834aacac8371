#pragma once

#include "common/bfloat16.h"
#include "common/instruction_sets.h"
#include "worker/nn/sparse/spmm_arguments.h"

#include <c10/util/BFloat16.h>

#include <cstdint>

// Contraction to fused multiply-add is off (CMakeLists.txt), so that kernels for AVX2 give the same
// bits as those without.
namespace gnn::nn::cpu {

/// An element as the type that sums are taken in.
template <class T>
GNN_INLINE typename ScaleOf<T>::Type load(T value) {
  return value;
}
template <>
GNN_INLINE float load(c10::BFloat16 value) {
  return bfloat16_to_float(value.x);
}

/// The reverse of load(); bfloat16 rounds as float_to_bfloat16().
template <class T>
GNN_INLINE T store(typename ScaleOf<T>::Type value) {
  return value;
}
template <>
GNN_INLINE c10::BFloat16 store(float value) {
  return {float_to_bfloat16(value), c10::BFloat16::from_bits()};
}

}  // namespace gnn::nn::cpu
