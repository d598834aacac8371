#include "tests/bench/sampling/limits.h"

namespace gnn::bench {

uint64_t load_at_random(const int32_t* values, uint64_t size, int64_t count, uint64_t seed) {
  __extension__ using Uint128 = unsigned __int128;
  uint64_t state = seed;
  uint64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    // A linear congruential step: the addresses must not depend on the loads.
    state = state * 6364136223846793005U + 1442695040888963407U;
    sum += static_cast<uint32_t>(values[static_cast<uint64_t>(Uint128{state} * size >> 64)]);
  }
  return sum;
}

}  // namespace gnn::bench
