#include "worker/sampling/core/rng.h"

#include "tests/worker/sampling/core/chi_square.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace gnn::sampling::core {
namespace {

// The known answers of the authors' library (Random123, kat_vectors).
TEST(Philox, GivesTheAuthorsKnownAnswers) {
  EXPECT_EQ(
      Philox4x32::block({0, 0, 0, 0}, {0, 0}),
      (Philox4x32::Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8})
  );
  EXPECT_EQ(
      Philox4x32::block({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
      (Philox4x32::Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd})
  );
  EXPECT_EQ(
      Philox4x32::block({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      (Philox4x32::Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1})
  );
}

TEST(DeriveKey, DependsOnEveryPartOfThePosition) {
  constexpr uint64_t kHigh = uint64_t{1} << 32;
  const StreamPosition base{.seed = 1, .epoch = 2, .batch = 3};
  std::set<Philox4x32::Key> keys{derive_key(base, StreamPurpose::NewNodes)};
  keys.insert(derive_key(base, StreamPurpose::AllSeen));
  keys.insert(derive_key(base, StreamPurpose::EpochShuffle));
  for (const uint64_t change : {uint64_t{1}, kHigh}) {
    keys.insert(derive_key({base.seed + change, base.epoch, base.batch}, StreamPurpose::NewNodes));
    keys.insert(derive_key({base.seed, base.epoch + change, base.batch}, StreamPurpose::NewNodes));
    keys.insert(derive_key({base.seed, base.epoch, base.batch + change}, StreamPurpose::NewNodes));
  }
  EXPECT_EQ(keys.size(), 9U);
}

TEST(CounterRng, GivesEachNodeAndLaneItsOwnNumbers) {
  const Philox4x32::Key key = derive_key({}, StreamPurpose::NewNodes);
  std::set<uint64_t> first_draws;
  for (uint32_t lane = 0; lane < 4; ++lane) {
    for (const uint64_t node :
         {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32, (uint64_t{1} << 32) + 1}) {
      first_draws.insert(CounterRng(key, lane, node).next64());
    }
  }
  EXPECT_EQ(first_draws.size(), 16U);
}

TEST(CounterRng, StaysBelowTheBound) {
  CounterRng rng({1, 2}, 0, 0);
  for (const uint64_t bound :
       {uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{0xFFFFFFFF}, uint64_t{1} << 32, ~uint64_t{0}
       }) {
    for (int i = 0; i < 1000; ++i) ASSERT_LT(rng.below(bound), bound);
  }
}

// 2^32 mod bound is large for these bounds, so that a method without rejection shows: at 3 * 2^30
// it would draw the numbers divisible by 3 twice as often.
TEST(CounterRng, IsUniformWherePlainScalingIsNot) {
  CounterRng rng({5, 6}, 0, 0);
  constexpr uint64_t kBound = uint64_t{3} << 30;
  std::vector<int64_t> by_remainder(3);
  for (int i = 0; i < 300000; ++i) ++by_remainder[rng.below(kBound) % 3];
  EXPECT_LT(chi_square_deviation(by_remainder, 300000, 1.0 / 3), 5);

  constexpr uint64_t kWideBound = uint64_t{3} << 62;
  std::vector<int64_t> wide_by_remainder(3);
  for (int i = 0; i < 300000; ++i) ++wide_by_remainder[rng.below(kWideBound) % 3];
  EXPECT_LT(chi_square_deviation(wide_by_remainder, 300000, 1.0 / 3), 5);
}

}  // namespace
}  // namespace gnn::sampling::core
