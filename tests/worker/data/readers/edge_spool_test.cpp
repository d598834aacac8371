#include "worker/data/readers/edge_spool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace gnn::data {
namespace {

std::vector<std::pair<int64_t, int64_t>> edges_in(const EdgeSource& source) {
  std::vector<std::pair<int64_t, int64_t>> edges;
  source.for_each_chunk([&](std::span<const int64_t> sources,
                            std::span<const int64_t> destinations) {
    for (size_t i = 0; i < sources.size(); ++i) {
      edges.emplace_back(sources[i], destinations[i]);
    }
  });
  return edges;
}

TEST(EdgeSpool, GivesItsEdgesBackInOrder) {
  MemoryStorage memory;
  EdgeSpool spool(memory, "edges.csv: line ");
  std::vector<std::pair<int64_t, int64_t>> wanted;
  for (int64_t i = 0; i < (int64_t{2} << 20) + 5; ++i) {
    wanted.emplace_back(i, 3 * i);
    ASSERT_TRUE(spool.add(i, 3 * i));
  }
  ASSERT_TRUE(spool.finish());
  EXPECT_EQ(spool.num_edges(), static_cast<int64_t>(wanted.size()));
  EXPECT_EQ(spool.largest_id(), wanted.back().second);
  EXPECT_EQ(edges_in(spool), wanted);
  EXPECT_EQ(edges_in(spool), wanted);
  EXPECT_EQ(spool.where(6), "edges.csv: line 7");
}

TEST(EdgeSpool, KeepsIdsThatNeedAllTheirBits) {
  MemoryStorage memory;
  EdgeSpool spool(memory, "");
  const int64_t large = int64_t{1} << 40;
  ASSERT_TRUE(spool.add(large, -1));
  ASSERT_TRUE(spool.add(0, std::numeric_limits<int64_t>::min()));
  ASSERT_TRUE(spool.finish());
  EXPECT_EQ(spool.largest_id(), large);
  const std::vector<std::pair<int64_t, int64_t>> wanted{
      {large, -1}, {0, std::numeric_limits<int64_t>::min()}
  };
  EXPECT_EQ(edges_in(spool), wanted);
}

TEST(EdgeSpool, MayBeEmpty) {
  MemoryStorage memory;
  EdgeSpool spool(memory, "");
  ASSERT_TRUE(spool.finish());
  EXPECT_EQ(spool.largest_id(), -1);
  EXPECT_TRUE(edges_in(spool).empty());
}

}  // namespace
}  // namespace gnn::data
