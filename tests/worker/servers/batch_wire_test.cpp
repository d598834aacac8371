#include "worker/servers/batch_wire.h"

#include "tests/support/mutations.h"
#include "tests/worker/servers/servers.h"
#include "tests/worker/shards/parts.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <type_traits>

namespace gnn::servers {
namespace {

using loader::LinkMiniBatch;

LinkMiniBatch link_batch() {
  const shards::Shop shop(1);
  shards::ShopSampling sampling;
  sampling.options.fanout = {4, 2};
  LinkMiniBatch batch;
  batch.subgraph = must(shards::local_sampler(shop.whole(), sampling)
                            .sample(
                                {at::arange(20, at::kLong), at::arange(50, 60, at::kLong)},
                                {.seed = 1, .epoch = 2, .batch = 3}
                            ));
  batch.x = {at::rand({batch.subgraph.node_ids[0].numel(), 4}), at::Tensor()};
  batch.source_rows = at::arange(20, at::kLong);
  batch.destination_rows = at::arange(20, at::kLong) % 10;
  batch.labels = at::cat({at::ones({5}), at::zeros({15})});
  batch.positives = 5;
  batch.false_negatives = 2;
  batch.batch_index = 8;
  // An edge type that is not sampled.
  for (auto& layer : batch.subgraph.blocks) layer.emplace_back();
  return batch;
}

// All that is sent of a parcel.
std::vector<std::byte> wire_of(const Parcel& parcel) {
  std::vector<std::byte> wire = must(encode_head(parcel));
  for (const auto segment : segments_of(parcel))
    wire.insert(wire.end(), segment.begin(), segment.end());
  return wire;
}

Result<Parcel> parcel_of(std::span<const std::byte> wire) {
  if (wire.size() < static_cast<size_t>(kHeadSizeBytes)) return fail(ErrorKind::Data, "short");
  GNN_ASSIGN_OR_RETURN(const int64_t rest, head_rest(wire.first(kHeadSizeBytes)));
  wire = wire.subspan(kHeadSizeBytes);
  if (static_cast<int64_t>(wire.size()) < rest) return fail(ErrorKind::Data, "short");
  const auto tensors = wire.subspan(static_cast<size_t>(rest));
  GNN_ASSIGN_OR_RETURN(
      Parcel parcel,
      decode_head(
          wire.first(static_cast<size_t>(rest)),
          static_cast<int64_t>(tensors.size()),
          std::make_shared<PageBuffer>()
      )
  );
  size_t offset = 0;
  for (const auto place : places_in(parcel)) {
    std::memcpy(place.data(), tensors.data() + offset, place.size());
    offset += place.size();
  }
  EXPECT_EQ(offset, tensors.size());
  return parcel;
}

template <class Batch>
Result<Batch> batch_of(std::span<const std::byte> wire) {
  GNN_ASSIGN_OR_RETURN(Parcel parcel, parcel_of(wire));
  return unpack<Batch>(std::move(parcel));
}

TEST(BatchWire, CarriesBatchesOfNodesAndOfLinksWithoutAChangedBit) {
  const MiniBatch nodes = world()->make(request_of(1, 3));
  Parcel parcel = pack(nodes);
  // The tensors themselves, not copies.
  EXPECT_EQ(parcel.tensors[1].const_data_ptr(), nodes.x.const_data_ptr());
  parcel.times = {.queue_seconds = 1, .sample_seconds = 2, .gather_seconds = 3};
  const auto wire = wire_of(parcel);
  EXPECT_EQ(must(parcel_of(wire)).times.gather_seconds, 3);
  expect_same(must(batch_of<MiniBatch>(wire)), nodes);

  MiniBatch bare = nodes;
  bare.x = at::Tensor();
  bare.y = bare.y.to(at::kHalf);
  expect_same(must(batch_of<MiniBatch>(wire_of(pack(bare)))), bare);

  const LinkMiniBatch links = link_batch();
  const auto link_wire = wire_of(pack(links));
  const auto found = must(batch_of<LinkMiniBatch>(link_wire));
  expect_same(found.subgraph, links.subgraph);
  ASSERT_EQ(found.x.size(), 2U);
  expect_same(found.x[0], links.x[0]);
  expect_same(found.x[1], links.x[1]);
  expect_same(found.source_rows, links.source_rows);
  expect_same(found.destination_rows, links.destination_rows);
  expect_same(found.labels, links.labels);
  EXPECT_EQ(found.positives, 5);
  EXPECT_EQ(found.false_negatives, 2);
  EXPECT_EQ(found.batch_index, 8);

  EXPECT_FALSE(batch_of<LinkMiniBatch>(wire));
  EXPECT_FALSE(batch_of<MiniBatch>(link_wire));
}

TEST(BatchWire, RefusesForgedBytesOrMakesABatchThatAModelMayRead) {
  const auto nodes = wire_of(pack(world()->make(request_of(0, 0))));
  const auto links = wire_of(pack(link_batch()));
  // The bytes of the tensors are mutated, too, but the heads more often.
  testing::Mutations mutations(4);
  int64_t read = 0;
  for (int i = 0; i < testing::mutation_rounds(400); ++i) {
    for (const auto* const wire : {&nodes, &links}) {
      const std::string text(reinterpret_cast<const char*>(wire->data()), wire->size());
      const size_t cut = i % 2 == 0 ? text.size() : std::min<size_t>(text.size(), 700);
      const std::string forged = mutations.of(text.substr(0, cut)) + text.substr(cut);
      const auto bytes = std::as_bytes(std::span(forged));
      if (const auto batch = batch_of<MiniBatch>(bytes)) {
        ++read;
        for (const auto& layer : batch->subgraph.blocks)
          EXPECT_TRUE(
              layer[0].indices.numel() == 0 ||
              layer[0].indices.max().item<int64_t>() < layer[0].num_sources
          );
      }
      if (const auto batch = batch_of<LinkMiniBatch>(bytes)) {
        ++read;
        EXPECT_TRUE(
            batch->source_rows.numel() == 0 ||
            batch->source_rows.max().item<int64_t>() < batch->subgraph.node_ids[0].numel()
        );
      }
    }
  }
  // A change of a feature's bytes is no fault that can be seen.
  EXPECT_GT(read, 0);
}

TEST(BatchWire, HoldsNumbersShapesAndIndicesAgainstEachOther) {
  const auto refused = [](const auto& batch, const std::string& why) {
    using Batch = std::remove_cvref_t<decltype(batch)>;
    const auto found = batch_of<Batch>(wire_of(pack(batch)));
    ASSERT_FALSE(found) << why;
    EXPECT_EQ(found.error().kind, ErrorKind::Data);
    EXPECT_THAT(found.error().message, ::testing::HasSubstr(why));
  };
  const std::vector<std::pair<std::string, std::function<void(MiniBatch&)>>> faults{
      {"its rows", [](MiniBatch& batch) { batch.x = batch.x.narrow(0, 1, 3); }},
      {"its rows", [](MiniBatch& batch) { batch.y = batch.y.narrow(0, 1, 3); }},
      {"its rows", [](MiniBatch& batch) { batch.seeds = batch.seeds.to(at::kInt); }},
      {"counts", [](MiniBatch& batch) { ++batch.subgraph.nodes_per_hop[0][1]; }},
      {"its seeds", [](MiniBatch& batch) { ++batch.subgraph.num_seeds; }},
      {"blocks",
       [](MiniBatch& batch) {
         graph::Block& block = batch.subgraph.blocks[1][0];
         block.indices = block.indices.clone();
         block.indices[3] = block.num_sources;
       }},
      {"blocks", [](MiniBatch& batch) { batch.subgraph.blocks[0][0].indices.mul_(-1); }},
      {"blocks",
       [](MiniBatch& batch) {
         graph::Block& block = batch.subgraph.blocks[0][0];
         block.indptr = block.indptr.clone();
         block.indptr[1] = 1'000'000;
       }},
      {"blocks", [](MiniBatch& batch) { batch.subgraph.blocks[0][0].num_destinations = 3; }},
      {"blocks",
       [](MiniBatch& batch) {
         graph::Block& block = batch.subgraph.blocks[0][0];
         block.edge_ids = block.edge_ids.narrow(0, 0, 1);
       }},
      {"layers",
       [](MiniBatch& batch) { batch.subgraph.blocks.erase(batch.subgraph.blocks.begin()); }},
      {"last layer", [](MiniBatch& batch) { batch.subgraph.blocks.pop_back(); }},
  };
  for (const auto& [why, change] : faults) {
    MiniBatch batch = world()->make(request_of(0, 1));
    change(batch);
    refused(batch, why);
  }

  LinkMiniBatch links = link_batch();
  links.destination_rows = links.destination_rows + 11;
  refused(links, "ends of its links");
  links = link_batch();
  links.positives = 21;
  refused(links, "its labels");
  links = link_batch();
  links.x[0] = links.x[0].narrow(0, 0, 2);
  refused(links, "its rows of type 0");
  links = link_batch();
  links.subgraph.blocks[1].back().num_sources = 1;
  refused(links, "blocks");
  links = link_batch();
  links.subgraph.blocks[1].back().indices = at::zeros({2}, at::kInt);
  refused(links, "blocks");
}

}  // namespace
}  // namespace gnn::servers
