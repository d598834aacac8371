#include "worker/partition/extract.h"

#include "tests/worker/partition/sets.h"
#include "worker/partition/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

namespace gnn::partition {
namespace {

using ::testing::HasSubstr;
using testing::link_set;

data::DatasetArrays parted() {
  data::MemoryStorage memory;
  SilentProgressBar silent;
  ThreadPool none(0);
  data::DatasetArrays set = link_set({.nodes = 120});
  set.num_classes = 120;
  std::vector<int64_t> labels(120);
  std::iota(labels.begin(), labels.end(), 0);
  set.node_tables[0].labels = testing::array_of("nodes.user.labels", labels);
  set.node_tables[1].more_features.push_back(
      {.name = "more", .rows = testing::rows_of("nodes.item.more", data::DType::Int8, 60, 3)}
  );
  return *partition(
      set, {.parts = 3, .method = Method::Ldg, .fanout = {3}, .batch_size = 4}, memory, none, silent
  );
}

void expect_rows(const data::Array& whole, const data::Array& part, data::IdRange range) {
  ASSERT_EQ(part.size(0), range.size());
  const int64_t width = whole.num_bytes() / whole.size(0);
  EXPECT_EQ(
      std::memcmp(
          part.bytes(), whole.bytes() + range.begin * width, static_cast<size_t>(part.num_bytes())
      ),
      0
  ) << whole.name();
}

TEST(Extract, HoldsTheListsRowsAndHotRowsOfOnePart) {
  const data::DatasetArrays whole = parted();
  data::MemoryStorage memory;
  SilentProgressBar silent;
  const auto part = extract(whole, 1, "xxh64:1", memory, silent);
  ASSERT_TRUE(part) << part.error().message;
  ASSERT_TRUE(data::check_partitions_form(*part, "part"));
  ASSERT_TRUE(data::check_partitions(*part, "part"));
  EXPECT_EQ(part->partitions->book, whole.partitions->book);
  EXPECT_EQ(part->partitions->only, 1);
  EXPECT_EQ(part->partitions->whole_digest, "xxh64:1");
  const data::IdRange users = whole.partitions->book.range_of(0, 1);
  const data::IdRange items = whole.partitions->book.range_of(1, 1);
  expect_rows(whole.node_tables[1].features, part->node_tables[1].features, items);
  expect_rows(
      whole.node_tables[1].more_features[0].rows, part->node_tables[1].more_features[0].rows, items
  );
  expect_rows(whole.node_tables[0].labels, part->node_tables[0].labels, users);
  expect_rows(whole.partitions->original_ids[0], part->partitions->original_ids[0], users);
  for (size_t i = 0; i < whole.edge_tables.size(); ++i) {
    const data::EdgeTable& table = whole.edge_tables[i];
    const data::IdRange nodes = table.destination == "item" ? items : users;
    const auto ends = table.indptr.view<int64_t>();
    const data::IdRange entries{
        ends[static_cast<size_t>(nodes.begin)], ends[static_cast<size_t>(nodes.end)]
    };
    const data::EdgeTable& found = part->edge_tables[i];
    EXPECT_EQ(found.indptr.view<int64_t>().front(), 0);
    EXPECT_EQ(found.indptr.view<int64_t>().back(), entries.size());
    EXPECT_EQ(found.indptr.num_elements(), nodes.size() + 1);
    expect_rows(table.indices, found.indices, entries);
    if (table.edge_ids.defined()) expect_rows(table.edge_ids, found.edge_ids, entries);
  }
  EXPECT_EQ(part->links->pairs.shape(), whole.links->pairs.shape());
  EXPECT_FALSE(part->partitions->hot[0][0].ids.defined());
  EXPECT_EQ(part->partitions->hot[0][1].hit_rate(5), whole.partitions->hot[0][1].hit_rate(5));

  EXPECT_THAT(
      extract(whole, 3, "", memory, silent).error().message,
      HasSubstr("--extract: expected a part in [0, 3), found 3")
  );
  EXPECT_THAT(
      extract(*part, 1, "", memory, silent).error().message,
      HasSubstr("is an extracted part itself")
  );
  EXPECT_THAT(
      extract(link_set({}), 0, "", memory, silent).error().message, HasSubstr("has no partitions")
  );
}

}  // namespace
}  // namespace gnn::partition
