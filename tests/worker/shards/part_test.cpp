#include "worker/shards/part.h"

#include "tests/worker/shards/parts.h"
#include "worker/shards/row_cache.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <utility>

namespace gnn::shards {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kNodes = 4096;  // a page of labels is 512 nodes
constexpr int64_t kDegree = 8;

// A tensor over pages of its own, of which only those of some elements may be read.
at::Tensor guarded(const at::Tensor& values, int64_t first, int64_t end) {
  const auto bytes = static_cast<int64_t>(values.nbytes());
  void* const data = mmap(
      nullptr,
      static_cast<size_t>(bytes),
      PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS,
      -1,
      0
  );
  GNN_ASSERT(data != MAP_FAILED, "a few pages fit");
  std::memcpy(data, values.const_data_ptr(), values.nbytes());
  const int64_t row = bytes / values.size(0);
  const int64_t begin_page = first * row / kPage;
  const int64_t end_page = (end * row + kPage - 1) / kPage;
  const auto forbid = [&](int64_t from, int64_t to) {
    if (from < to)
      mprotect(
          static_cast<char*>(data) + from * kPage,
          static_cast<size_t>((to - from) * kPage),
          PROT_NONE
      );
  };
  forbid(0, begin_page);
  forbid(end_page, (bytes + kPage - 1) / kPage);
  return at::from_blob(
      data,
      values.sizes(),
      [bytes](void* pages) { munmap(pages, static_cast<size_t>(bytes)); },
      values.options()
  );
}

// Reading anything but part 1 of it ends the process.
graph::Dataset with_one_readable_part() {
  constexpr int64_t kFirst = 1024;
  constexpr int64_t kEnd = 2048;
  const at::Tensor features = at::arange(kNodes * 16, at::kFloat).reshape({kNodes, 16});
  const at::Tensor indptr = at::arange(kNodes + 1, at::kLong) * kDegree;
  const at::Tensor indices = (at::arange(kNodes * kDegree, at::kLong) * 37 % kNodes).to(at::kInt);
  graph::Dataset dataset;
  dataset.name = "ring";
  dataset.node_types = {
      {.name = "node",
       .num_nodes = kNodes,
       .features = graph::FeatureStore::create(guarded(features, kFirst, kEnd)).value(),
       .labels = at::arange(kNodes, at::kLong)}
  };
  at::Tensor offsets = guarded(indptr, kFirst, kEnd + 1);
  // The ends of the offsets are looked at when a graph is made.
  char* const pages = static_cast<char*>(offsets.mutable_data_ptr());
  const auto last_page = static_cast<int64_t>(indptr.nbytes()) / kPage * kPage;
  mprotect(pages, kPage, PROT_READ);
  mprotect(pages + last_page, kPage, PROT_READ);
  dataset.edge_types.push_back(
      {.source = "node",
       .relation = "to",
       .destination = "node",
       .graph = graph::CscGraph::create_unchecked(
                    offsets, guarded(indices, kFirst * kDegree, kEnd * kDegree), kNodes
       )
                    .value(),
       .features = std::nullopt}
  );
  mprotect(pages, kPage, PROT_NONE);
  mprotect(pages + last_page, kPage, PROT_NONE);
  graph::PartitionData partitions;
  partitions.book.parts = 4;
  partitions.book.offsets = {{0, kFirst, kEnd, 3072, kNodes}};
  partitions.original_ids.resize(1);
  partitions.hot.assign(1, std::vector<graph::HotRowsData>(4));
  dataset.partitions = std::move(partitions);
  return dataset;
}

TEST(Part, TouchesNothingOfOtherParts) {
  const graph::Dataset dataset = with_one_readable_part();
  SilentProgressBar silent;
  for (const graph::Share& share : {graph::Share{0, 2}, graph::Share{1, 2}}) {
    EXPECT_TRUE(graph::check_contents(dataset, "ring", share, silent, {.lists = 1, .features = 1}));
  }
  const auto part = Part::create(dataset, {.part = 1}).value();
  SamplerSpec spec;
  spec.options.fanout = {3};
  spec.relations.push_back({.lists = part->lists(0)});
  const auto sampler = PartSampler::create(part, std::move(spec)).value();
  const Service service(part, {sampler});
  std::vector<int64_t> all(1024);
  for (size_t i = 0; i < all.size(); ++i) all[i] = 1024 + static_cast<int64_t>(i);
  const std::vector<HopList> lists{{.relation = 0, .ids = all, .id_bytes = 4}};
  ASSERT_TRUE(service.answer(1, encode(HopRequest{}, lists)));
  const auto rows = service.answer(2, encode(RowsRequest{}, all));
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->segments.front().size(), 1024U * 64);
  EXPECT_EQ(most_named(*part, {0}, {0}, 0, 10).ids.numel(), 10);
}

TEST(Part, RefusesDataThatDoesNotHoldIt) {
  const Shop shop(3);
  const auto refusal = [](const graph::Dataset& dataset, const PartOptions& options) {
    const auto part = Part::create(dataset, options);
    EXPECT_EQ(part.error().kind, ErrorKind::Configuration);
    return part.error().message;
  };
  EXPECT_EQ(refusal(shop.whole(), {.part = 3}), "shop: expected a part in [0, 3), found 3");
  EXPECT_EQ(
      refusal(shop.extract(1), {.part = 2}), "shop: expected part 2 or the whole, found part 1"
  );
  EXPECT_EQ(
      refusal(shop.extract(1), {.part = 1, .topology = Held::Whole}),
      "shop: holds one part alone, where topology and features must be Partitioned"
  );
  graph::Dataset without_ids = shop.extract(1);
  for (graph::EdgeTypeData& type : without_ids.edge_types) {
    type.graph =
        graph::CscGraph::create(type.graph.indptr(), type.graph.indices(), type.graph.num_sources())
            .value();
  }
  const auto part = Part::create(without_ids, {.part = 1}).value();
  SamplerSpec spec{.options = {.fanout = {2}, .with_edge_ids = true}, .relations = {}};
  spec.relations.push_back({.lists = part->lists(2), .source_type = 1, .destination_type = 1});
  EXPECT_EQ(
      PartSampler::create(part, std::move(spec)).error(),
      (Error{
          ErrorKind::Configuration,
          "relation 0: expected a data set with edge ids, or the whole of it"
      })
  );
  // Of part 1, the last list's end is in the list before it.
  SamplerSpec cut{.options = {.fanout = {2}}, .relations = {}};
  cut.relations.push_back({.lists = part->lists(2), .source_type = 1, .destination_type = 1});
  cut.relations[0].ends = part->lists(2).indptr.slice(0, 1).clone();
  ASSERT_TRUE(PartSampler::create(part, cut));
  cut.relations[0].ends[-1] -= part->lists(2).indptr[-1] - part->lists(2).indptr[-2] + 1;
  const auto wrong_ends = PartSampler::create(part, cut);
  ASSERT_FALSE(wrong_ends);
  EXPECT_EQ(wrong_ends.error().kind, ErrorKind::Data);
  EXPECT_EQ(wrong_ends.error().message.substr(0, 17), "relation 0: ends[")
      << wrong_ends.error().message;
  graph::Dataset plain = shop.whole();
  plain.partitions.reset();
  EXPECT_EQ(
      refusal(plain, {}),
      "shop: expected a partitioned data set, as gnn-worker data partition writes it"
  );
}

}  // namespace
}  // namespace gnn::shards
