#include "worker/data/co_occurrence.h"

#include "common/progress_bar.h"
#include "common/thread_pool.h"
#include "tests/worker/data/files.h"
#include "tests/worker/data/storage_fake.h"
#include "worker/data/csc_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gnn::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::to_vector;

struct Pair {
  int64_t user;
  int64_t item;
};

class ListedPairs final : public EdgeSource {
 public:
  explicit ListedPairs(const std::vector<Pair>& pairs) : pairs_(pairs) {}
  [[nodiscard]] int64_t num_edges() const override { return static_cast<int64_t>(pairs_.size()); }
  void for_each_chunk(const Chunk& chunk) const override {
    for (const Pair& pair : pairs_) {
      chunk({&pair.user, 1}, {&pair.item, 1});
    }
  }

 private:
  const std::vector<Pair>& pairs_;
};

class CoOccurrence : public ::testing::Test {
 protected:
  // User-item edges with ids in the order of `pairs`.
  EdgeTable table(const std::vector<Pair>& pairs, int64_t users, int64_t items) {
    const CscOptions options{.num_sources = users, .num_destinations = items, .edge_ids = true};
    const auto csc = build_csc(ListedPairs(pairs), options, memory_, "edges", silent_);
    EXPECT_TRUE(csc) << csc.error().message;
    return {
        .source = "user",
        .relation = "to",
        .destination = "item",
        .indptr = csc->indptr,
        .indices = csc->indices,
        .edge_ids = csc->edge_ids,
        .features = {}
    };
  }

  Result<EdgeTable> joined(const EdgeTable& edges, const CoOccurrenceOptions& options) {
    return co_occurrence(edges, options, pool_, memory_, silent_);
  }

  MemoryStorage memory_;
  SilentProgressBar silent_;
  ThreadPool pool_{2};
};

// The joined pairs by their definition.
std::vector<std::pair<int64_t, int64_t>> brute_force(
    const std::vector<Pair>& pairs, const std::vector<uint8_t>& mask, int64_t at_least
) {
  std::map<int64_t, std::map<int64_t, int64_t>> by_user;
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (mask[i] != 0) ++by_user[pairs[i].user][pairs[i].item];
  }
  std::map<std::pair<int64_t, int64_t>, int64_t> counts;
  for (const auto& [user, items] : by_user) {
    for (const auto& [left, times] : items) {
      for (const auto& [right, other_times] : items) {
        if (left != right) counts[{right, left}] += times * other_times;
      }
    }
  }
  std::vector<std::pair<int64_t, int64_t>> found;
  for (const auto& [pair, count] : counts) {
    if (count >= at_least) found.push_back(pair);
  }
  return found;
}

// (destination, source) of each edge, in order.
std::vector<std::pair<int64_t, int64_t>> edges_of(const EdgeTable& table) {
  const auto indptr = table.indptr.view<int64_t>();
  const auto indices = table.indices.view<int32_t>();
  std::vector<std::pair<int64_t, int64_t>> edges;
  for (size_t node = 0; node + 1 < indptr.size(); ++node) {
    for (int64_t place = indptr[node]; place < indptr[node + 1]; ++place) {
      edges.emplace_back(static_cast<int64_t>(node), indices[static_cast<size_t>(place)]);
    }
  }
  return edges;
}

TEST_F(CoOccurrence, CountsSharedUsersWithMultiplicity) {
  // User 0 saw items 0 and 1 twice each: 4. Users 1 and 2 saw items 1 and 2: 2. Item 3 has none.
  const EdgeTable edges =
      table({{0, 0}, {0, 1}, {0, 0}, {0, 1}, {1, 1}, {1, 2}, {2, 1}, {2, 2}, {2, 2}}, 4, 4);
  const auto three = joined(edges, {.num_sources = 4, .at_least = 3});
  ASSERT_TRUE(three) << three.error().message;
  EXPECT_EQ(three->source, "item");
  EXPECT_EQ(three->relation, "to");
  EXPECT_EQ(three->destination, "item");
  EXPECT_THAT(to_vector<int64_t>(three->indptr), ElementsAre(0, 1, 3, 4, 4));
  EXPECT_THAT(to_vector<int32_t>(three->indices), ElementsAre(1, 0, 2, 1));
  const auto four = joined(edges, {.num_sources = 4, .at_least = 4});
  EXPECT_THAT(to_vector<int64_t>(four->indptr), ElementsAre(0, 1, 2, 2, 2));
  const auto five = joined(edges, {.num_sources = 4, .at_least = 5});
  EXPECT_THAT(to_vector<int64_t>(five->indptr), ElementsAre(0, 0, 0, 0, 0));
}

