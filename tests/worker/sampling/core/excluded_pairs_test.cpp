#include "worker/sampling/core/excluded_pairs.h"

#include "worker/sampling/core/rng.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace gnn::sampling::core {
namespace {

TEST(ExcludedPairs, HoldWhatWasAddedAndNothingElse) {
  CounterRng rng({5, 6}, 0, 0);
  ExcludedPairs pairs;
  for (int round = 0; round < 20; ++round) {
    pairs.clear();
    EXPECT_TRUE(pairs.empty());
    std::set<std::pair<int64_t, int64_t>> expected;
    // Destinations far apart and with many sources: slots collide and ranges are long.
    for (uint64_t i = rng.below(300); i > 0; --i) {
      const auto source = static_cast<int64_t>(rng.below(10));
      const auto destination = static_cast<int64_t>(rng.below(20)) << 32;
      expected.emplace(source, destination);
      pairs.add(source, destination);
    }
    pairs.build();
    EXPECT_EQ(pairs.empty(), expected.empty());
    for (int64_t destination = 0; destination < 25; ++destination) {
      for (int64_t source = 0; source < 11; ++source) {
        EXPECT_EQ(
            pairs.of(destination << 32).contains(source),
            expected.contains({source, destination << 32})
        );
      }
    }
  }
}

}  // namespace
}  // namespace gnn::sampling::core
