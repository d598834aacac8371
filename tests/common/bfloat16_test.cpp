#include "common/bfloat16.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace gnn {
namespace {

TEST(Bfloat16, RoundsToNearestWithTiesToEven) {
  const auto rounded = [](float value) { return bfloat16_to_float(float_to_bfloat16(value)); };
  constexpr float kUlp = 0x1p-7F;  // of a bfloat16 between 1 and 2
  EXPECT_EQ(rounded(1 + kUlp), 1 + kUlp);
  EXPECT_EQ(rounded(1 + kUlp / 2), 1) << "a tie";
  EXPECT_EQ(rounded(1 + 3 * kUlp / 2), 1 + 2 * kUlp) << "a tie";
  EXPECT_EQ(rounded(std::nextafter(1 + kUlp / 2, 2.F)), 1 + kUlp);
  EXPECT_EQ(rounded(-1 - 3 * kUlp / 2), -1 - 2 * kUlp);
  EXPECT_EQ(rounded(16'777'217.F), 16'777'216.F);
  EXPECT_EQ(rounded(0x1p-133F), 0x1p-133F) << "the smallest bfloat16";
}

TEST(Bfloat16, KeepsInfinitiesAndNaNsAndOverflowsBeyondItsLargest) {
  const auto rounded = [](float value) { return bfloat16_to_float(float_to_bfloat16(value)); };
  constexpr float kLargest = 0x1.fep127F;
  EXPECT_EQ(rounded(3.389e38F), kLargest);
  EXPECT_TRUE(std::isinf(rounded(3.4e38F)));
  EXPECT_EQ(rounded(-INFINITY), -INFINITY);
  EXPECT_TRUE(std::isnan(rounded(std::numeric_limits<float>::quiet_NaN())));
  // A NaN whose bits would be rounded to those of an infinity.
  EXPECT_TRUE(std::isnan(rounded(std::bit_cast<float>(0x7f800001U))));
}

}  // namespace
}  // namespace gnn
