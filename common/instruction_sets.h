#pragma once

#include <cstdlib>
#include <string_view>

// For functions that are compiled twice where the machine may know AVX2 and picked once at run time.
#if defined(__x86_64__)
#define GNN_AVX2 __attribute__((target("avx2")))
#else
#define GNN_AVX2
#endif
#define GNN_INLINE [[gnu::always_inline]] inline

namespace gnn {

/// Whether the functions marked GNN_AVX2 run: the processor can, and LibTorch's variable
/// ATEN_CPU_CAPABILITY does not ask for what every processor can (`default`).
inline bool has_avx2() {
#if defined(__x86_64__)
  static const bool kHas = [] {
    const char* const wanted = std::getenv("ATEN_CPU_CAPABILITY");
    return __builtin_cpu_supports("avx2") &&
           (wanted == nullptr || std::string_view(wanted) != "default");
  }();
  return kHas;
#else
  return false;
#endif
}

}  // namespace gnn