// Users and items of all degrees, a hub on either side, and repeated pairs.
std::vector<Pair> random_pairs(std::mt19937_64& random, int64_t users, int64_t items, int count) {
  const auto below = [&](int64_t bound) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(bound));
  };
  std::vector<Pair> pairs;
  for (int i = 0; i < count; ++i) {
    Pair pair{.user = below(users), .item = below(items)};
    if (below(4) == 0) pair.user = 0;
    if (below(4) == 0) pair.item = items - 1;
    for (int64_t times = below(8) == 0 ? 1 + below(6) : 1; times > 0; --times) {
      pairs.push_back(pair);
    }
  }
  std::shuffle(pairs.begin(), pairs.end(), random);
  return pairs;
}

TEST_F(CoOccurrence, EqualsBruteForceWhateverIsMasked) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 60; ++round) {
    const auto users = static_cast<int64_t>(1 + random() % 40);
    const auto items = static_cast<int64_t>(1 + random() % 700);  // several pieces of rows
    const std::vector<Pair> pairs =
        random_pairs(random, users, items, static_cast<int>(random() % 2000));
    std::vector<uint8_t> mask(pairs.size(), 1);
    for (uint8_t& visible : mask) {
      visible = round % 2 == 0 || random() % 3 != 0 ? 1 : 0;
    }
    const EdgeTable edges = table(pairs, users, items);
    const auto at_least = static_cast<int64_t>(1 + random() % 5);
    CoOccurrenceOptions options{.num_sources = users, .at_least = at_least};
    if (round % 2 != 0) options.mask = mask;
    const auto found = joined(edges, options);
    ASSERT_TRUE(found) << found.error().message;
    ASSERT_EQ(edges_of(*found), brute_force(pairs, mask, at_least)) << "round " << round;
  }
}

