#include "worker/checkpoint/finite.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>

namespace gnn::checkpoint {
namespace {

TEST(Finite, NamesTheFirstTensorThatHoldsANanOrAnInfinity) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    for (const double bad : {nan, infinity, -infinity}) {
      const at::Tensor last = at::tensor({0.0, 1.0, bad}, at::kDouble).to(type);
      EXPECT_EQ(first_not_finite({{"good", at::ones({2})}, {"bad", last}, {"worse", last}}), "bad")
          << type << ' ' << bad;
    }
  }
}

TEST(Finite, IsLookedForInEachPartOfALargeTensor) {
  at::Tensor large = at::ones({5, 3, 1'000'000});
  EXPECT_EQ(first_not_finite({{"large", large}}), std::nullopt);
  large[4][2][999'999] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(first_not_finite({{"large", large}}), "large");
}

TEST(Finite, FindsNothingInFiniteValuesIntegersAndEmptyTensors) {
  EXPECT_EQ(first_not_finite({}), std::nullopt);
  EXPECT_EQ(
      first_not_finite(
          {{"largest", at::full({2}, std::numeric_limits<float>::max())},
           {"integers", at::full({2}, std::numeric_limits<int64_t>::max(), at::kLong)},
           {"empty", at::empty({0, 4})}}
      ),
      std::nullopt
  );
}

}  // namespace
}  // namespace gnn::checkpoint
