#pragma once

#include "worker/nn/sparse/spmm_arguments.h"

#include <c10/util/BFloat16.h>

#include <bit>
#include <cstdint>

// For kernels that are compiled twice where the machine may know AVX2 and picked once at run time.
// Contraction to fused multiply-add is off (CMakeLists.txt), so both give the same bits.
#if defined(__x86_64__)
#define GNN_AVX2 __attribute__((target("avx2")))
#else
#define GNN_AVX2
#endif
#define GNN_INLINE [[gnu::always_inline]] inline

namespace gnn::nn::cpu {

/// Whether this processor runs the functions marked GNN_AVX2.
inline bool has_avx2() {
#if defined(__x86_64__)
  static const bool kHas = __builtin_cpu_supports("avx2");
  return kHas;
#else
  return false;
#endif
}

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
