#include "worker/tasks/hot_rows.h"

#include "tests/worker/comm/in_process_ranks.h"
#include "tests/worker/partition/sets.h"
#include "worker/graph/load.h"
#include "worker/partition/partition.h"
#include "worker/shards/row_cache.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace gnn::tasks {
namespace {

using shards::Held;

// Three nodes of two ranks; nodes 0 and 2 hold part 0, node 1 holds part 1.
constexpr int64_t kNodesOfJob = 3;
constexpr int64_t kRanks = 2;
constexpr int64_t kParts = 2;
constexpr int64_t kMuchMemory = int64_t{1} << 40;

struct Data {
  data::DatasetArrays arrays;
  graph::Dataset dataset;
};

Data partitioned(const data::DatasetArrays& whole, double hot_rows = 0.2) {
  data::MemoryStorage memory;
  ThreadPool none(0);
  SilentProgressBar silent;
  Data made;
  made.arrays = partition::partition(
                    whole,
                    {.parts = kParts, .fanout = {4, 3}, .batch_size = 16, .hot_rows = hot_rows},
                    memory,
                    none,
                    silent
  )
                    .value();
  made.dataset = graph::make_dataset(made.arrays, "data").value();
  return made;
}

// A job's batches, drawn from lists that the part has.
struct Batches {
  TrainingItems items;
  sampling::NeighborSamplerOptions sampling{.fanout = {4, 3}};
  std::vector<std::vector<int64_t>> fanouts{};  // by edge type; empty: that of `sampling`
};

data::BatchDraws draws_of(const Batches& batches, size_t edge_types) {
  data::BatchDraws draws{
      .fanouts = batches.fanouts,
      .batch_size = batches.items.batch_size,
      .replace = batches.sampling.replace,
      .rule = batches.sampling.rule == sampling::SamplingRule::AllSeen ? data::HopRule::AllSeen
                                                                       : data::HopRule::NewNodes,
      .negatives = batches.items.links ? batches.items.links->negatives : 0
  };
  if (draws.fanouts.empty()) draws.fanouts.assign(edge_types, batches.sampling.fanout);
  return draws;
}

shards::SamplerSpec sampler_over(
    const shards::Part& part, const graph::Dataset& dataset, const Batches& batches
) {
  shards::SamplerSpec spec{.options = batches.sampling, .relations = {}};
  for (size_t i = 0; i < dataset.edge_types.size(); ++i) {
    spec.relations.push_back(
        {.lists = part.lists(static_cast<int64_t>(i)),
         .source_type = dataset.edge_types[i].source_index,
         .destination_type = dataset.edge_types[i].destination_index,
         .lane = static_cast<int64_t>(i),
         .fanout = batches.fanouts.empty() ? std::vector<int64_t>() : batches.fanouts[i]}
    );
  }
  return spec;
}

using Found = std::vector<graph::HotRowsData>;

// What all ranks find, by rank, the last of which has so much memory.
std::vector<Found> found_by_ranks(
    const Data& data,
    const Batches& batches,
    Held topology,
    double rows = 0.2,
    int64_t memory_of_last = kMuchMemory
) {
  std::vector<Found> found(kNodesOfJob * kRanks);
  comm::run_ranks_of_nodes(kNodesOfJob, kRanks, [&](const comm::RankGroups& groups) {
    SilentProgressBar silent;
    const int64_t rank = groups.all->rank();
    const auto part = comm::require(shards::Part::create(
        data.dataset, {.part = rank / kRanks % kParts, .topology = topology, .features = Held::Own}
    ));
    const shards::SamplerSpec sampler = sampler_over(*part, data.dataset, batches);
    found[static_cast<size_t>(rank)] = comm::require(hot_rows_of_job(
        data.dataset,
        *part,
        {.sampler = sampler, .items = batches.items},
        {.rows = rows,
         .num_cpus = 1,
         .memory_bytes = rank + 1 == kNodesOfJob * kRanks ? memory_of_last : kMuchMemory,
         .progress = silent},
        groups
    ));
  });
  return found;
}

// The rows that each part's batches read most, by part, from the whole graph at once.
using Expected = std::vector<std::vector<std::vector<double>>>;

Expected reads_of_parts(const Data& data, const Batches& batches) {
  ThreadPool none(0);
  const data::BatchDraws draws = draws_of(batches, data.dataset.edge_types.size());
  const partition::HotnessInput input = partition::hotness_input(data.arrays, draws);
  const at::Tensor ids = batches.items.ids.contiguous();
  const std::span<const int64_t> values(
      ids.const_data_ptr<int64_t>(), static_cast<size_t>(ids.numel())
  );
  const auto type = static_cast<size_t>(batches.items.node_type);
  Expected reads;
  for (int64_t part = 0; part < kParts; ++part) {
    const data::IdRange own = data.arrays.partitions->book.range_of(type, part);
    std::vector<std::vector<double>> seeds(input.num_nodes.size());
    if (const auto& of_links = batches.items.links) {
      const auto weights = [&](const at::Tensor& tensor) {
        return std::span(
            tensor.defined() ? tensor.const_data_ptr<double>() : nullptr,
            tensor.defined() ? static_cast<size_t>(tensor.numel()) : 0
        );
      };
      seeds = partition::link_seed_probabilities(
          input.num_nodes,
          {.pairs = values,
           .source = static_cast<size_t>(of_links->source_type),
           .destination = type,
           .is_owned = [own](int64_t node) { return own.contains(node); },
           .negative_weights = {weights(of_links->weights[0]), weights(of_links->weights[1])}},
          draws
      );
    } else {
      std::vector<int64_t> items;
      for (const int64_t id : values) {
        if (own.contains(id)) items.push_back(id);
      }
      seeds[type] =
          partition::node_seed_probabilities(items, input.num_nodes[type], draws.batch_size);
    }
    reads.push_back(partition::hotness(input, std::move(seeds), none));
  }
  return reads;
}

void expect_hottest(
    const graph::HotRowsData& found,
    const graph::HotRowsData& expected,
    const std::vector<double>& reads
) {
  ASSERT_EQ(found.ids.numel(), expected.ids.numel());
  EXPECT_NEAR(found.local_reads, expected.local_reads, 1e-9);
  EXPECT_NEAR(found.remote_reads, expected.remote_reads, 1e-9);
  // Sums differ in their last bits, and so does the order of rows that are equally hot.
  EXPECT_TRUE(at::allclose(found.hotness, expected.hotness, 1e-9, 1e-15));
  for (int64_t i = 0; i < found.ids.numel(); ++i) {
    const auto id = static_cast<size_t>(found.ids[i].item<int64_t>());
    ASSERT_NEAR(reads[id], found.hotness[i].item<double>(), 1e-12);
  }
}

void expect_hottest_of_job(const Data& data, const Batches& batches) {
  constexpr double kRows = 0.15;  // fewer than what was kept
  const Expected reads = reads_of_parts(data, batches);
  for (const Held topology : {Held::Own, Held::Whole}) {
    SCOPED_TRACE(topology == Held::Own ? "own lists" : "all lists");
    const std::vector<Found> found = found_by_ranks(data, batches, topology, kRows);
    for (size_t rank = 0; rank < found.size(); ++rank) {
      const auto part = static_cast<int64_t>(rank) / kRanks % kParts;
      ASSERT_EQ(found[rank].size(), data.dataset.node_types.size());
      for (size_t type = 0; type < found[rank].size(); ++type) {
        const graph::NodeTypeData& nodes = data.dataset.node_types[type];
        if (!nodes.features) continue;
        const std::vector<double>& of_type = reads[static_cast<size_t>(part)][type];
        const auto rows = static_cast<int64_t>(kRows * static_cast<double>(nodes.num_nodes));
        const data::IdRange own = data.arrays.partitions->book.range_of(type, part);
        expect_hottest(found[rank][type], shards::hot_rows(of_type, own, rows), of_type);
      }
    }
  }
}

TEST(HotRowsOfJob, AreThoseOfItsOwnBatchesOrTheDataSetsWhereTheyAreTheSameOrTooMuch) {
  const Data nodes =
      partitioned(partition::testing::community_set({.nodes = 400, .communities = 8}));
  const auto job = [&](std::vector<int64_t> fanout, bool replace, sampling::SamplingRule rule) {
    return Batches{
        .items = {.ids = nodes.dataset.split.train, .batch_size = 8, .as_partitioned = true},
        .sampling = {.fanout = std::move(fanout), .replace = replace, .rule = rule}
    };
  };
  expect_hottest_of_job(nodes, job({3, -1}, false, sampling::SamplingRule::NewNodes));
  expect_hottest_of_job(nodes, job({2, 2, 2}, true, sampling::SamplingRule::AllSeen));

  const Data links = partitioned(partition::testing::link_set({.nodes = 300, .degree = 6}));
  const graph::LinkData& all = *links.dataset.links;
  LinkDraws draws{.source_type = 0, .negatives = 1.5};
  for (const bool weighed : {false, true}) {
    // Some nodes are the ends of most negatives.
    for (size_t end = 0; weighed && end < 2; ++end) {
      draws.weights.at(end) =
          at::arange(links.dataset.node_types[end].num_nodes, at::kDouble).remainder(10).pow(4);
    }
    expect_hottest_of_job(
        links,
        {.items =
             {.ids = all.pairs.slice(0, 0, all.pairs.size(0) / 2),
              .node_type = 1,
              .links = draws,
              .batch_size = 20},
         .fanouts = {{4, 3}, {2, 2}, {-1, 5}}}
    );
  }

  // The data set's are the job's where it draws the same batches, or where counting takes too much.
  const Batches same{
      .items = {.ids = nodes.dataset.split.train, .batch_size = 16, .as_partitioned = true}
  };
  const auto is_nothing = [](const Found& found) { return found.empty(); };
  const Data all_rows =
      partitioned(partition::testing::community_set({.nodes = 400, .communities = 8}), 1);
  for (const Held topology : {Held::Own, Held::Whole}) {
    EXPECT_TRUE(std::ranges::all_of(found_by_ranks(nodes, same, topology), is_nothing));
    // A larger cache than what was kept.
    EXPECT_TRUE(std::ranges::none_of(found_by_ranks(nodes, same, topology, 0.25), is_nothing));
    // A larger one than what batches read, which was all kept.
    EXPECT_TRUE(std::ranges::all_of(found_by_ranks(all_rows, same, topology, 1), is_nothing));
    // Other items, though as many.
    Batches others = same;
    others.items.as_partitioned = false;
    EXPECT_TRUE(std::ranges::none_of(found_by_ranks(nodes, others, topology), is_nothing));
    for (const Found& found : found_by_ranks(nodes, others, topology, 0.2, 1000)) {
      ASSERT_EQ(found.size(), 1U);
      EXPECT_GT(found[0].ids.numel(), 0);
      EXPECT_FALSE(found[0].hotness.defined());
      EXPECT_FALSE(shards::hottest(found[0], 10).expected_hit_rate);
    }
  }
}

// Of a job whose nodes have the whole data set, by rank.
std::vector<std::vector<at::Tensor>> hottest_by_ranks(
    const Data& data, const Batches& batches, const std::vector<int64_t>& rows, int64_t memory
) {
  std::vector<int64_t> num_nodes;
  for (const graph::NodeTypeData& type : data.dataset.node_types)
    num_nodes.push_back(type.num_nodes);
  std::vector<std::vector<at::Tensor>> found(kNodesOfJob * kRanks);
  comm::run_ranks_of_nodes(kNodesOfJob, kRanks, [&](const comm::RankGroups& groups) {
    SilentProgressBar silent;
    const auto part = comm::require(
        shards::Part::create(data.dataset, {.topology = Held::Whole, .features = Held::Whole})
    );
    const shards::SamplerSpec sampler = sampler_over(*part, data.dataset, batches);
    found[static_cast<size_t>(groups.all->rank())] = comm::require(hottest_nodes(
        num_nodes,
        rows,
        {.sampler = sampler, .items = batches.items},
        {.memory_bytes = memory, .progress = silent},
        groups
    ));
  });
  return found;
}

TEST(HottestNodes, AreThoseThatBatchesReadMostOrThatMostListsNameWhereThatIsTooMuch) {
  const Data data =
      partitioned(partition::testing::community_set({.nodes = 400, .communities = 8}));
  const Batches batches{.items = {.ids = data.dataset.split.train, .batch_size = 8}};
  // Of the batches of all parts together.
  ThreadPool none(0);
  const data::BatchDraws draws = draws_of(batches, data.dataset.edge_types.size());
  const partition::HotnessInput input = partition::hotness_input(data.arrays, draws);
  const at::Tensor train = batches.items.ids.contiguous();
  const auto reads = partition::hotness(
      input,
      {partition::node_seed_probabilities(
          {train.const_data_ptr<int64_t>(), static_cast<size_t>(train.numel())}, 400, 8
      )},
      none
  );
  const at::Tensor by_reads = at::tensor(reads[0], at::kDouble);
  const at::Tensor by_names = at::bincount(data.dataset.graph().indices(), {}, 400);
  const auto order = [](const at::Tensor& values) {
    return std::get<1>(at::sort(values, /*stable=*/true, /*dim=*/0, /*descending=*/true));
  };
  const std::vector<std::pair<int64_t, at::Tensor>> orders{
      {kMuchMemory, by_reads}, {1000, by_names}
  };
  for (const auto& [memory, values] : orders) {
    const at::Tensor expected = order(values).narrow(0, 0, 90);
    for (const auto& of_rank : hottest_by_ranks(data, batches, {90}, memory)) {
      ASSERT_EQ(of_rank.size(), 1U);
      EXPECT_EQ(std::get<0>(at::_unique(of_rank[0])).numel(), 90);
      // Sums differ in their last bits, and so does the order of rows that are equally hot.
      const auto of = [&](const at::Tensor& ids) {
        return values.to(at::kDouble).index_select(0, ids);
      };
      EXPECT_TRUE(at::allclose(of(of_rank[0]), of(expected), 1e-9, 1e-12)) << memory;
    }
  }
  for (const auto& of_rank : hottest_by_ranks(data, batches, {1000}, kMuchMemory))
    EXPECT_EQ(of_rank[0].numel(), 400) << "no type has more";
}

}  // namespace
}  // namespace gnn::tasks
