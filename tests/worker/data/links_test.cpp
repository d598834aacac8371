#include "worker/data/links.h"

#include "tests/worker/data/files.h"
#include "tests/worker/data/shop.h"
#include "tests/worker/data/storage_fake.h"
#include "worker/data/transforms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace gnn::data {
namespace {

using testing::buys;
using ::testing::ElementsAre;
using testing::ends_of;
using ::testing::HasSubstr;
using testing::ids_array;
using ::testing::Pair;
using testing::shop;
using testing::StorageFake;
using testing::to_vector;

const EdgeTypeName kBuys{.source = "user", .relation = "buys", .destination = "item"};
const EdgeTypeName kLike{.source = "item", .relation = "like", .destination = "item"};
const EdgeTypeName kBoughtBy{.source = "item", .relation = "rev_buys", .destination = "user"};

class Links : public ::testing::Test {
 protected:
  Result<DatasetArrays> linked(DatasetArrays dataset, const EdgeTypeName& link = kBuys) {
    return set_links(std::move(dataset), link, memory_, silent_);
  }
  Result<DatasetArrays> transformed(DatasetArrays dataset, const TransformOptions& options) {
    return transform(std::move(dataset), options, memory_, silent_);
  }
  MemoryStorage memory_;
  SilentProgressBar silent_;
};

TEST_F(Links, ListTheEndsOfEachEdgeById) {
  const auto dataset = linked(shop());
  ASSERT_TRUE(dataset) << dataset.error().message;
  ASSERT_TRUE(dataset->links);
  EXPECT_EQ(dataset->links->edge_table, 0U);
  EXPECT_FALSE(dataset->links->reverse_edge_table);
  EXPECT_THAT(to_vector<int64_t>(dataset->links->pairs), ElementsAre(2, 0, 0, 1, 1, 0, 2, 1));
  // The ids were right: the array is the same.
  EXPECT_EQ(dataset->edge_tables[0].edge_ids.bytes(), shop().edge_tables[0].edge_ids.bytes());
}

TEST_F(Links, AreListedInPartsThatMemoryHasRoomFor) {
  class Small : public StorageFake {
   public:
    [[nodiscard]] int64_t memory_bytes() const override { return 3 * 16; }
  } small;
  const auto dataset = set_links(shop(), kBuys, small, silent_);
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_THAT(to_vector<int64_t>(dataset->links->pairs), ElementsAre(2, 0, 0, 1, 1, 0, 2, 1));
}

TEST_F(Links, WithoutIdsAreNumberedByTheirPlace) {
  DatasetArrays dataset = shop();
  dataset.edge_tables[0].edge_ids = Array();
  const auto result = linked(std::move(dataset));
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_FALSE(result->edge_tables[0].edge_ids.defined());
  EXPECT_THAT(to_vector<int64_t>(result->links->pairs), ElementsAre(1, 0, 2, 0, 0, 1, 2, 1));
}

TEST_F(Links, OfSymmetricEdgesWithinATypeAreUndirected) {
  const auto dataset = linked(shop(), kLike);
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->links->reverse_edge_table, 1U);
  EXPECT_THAT(to_vector<int64_t>(dataset->links->pairs), ElementsAre(0, 1));
  EXPECT_THAT(to_vector<int64_t>(dataset->edge_tables[1].edge_ids), ElementsAre(0, 0));
  // Rows of features belong to ids, which stay then.
  DatasetArrays rows = shop();
  rows.edge_tables[1].features = ids_array("like.features", {5, 6});
  const auto kept = linked(rows, kLike);
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_THAT(to_vector<int64_t>(kept->links->pairs), ElementsAre(1, 0, 0, 1));
}

TEST_F(Links, NeedAnEdgeTypeThatIsThereAndHasEdges) {
  EXPECT_EQ(
      linked(shop(), {.source = "user", .relation = "to", .destination = "item"}).error().message,
      "no edge type (user, to, item); the data set has (user, buys, item), (item, like, item)"
  );
  DatasetArrays empty = shop();
  empty.edge_tables[1].indptr = ids_array("like.indptr", {0, 0, 0});
  empty.edge_tables[1].indices = ids_array("like.indices", {});
  EXPECT_THAT(linked(empty, kLike).error().message, HasSubstr("has no edges"));
}

TEST_F(Links, AddReverseKeepsTheIds) {
  const auto dataset = transformed(shop(), {.link = kBuys, .add_reverse = true});
  ASSERT_TRUE(dataset) << dataset.error().message;
  ASSERT_EQ(dataset->edge_tables.size(), 3U);  // item, like, item joins one type
  const EdgeTable& reverse = dataset->edge_tables[2];
  EXPECT_EQ(name_of(reverse), kBoughtBy);
  EXPECT_EQ(dataset->links->reverse_edge_table, 2U);
  EXPECT_THAT(
      ends_of(reverse), ElementsAre(Pair(0, "0-2"), Pair(1, "1-0"), Pair(2, "0-1"), Pair(3, "1-2"))
  );
  // In either order, and again.
  const auto again = transformed(*transformed(shop(), {.add_reverse = true}), {.link = kBuys});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->links->reverse_edge_table, 2U);
  EXPECT_EQ(transformed(*dataset, {.add_reverse = true})->edge_tables.size(), 3U);
  const TransformOptions done{.link = kBuys, .add_reverse = true};
  EXPECT_EQ(what_is_left_of(done, *dataset), TransformOptions{});
  EXPECT_EQ(what_is_left_of(done, shop()), done);
}

