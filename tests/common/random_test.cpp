#include "common/random.h"

#include "tests/support/fixed_random.h"

#include <gtest/gtest.h>

#include <limits>

namespace gnn {
namespace {

TEST(RandomSource, UniformStaysBelowOne) {
  testing::FixedRandom random({0, std::numeric_limits<uint64_t>::max(), uint64_t{1} << 63U});
  EXPECT_EQ(random.uniform(), 0.0);
  EXPECT_LT(random.uniform(), 1.0);
  EXPECT_EQ(random.uniform(), 0.5);
}

TEST(SystemRandom, TwoSourcesDiffer) {
  SystemRandom one;
  SystemRandom two;
  EXPECT_NE(one.next(), two.next());
}

}  // namespace
}  // namespace gnn
