#include "worker/sampling/core/id_map.h"

#include "worker/sampling/core/rng.h"

#include <gtest/gtest.h>

#include <unordered_map>
#include <vector>

namespace gnn::sampling::core {
namespace {

template <class Map>
Map make_map(int64_t num_nodes);
template <>
DirectIdMap make_map(int64_t num_nodes) {
  return DirectIdMap(num_nodes);
}
template <>
HashIdMap<uint32_t> make_map(int64_t /*num_nodes*/) {
  return HashIdMap<uint32_t>(4);
}
template <>
HashIdMap<uint64_t> make_map(int64_t /*num_nodes*/) {
  return HashIdMap<uint64_t>(4);
}

template <class Map>
class IdMap : public ::testing::Test {};
using Maps = ::testing::Types<DirectIdMap, HashIdMap<uint32_t>, HashIdMap<uint64_t>>;
TYPED_TEST_SUITE(IdMap, Maps);

TYPED_TEST(IdMap, NumbersIdsInOrderOfFirstAppearance) {
  auto map = make_map<TypeParam>(100);
  map.begin_batch(100);
  std::vector<int64_t> nodes(101);
  int64_t num_local = 0;
  std::vector<uint32_t> locals;
  for (const int64_t id : {99, 0, 99, 5, 0, 5, 7}) {
    map.make_room(num_local, 1, nodes.data());
    locals.push_back(map.find_or_insert(id, num_local, nodes.data()));
  }
  EXPECT_EQ(locals, (std::vector<uint32_t>{0, 1, 0, 2, 1, 2, 3}));
  EXPECT_EQ(num_local, 4);
  EXPECT_EQ(
      std::vector<int64_t>(nodes.begin(), nodes.begin() + 4), (std::vector<int64_t>{99, 0, 5, 7})
  );
}

TYPED_TEST(IdMap, KeepsTheFirstPlaceOfARepeatedSeed) {
  auto map = make_map<TypeParam>(10);
  map.begin_batch(12);
  std::vector<int64_t> nodes{4, 4, 6, 0};
  map.make_room(0, 3, nodes.data());
  for (int64_t local = 0; local < 3; ++local)
    map.insert_first(nodes[static_cast<size_t>(local)], local);
  int64_t num_local = 3;
  EXPECT_EQ(map.find_or_insert(4, num_local, nodes.data()), 0U);
  EXPECT_EQ(map.find_or_insert(6, num_local, nodes.data()), 2U);
  EXPECT_EQ(num_local, 3);
}

// Many small batches with many ids: stamps run out (a local id of 20 bits leaves 4,095 stamps) and
// tables grow.
TYPED_TEST(IdMap, ForgetsBetweenBatches) {
  constexpr int64_t kNodes = int64_t{1} << 19;
  auto map = make_map<TypeParam>(kNodes);
  std::vector<int64_t> nodes(kNodes + 1);
  CounterRng rng({1, 2}, 0, 0);
  for (int batch = 0; batch < 9000; ++batch) {
    map.begin_batch(kNodes);
    const int64_t draws = batch % 1000 == 999 ? 20000 : 8;
    std::unordered_map<int64_t, uint32_t> expected;
    int64_t num_local = 0;
    for (int64_t i = 0; i < draws; ++i) {
      const auto id = static_cast<int64_t>(rng.below(batch % 2 == 0 ? 8 : kNodes));
      map.make_room(num_local, 1, nodes.data());
      const auto [place, is_new] = expected.try_emplace(id, static_cast<uint32_t>(expected.size()));
      ASSERT_EQ(map.find_or_insert(id, num_local, nodes.data()), place->second)
          << "batch " << batch;
    }
    ASSERT_EQ(num_local, static_cast<int64_t>(expected.size()));
  }
}

TEST(HashIdMap, TakesIdsBeyondThirtyTwoBits) {
  HashIdMap<uint64_t> map(4);
  map.begin_batch(0);
  std::vector<int64_t> nodes(4);
  int64_t num_local = 0;
  EXPECT_EQ(map.find_or_insert(int64_t{1} << 40, num_local, nodes.data()), 0U);
  EXPECT_EQ(map.find_or_insert(0, num_local, nodes.data()), 1U);
  EXPECT_EQ(map.find_or_insert(int64_t{1} << 40, num_local, nodes.data()), 0U);
  EXPECT_EQ(nodes[0], int64_t{1} << 40);
}

}  // namespace
}  // namespace gnn::sampling::core