TEST_F(Links, AddReverseUsesPlacesWhereThereAreNoIds) {
  DatasetArrays dataset = shop();
  dataset.edge_tables[0].edge_ids = Array();
  const auto result = transformed(dataset, {.add_reverse = true});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_THAT(
      ends_of(result->edge_tables[2]),
      ElementsAre(Pair(0, "0-1"), Pair(1, "0-2"), Pair(2, "1-0"), Pair(3, "1-2"))
  );
}

TEST_F(Links, RefuseAReverseOfOtherEdgesAndFindTheirsUnderAnotherName) {
  DatasetArrays dataset = shop();
  dataset.edge_tables.push_back(buys({2, 0, 1}, {1, 0, 0}, {0, 1, 2}));
  EdgeTable& other = dataset.edge_tables.back();
  other.source = "item";
  other.relation = "rev_buys";
  other.destination = "user";
  other.indptr = ids_array("other.indptr", {0, 1, 2, 4});
  other.indices = ids_array("other.indices", {1, 0, 0, 1});
  other.edge_ids = ids_array("other.ids", {1, 2, 3, 0});  // 3 and 0 exchanged
  EXPECT_THAT(
      linked(dataset).error().message,
      HasSubstr("edge type (item, rev_buys, user): its edges or ids are not those of (user, buys, "
                "item) reversed")
  );
  other.edge_ids = ids_array("other.ids", {1, 2, 0, 3});
  EXPECT_EQ(linked(dataset)->links->reverse_edge_table, 2U);

  // Theirs may have another name.
  other.relation = "pleases";
  EXPECT_EQ(linked(dataset)->links->reverse_edge_table, 2U);
  // The same edges by other ids: those of held-out links can't be told from the others.
  other.edge_ids = ids_array("pleases.ids", {1, 0, 2, 3});
  EXPECT_THAT(
      linked(dataset).error().message,
      HasSubstr("edge type (item, pleases, user): has the edges of the links (user, buys, item) "
                "from destination to source")
  );
  // Other edges are a relation of their own.
  other.indices = ids_array("pleases.indices", {0, 0, 0, 1});
  EXPECT_FALSE(linked(dataset)->links->reverse_edge_table);
}

TEST_F(Links, AddReverseRefusesAReverseOfOtherEdges) {
  DatasetArrays dataset = shop();
  dataset.edge_tables.push_back(dataset.edge_tables[0]);
  EdgeTable& other = dataset.edge_tables.back();
  other.source = "item";
  other.relation = "rev_buys";
  other.destination = "user";
  other.edge_ids = Array();
  const auto add_beside = [&](std::vector<int64_t> indptr, std::vector<int64_t> indices) {
    other.indptr = ids_array("other.indptr", std::move(indptr));
    other.indices = ids_array("other.indices", std::move(indices));
    const TransformOptions options{.add_reverse = true};
    const auto added = transformed(dataset, options);
    EXPECT_EQ(what_is_left_of(options, dataset).add_reverse, !added);
    return added ? "" : added.error().message;
  };
  EXPECT_EQ(add_beside({0, 1, 2, 4}, {1, 0, 0, 1}), "");
  const auto refused =
      HasSubstr("addReverse: edge type (item, rev_buys, user) exists with other edges");
  EXPECT_THAT(add_beside({0, 1, 2, 3}, {1, 0, 0}), refused);
  EXPECT_THAT(add_beside({0, 1, 2, 4}, {0, 0, 0, 1}), refused);
  EXPECT_THAT(add_beside({0, 2, 3, 4}, {0, 1, 0, 1}), refused);
  EXPECT_THAT(add_beside({0, 2, 4}, {0, 1, 0, 1}), refused);
}

TEST_F(Links, CoalesceNumbersLinksAnewAndTheirReverseFollows) {
  DatasetArrays dataset = shop();
  // user 2 bought item 0 twice: ids 0 and 3.
  dataset.edge_tables[0] = buys({2, 0, 1, 2, 2}, {0, 1, 0, 0, 1}, {0, 1, 2, 3, 4});
  const auto before = transformed(dataset, {.link = kBuys, .add_reverse = true});
  ASSERT_TRUE(before) << before.error().message;
  const auto after = transformed(*before, {.coalesce = true});
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_THAT(to_vector<int64_t>(after->links->pairs), ElementsAre(2, 0, 0, 1, 1, 0, 2, 1));
  EXPECT_THAT(
      ends_of(after->edge_tables[0]),
      ElementsAre(Pair(0, "2-0"), Pair(1, "0-1"), Pair(2, "1-0"), Pair(3, "2-1"))
  );
  ASSERT_EQ(after->links->reverse_edge_table, 2U);
  EXPECT_THAT(
      ends_of(after->edge_tables[2]),
      ElementsAre(Pair(0, "0-2"), Pair(1, "1-0"), Pair(2, "0-1"), Pair(3, "1-2"))
  );
}

