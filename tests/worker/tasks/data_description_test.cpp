#include "worker/tasks/data_description.h"

#include "tests/support/mutations.h"

#include <gtest/gtest.h>

#include <string>

namespace gnn::tasks {
namespace {

DataDescription shop_description() {
  return {
      .text = "shop: \"10\" nodes",
      .name = "shop",
      .digest = "xxh64:12",
      .config_hash = "34",
      .num_classes = 5,
      .nodes = {{"user", 6, -1}, {"item", 4, 16}},
      .edges = {{"user", "to", "item", 0, 1}, {"item", "rev_to", "user", 1, 0}},
      .link = 0,
      .items = {{{3, 4}, {0, 0}, {1, 2}}}
  };
}

TEST(DescriptionOfData, ComesBackAsItWas) {
  DataDescription data = shop_description();
  EXPECT_EQ(decode_description(encode(data)).value(), data);
  data.link.reset();
  EXPECT_EQ(decode_description(encode(data)).value(), data);
  const graph::Dataset types = types_of(data);
  EXPECT_EQ(describe_data(types).edges, data.edges);
  EXPECT_EQ(types.digest, data.digest);
  // Items of other partitions than the job has are none to count batches of.
  const auto& items = data.items.front();
  EXPECT_TRUE(with_counts({}, items, api::Sharding::Owner, 2, {}));
  EXPECT_EQ(with_counts({}, items, api::Sharding::Owner, 3, {}).error().kind, ErrorKind::Data);
  EXPECT_EQ(with_counts({}, items, api::Sharding::Slice, 2, {}).error().kind, ErrorKind::Data);
}

TEST(DescriptionOfData, IsRefusedOrSoundWhateverAServerSends) {
  testing::Mutations mutations(7);
  const std::string good = encode(shop_description());
  int refused = 0;
  for (int round = 0; round < testing::mutation_rounds(2000); ++round) {
    const auto data = decode_description(mutations.of(good));
    if (!data) {
      EXPECT_EQ(data.error().kind, ErrorKind::Data);
      ++refused;
      continue;
    }
    for (const DescribedEdges& edges : data->edges) {
      EXPECT_LT(edges.source_index, static_cast<int64_t>(data->nodes.size()));
      EXPECT_GE(edges.destination_index, 0);
    }
    EXPECT_LT(data->link.value_or(-1), static_cast<int64_t>(data->edges.size()));
    for (const auto& counts : data->items)
      for (const int64_t count : counts) EXPECT_GE(count, 0);
  }
  EXPECT_GT(refused, 0);
  // Of numbers, those that no data set has.
  DataDescription data = shop_description();
  data.num_classes = -1;
  EXPECT_FALSE(decode_description(encode(data)));
  data = shop_description();
  data.nodes.back().width = -2;
  EXPECT_FALSE(decode_description(encode(data)));
}

}  // namespace
}  // namespace gnn::tasks
