#pragma once

// For functions that are compiled twice where the machine may know AVX2 and picked once at run time.
#if defined(__x86_64__)
#define GNN_AVX2 __attribute__((target("avx2")))
#else
#define GNN_AVX2
#endif
#define GNN_INLINE [[gnu::always_inline]] inline

namespace gnn {

/// Whether this processor runs the functions marked GNN_AVX2.
inline bool has_avx2() {
#if defined(__x86_64__)
  static const bool kHas = __builtin_cpu_supports("avx2");
  return kHas;
#else
  return false;
#endif
}

}  // namespace gnn