TEST_F(Links, CoalesceKeepsAnEdgeTypeThatIsNoReverse) {
  DatasetArrays dataset = shop();
  dataset.edge_tables.push_back(dataset.edge_tables[0]);
  EdgeTable& other = dataset.edge_tables.back();
  other.source = "item";
  other.relation = "rev_buys";  // its own edges: 0-0 twice, and 1-2
  other.destination = "user";
  other.indptr = ids_array("other.indptr", {0, 2, 2, 3});
  other.indices = ids_array("other.indices", {0, 0, 1});
  other.edge_ids = Array();
  const auto after = transformed(dataset, {.coalesce = true});
  ASSERT_TRUE(after) << after.error().message;
  ASSERT_EQ(after->edge_tables.size(), 3U);
  EXPECT_EQ(name_of(after->edge_tables[2]), kBoughtBy);
  EXPECT_THAT(to_vector<int64_t>(after->edge_tables[2].indptr), ElementsAre(0, 1, 1, 2));
  // Nor does one with features of its own go, which nobody could make again.
  EdgeTable& reverse = dataset.edge_tables.back();
  reverse.indptr = ids_array("reverse.indptr", {0, 1, 2, 4});
  reverse.indices = ids_array("reverse.indices", {1, 0, 0, 1});
  reverse.features = ids_array("reverse.features", {5, 6, 7, 8});
  EXPECT_THAT(
      transformed(dataset, {.coalesce = true}).error().message,
      HasSubstr("edge type (item, rev_buys, user): edges with features can't be merged or added")
  );
  // And none is made that was not there.
  EXPECT_EQ(transformed(shop(), {.coalesce = true})->edge_tables.size(), 2U);
}

TEST_F(Links, ToUndirectedJoinsTheDirectionsOfEdgesWithinAType) {
  DatasetArrays dataset = shop();
  EdgeTable& like = dataset.edge_tables[1];
  like.indptr = ids_array("like.indptr", {0, 0, 2});
  like.indices = ids_array("like.indices", {0, 0});  // twice
  const auto result = transformed(dataset, {.to_undirected = true, .link = kLike});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->edge_tables[1].indices.num_elements(), 2);
  EXPECT_EQ(result->links->reverse_edge_table, 1U);
  EXPECT_THAT(to_vector<int64_t>(result->links->pairs), ElementsAre(0, 1));
  // Edges between two types stay as they are, without a copy.
  EXPECT_EQ(result->edge_tables[0].indices.bytes(), dataset.edge_tables[0].indices.bytes());
}

TEST_F(Links, TransformsThatMakeNoSenseOnSeveralTypesAreRefusedByName) {
  const auto refusal = [&](const TransformOptions& options) {
    DatasetArrays dataset = shop();
    if (options.to_undirected || options.add_reverse) {
      dataset.edge_tables.erase(dataset.edge_tables.begin() + (options.to_undirected ? 1 : 0));
    }
    const auto result = transformed(dataset, options);
    return result ? "" : result.error().message;
  };
  EXPECT_THAT(refusal({.self_loops = SelfLoops::Add}), HasSubstr("addSelfLoops: needs"));
  EXPECT_THAT(
      refusal({.features = FeatureSource::DegreeOneHot}),
      HasSubstr("nodeFeatures DegreeOneHot: needs")
  );
  EXPECT_THAT(
      refusal({.features = FeatureSource::Constant}), HasSubstr("nodeFeatures Constant: needs")
  );
  EXPECT_THAT(
      refusal({.to_undirected = true}),
      HasSubstr("toUndirected: no edge type joins nodes of one type; addReverse")
  );
  EXPECT_THAT(
      refusal({.add_reverse = true}), HasSubstr("addReverse: no edge type joins two node types")
  );
  EXPECT_THAT(refusal({.normalize_rows = true}), HasSubstr("no features to normalise"));
}

TEST_F(Links, EdgesWithFeaturesAreNeitherMergedNorAdded) {
  DatasetArrays dataset = shop();
  dataset.edge_tables[0].features = ids_array("weights", {1, 2, 3, 4});
  EXPECT_THAT(
      transformed(dataset, {.coalesce = true}).error().message,
      HasSubstr("edge type (user, buys, item): edges with features can't be merged or added")
  );
  // Their reverse has them, too.
  const auto reversed = transformed(dataset, {.add_reverse = true});
  EXPECT_EQ(reversed->edge_tables[2].features.name(), "weights");
}

}  // namespace
}  // namespace gnn::data
