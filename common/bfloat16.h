#pragma once

#include "common/instruction_sets.h"

#include <bit>
#include <cstdint>

namespace gnn {

/// The value of a bfloat16, which is the upper half of a float32; exact.
[[nodiscard]] GNN_INLINE constexpr float bfloat16_to_float(uint16_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) << 16U);
}

/// Rounds to nearest, ties to even; beyond the largest bfloat16 to infinity. A NaN stays a NaN.
[[nodiscard]] GNN_INLINE constexpr uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U;
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return static_cast<uint16_t>(is_nan ? 0x7fc0U : rounded);
}

}  // namespace gnn