// Sums beyond 32 bits: a single user with many equal edges.
TEST_F(CoOccurrence, CountsWithoutOverflow) {
  std::vector<Pair> pairs;
  for (int i = 0; i < 70'000; ++i) {
    pairs.push_back({.user = 0, .item = 0});
    pairs.push_back({.user = 0, .item = 1});
  }
  pairs.push_back({.user = 0, .item = 2});
  const EdgeTable edges = table(pairs, 1, 3);
  // 70,000^2 = 4.9e9, and 70,000 for pairs with item 2
  const auto most = joined(edges, {.num_sources = 1, .at_least = int64_t{1} << 31U});
  ASSERT_TRUE(most) << most.error().message;
  EXPECT_THAT(to_vector<int64_t>(most->indptr), ElementsAre(0, 1, 2, 2));
  const auto exact = joined(edges, {.num_sources = 1, .at_least = 70'000});
  EXPECT_THAT(to_vector<int64_t>(exact->indptr), ElementsAre(0, 2, 4, 6));
  const auto above = joined(edges, {.num_sources = 1, .at_least = 70'001});
  EXPECT_THAT(to_vector<int64_t>(above->indptr), ElementsAre(0, 1, 2, 2));
}

// Lists that are cut hold equal edges in either of their parts.
TEST_F(CoOccurrence, SeesOnlyThePrefixOfEachList) {
  EdgeTable edges = table({{0, 0}, {0, 0}, {0, 1}, {1, 0}, {1, 1}, {0, 1}}, 2, 2);
  std::vector<int32_t> sources{0, 1, 0, 0, 1, 0};
  std::copy(sources.begin(), sources.end(), edges.indices.mutable_view<int32_t>().begin());
  const auto count = [&](const std::vector<int64_t>& ends, int64_t at_least) {
    const auto found = joined(edges, {.num_sources = 2, .at_least = at_least, .ends = ends});
    EXPECT_TRUE(found) << found.error().message;
    return found->indices.num_elements();
  };
  // All: user 0 2 x 2, user 1 1 x 1.
  EXPECT_EQ(count({3, 6}, 5), 2);
  EXPECT_EQ(count({3, 6}, 6), 0);
  EXPECT_EQ(count({2, 4}, 1), 2);  // user 0 alone: 1 x 1
  EXPECT_EQ(count({2, 4}, 2), 0);
  EXPECT_EQ(count({0, 6}, 1), 0);
}

TEST_F(CoOccurrence, DoesNotDependOnThreads) {
  std::mt19937_64 random(8);
  const std::vector<Pair> pairs = random_pairs(random, 300, 2000, 20'000);
  const EdgeTable edges = table(pairs, 300, 2000);
  std::vector<int32_t> first;
  for (const size_t threads : {size_t{0}, size_t{1}, size_t{5}}) {
    ThreadPool pool(threads);
    MemoryStorage memory;
    const auto found =
        co_occurrence(edges, {.num_sources = 300, .at_least = 2}, pool, memory, silent_);
    ASSERT_TRUE(found) << found.error().message;
    if (first.empty()) first = to_vector<int32_t>(found->indices);
    EXPECT_FALSE(first.empty());
    EXPECT_EQ(to_vector<int32_t>(found->indices), first);
  }
}

TEST_F(CoOccurrence, StopsAtTheFirstRowsThatFindNoRoom) {
  class Full : public testing::StorageFake {
   public:
    Result<Array> scratch(DType dtype, std::vector<int64_t> shape) override {
      if (++calls_ == 1) {  // M itself has room
        return StorageFake::scratch(dtype, std::move(shape));
      }
      return fail(ErrorKind::OutOfMemory, "no room");
    }

   private:
    int calls_ = 0;
  } full;
  class Bar : public ProgressBar {
   public:
    void begin(std::string_view, int64_t, std::string_view) override {}
    void advance_to(int64_t done, std::string_view) override { done_ = done; }
    void end() override {}
    void say(std::string_view) override {}
    int64_t done_ = 0;
  } bar;
  constexpr int64_t kItems = 1000;
  std::vector<Pair> pairs;
  for (int64_t item = 0; item < kItems; ++item) pairs.push_back({.user = 0, .item = item});
  ThreadPool alone(0);
  const auto result = co_occurrence(table(pairs, 1, kItems), {.num_sources = 1}, alone, full, bar);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "no room");
  EXPECT_LT(bar.done_, kItems * (kItems - 1) / 4);
}

TEST_F(CoOccurrence, RefusesWhatMemoryHasNoRoomFor) {
  class Counting : public testing::StorageFake {
   public:
    Result<Array> scratch(DType dtype, std::vector<int64_t> shape) override {
      return counted(StorageFake::scratch(dtype, std::move(shape)));
    }
    Result<Array> create(std::string name, DType dtype, std::vector<int64_t> shape) override {
      return counted(StorageFake::create(std::move(name), dtype, std::move(shape)));
    }
    int64_t bytes_ = 0;

   private:
    Result<Array> counted(Result<Array> array) {
      bytes_ += array->num_bytes();
      return array;
    }
  };
  constexpr int64_t kItems = 2000;  // all of one user, two of another
  std::vector<Pair> pairs{{.user = 1, .item = 0}, {.user = 1, .item = 1}};
  for (int64_t item = 0; item < kItems; ++item) pairs.push_back({.user = 0, .item = item});
  const EdgeTable hub = table(pairs, 2, kItems);
  const auto joined_in = [&](int64_t memory_bytes, int64_t at_least) {
    Counting storage;
    const CoOccurrenceOptions options{
        .num_sources = 2, .at_least = at_least, .memory_bytes = memory_bytes
    };
    auto found = co_occurrence(hub, options, pool_, storage, silent_);
    EXPECT_LE(storage.bytes_, memory_bytes);
    return found;
  };
  constexpr int64_t kPairBytes = kItems * (kItems - 1) / 2 * 12;  // half a list, and both entries
  EXPECT_TRUE(joined_in(2 * kPairBytes, 1));
  for (const int64_t memory_bytes : {kPairBytes, kPairBytes / 3, kPairBytes / 100}) {
    const auto refused = joined_in(memory_bytes, 1);
    ASSERT_FALSE(refused) << memory_bytes;
    EXPECT_EQ(refused.error().kind, ErrorKind::Configuration);
    EXPECT_THAT(
        refused.error().message,
        AllOf(
            HasSubstr("pairs of nodes share 1 or more"), HasSubstr("raise coOccurrence.atLeast, so")
        )
    );
    EXPECT_EQ(joined_in(memory_bytes, 2)->indices.num_elements(), 2);
  }
  EXPECT_THAT(
      joined_in(1000, 2).error().message,
      HasSubstr("before the first edge is made, expected at most 1000; give the process more memory"
      )
  );
}

TEST_F(CoOccurrence, RefusesOptionsThatDoNotFitTheEdges) {
  const EdgeTable edges = table({{0, 0}, {0, 1}}, 1, 2);
  const auto error = [&](const CoOccurrenceOptions& options) {
    const auto found = joined(edges, options);
    EXPECT_FALSE(found);
    return found ? "" : found.error().message;
  };
  EXPECT_THAT(
      error({.num_sources = 1, .at_least = 0}),
      HasSubstr("at least: expected a count in [1, 2147483648], found 0")
  );
  const std::vector<int64_t> one{1};
  EXPECT_THAT(
      error({.num_sources = 1, .ends = one}),
      HasSubstr("ends: expected one for each of the 2 destinations, found 1")
  );
  const std::vector<int64_t> beyond{1, 3};
  EXPECT_THAT(
      error({.num_sources = 1, .ends = beyond}),
      HasSubstr("ends[1]: expected a place in [1, 2], found 3")
  );
  const std::vector<uint8_t> mask{1};
  EXPECT_THAT(
      error({.num_sources = 1, .mask = mask}),
      HasSubstr("mask: expected a byte for each edge id up to 1, found 1")
  );
}

}  // namespace
}  // namespace gnn::data
