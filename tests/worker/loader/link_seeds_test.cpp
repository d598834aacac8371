#include "worker/loader/link_seeds.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace gnn::loader {
namespace {

TEST(LinkSeeds, AreDistinctAndAscending) {
  const std::vector<int64_t> ends{7, 2, 7, 9, 2};
  const LinkSeeds seeds = index_ends(ends);
  EXPECT_TRUE(seeds.ids.equal(at::tensor({2, 7, 9}, at::kLong)));
  EXPECT_TRUE(seeds.rows.equal(at::tensor({1, 0, 1, 2, 0}, at::kLong)));
}

TEST(LinkSeeds, LeadEachEndToItsId) {
  at::manual_seed(4);
  for (const int64_t limit : {int64_t{50}, int64_t{1} << 33, int64_t{1} << 62}) {
    const at::Tensor ends = at::randint(0, limit, {5000}, at::kLong);
    const LinkSeeds seeds = index_ends({ends.const_data_ptr<int64_t>(), 5000});
    EXPECT_TRUE(seeds.ids.index_select(0, seeds.rows).equal(ends));
    EXPECT_TRUE(seeds.ids.equal(std::get<0>(at::_unique(ends, /*sorted=*/true))));
  }
}

TEST(LinkSeeds, OfNoLinksAreNone) {
  EXPECT_EQ(index_ends({}).ids.numel(), 0);
  EXPECT_EQ(index_ends({}).rows.numel(), 0);
}

}  // namespace
}  // namespace gnn::loader
