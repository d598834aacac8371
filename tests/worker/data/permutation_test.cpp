#include "worker/data/permutation.h"

#include <gtest/gtest.h>

#include <vector>

namespace gnn::data {
namespace {

TEST(Permutation, HasEachNumberOnceAndKnowsItsPlace) {
  for (const int64_t size : {1, 2, 3, 17, 64, 1000}) {
    const Permutation permutation(size, 7, 1);
    std::vector<int64_t> seen(static_cast<size_t>(size));
    for (int64_t place = 0; place < size; ++place) {
      const int64_t number = permutation.at(place);
      ASSERT_GE(number, 0);
      ASSERT_LT(number, size);
      ++seen[static_cast<size_t>(number)];
      EXPECT_EQ(permutation.place_of(number), place);
    }
    EXPECT_EQ(seen, std::vector<int64_t>(static_cast<size_t>(size), 1)) << size;
  }
}

}  // namespace
}  // namespace gnn::data
