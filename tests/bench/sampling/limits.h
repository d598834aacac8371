#pragma once

#include <cstddef>
#include <cstdint>

namespace gnn::bench {

/// Loads `count` independent random elements of an array of `size` int32, as a core without
/// anything else to do; returns their sum, so that nothing is left out.
uint64_t load_at_random(const int32_t* values, uint64_t size, int64_t count, uint64_t seed);

}  // namespace gnn::bench
