#pragma once

#include "common/instruction_sets.h"
#include "worker/nn/sparse/spmm_arguments.h"

#include <c10/util/BFloat16.h>

#include <bit>
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
  return std::bit_cast<float>(static_cast<uint32_t>(value.x) << 16);
}

/// The reverse of load(); bfloat16 rounds to nearest, ties to even, and a NaN stays a NaN.
template <class T>
GNN_INLINE T store(typename ScaleOf<T>::Type value) {
  return value;
}
template <>
GNN_INLINE c10::BFloat16 store(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return {static_cast<uint16_t>(is_nan ? 0x7fc0U : rounded), c10::BFloat16::from_bits()};
}

}  // namespace gnn::nn::cpu
