#include "worker/data/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace gnn::data {
namespace {

TEST(Half, ConvertsEveryHalfThereAndBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = half_to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(value))));
    } else {
      ASSERT_EQ(float_to_half(value), half) << bits;
    }
  }
  EXPECT_EQ(half_to_float(0x3C00), 1.0F);
  EXPECT_EQ(half_to_float(0x0001), 0x1p-24F);
  EXPECT_EQ(float_to_half(65519.0F), 0x7BFF);
  EXPECT_EQ(float_to_half(65520.0F), 0x7C00);
  EXPECT_EQ(float_to_half(1.0F + 0x1p-11F), 0x3C00);  // halfway: to even
  EXPECT_EQ(float_to_half(1.0F + 3 * 0x1p-11F), 0x3C02);
}

}  // namespace
}  // namespace gnn::data
