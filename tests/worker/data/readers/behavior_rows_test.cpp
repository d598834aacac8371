#include "worker/data/readers/behavior_rows.h"

#include "common/thread_pool.h"
#include "worker/data/array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <vector>

namespace gnn::data {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class BehaviorRowsTest : public ::testing::Test {
 protected:
  MemoryStorage memory_;
  ThreadPool pool_{1};
};

std::vector<int64_t> repeats_by_set(const std::vector<BehaviorRow>& rows) {
  std::set<BehaviorRow> seen;
  std::vector<int64_t> repeats;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!seen.insert(rows[i]).second) repeats.push_back(static_cast<int64_t>(i));
  }
  return repeats;
}

TEST_F(BehaviorRowsTest, KeepsRowsOfAnyWidth) {
  constexpr int64_t kLarge = std::numeric_limits<int64_t>::max();
  const std::vector<BehaviorRow> narrow{{1, 2, 3, 4}, {5, 6, 7, 8}};
  const std::vector<BehaviorRow> wide{{kLarge, 2, 3, 4}, {1, kLarge - 1, kLarge, 4}};
  BehaviorRows rows(memory_);
  ASSERT_TRUE(rows.add(narrow));
  ASSERT_TRUE(rows.add({}));
  ASSERT_TRUE(rows.add(wide));
  EXPECT_EQ(rows.num_rows(), 4);
  EXPECT_EQ(rows.at(1), narrow[1]);
  EXPECT_EQ(rows.at(2), wide[0]);
  std::vector<BehaviorRow> all;
  rows.for_each([&](int64_t position, const BehaviorRow& row) {
    EXPECT_EQ(position, static_cast<int64_t>(all.size()));
    all.push_back(row);
  });
  EXPECT_THAT(all, ElementsAre(narrow[0], narrow[1], wide[0], wide[1]));
}

TEST_F(BehaviorRowsTest, FindsEveryRepeatWithAnyMemory) {
  std::mt19937_64 random(3);
  std::vector<BehaviorRow> listed;
  BehaviorRows rows(memory_);
  for (int piece = 0; piece < 5; ++piece) {
    std::vector<BehaviorRow> some;
    for (int i = 0; i < 700; ++i) {
      const auto below = [&](uint64_t bound) { return static_cast<int64_t>(random() % bound); };
      some.push_back({below(6), below(7), below(3), below(20)});
    }
    ASSERT_TRUE(rows.add(some));
    listed.insert(listed.end(), some.begin(), some.end());
  }
  const std::vector<int64_t> expected = repeats_by_set(listed);
  EXPECT_GT(expected.size(), 500U);
  for (const int64_t memory : {int64_t{1}, int64_t{20'000}, int64_t{1} << 30U}) {
    EXPECT_EQ(find_repeats(rows, memory, pool_), expected) << memory << " bytes";
  }
}

TEST_F(BehaviorRowsTest, TellsRowsApartInEachColumn) {
  const std::vector<BehaviorRow> listed{
      {1, 1, 1, 1}, {2, 1, 1, 1}, {1, 2, 1, 1}, {1, 1, 2, 1}, {1, 1, 1, 2}
  };
  BehaviorRows rows(memory_);
  ASSERT_TRUE(rows.add(listed));
  EXPECT_THAT(find_repeats(rows, 1000, pool_), IsEmpty());
}

// The same numbers from a bit for each id and from a sorted list.
TEST(IdNumbers, FollowTheOrderOfIds) {
  const auto numbers_of = [](const std::vector<int64_t>& ids) {
    const IdNumbers numbers = IdNumbers::of(
        *std::max_element(ids.begin(), ids.end()),
        static_cast<int64_t>(ids.size()),
        [&](const auto& take) { std::for_each(ids.begin(), ids.end(), take); }
    );
    EXPECT_EQ(numbers.size(), 4);
    std::vector<int64_t> found;
    for (const int64_t id : ids) found.push_back(numbers.number_of(id));
    return found;
  };
  EXPECT_THAT(numbers_of({64, 3, 3, 0, 127, 64}), ElementsAre(2, 1, 1, 0, 3, 2));
  constexpr int64_t kLarge = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(numbers_of({64, 3, 3, 0, kLarge, 64}), ElementsAre(2, 1, 1, 0, 3, 2));
}

}  // namespace
}  // namespace gnn::data
