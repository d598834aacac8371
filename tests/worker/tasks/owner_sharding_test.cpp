// Ranks of nodes that each hold a partition, through a workload: who trains on what, and who measures it.

#include "tests/worker/comm/in_process_ranks.h"
#include "tests/worker/tasks/link_datasets.h"
#include "tests/worker/training/counting_sink.h"
#include "worker/tasks/link_workload.h"
#include "worker/tasks/node_workload.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace gnn::tasks {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kGraphNodes = 40;
constexpr int64_t kFirstOfPartition1 = 25;

// Says class 0 of everything, and keeps the numbers of the nodes that it was asked for.
class SeedModel final : public nn::NodeModel, public nn::MessagePassing {
 public:
  at::Tensor forward(const at::Tensor& x, const std::vector<graph::Block>& blocks) override {
    const int64_t count = blocks.back().num_destinations;
    const at::Tensor numbers = x.narrow(0, 0, count).to(at::kLong).contiguous();
    const auto* const first = numbers.const_data_ptr<int64_t>();
    seen.insert(seen.end(), first, first + count);
    return at::zeros({count, 2});
  }
  [[nodiscard]] int64_t num_layers() const override { return 1; }
  [[nodiscard]] nn::MessagePassing& conv(int64_t) override { return *this; }
  [[nodiscard]] at::Tensor activate(int64_t, at::Tensor h) override { return h; }
  [[nodiscard]] int64_t out_channels() const override { return 2; }
  [[nodiscard]] bool projects_first() const override { return false; }
  [[nodiscard]] bool has_root() const override { return false; }
  [[nodiscard]] at::Tensor message(const at::Tensor& x) override { return x; }
  [[nodiscard]] at::Tensor aggregate(const at::Tensor& x, const nn::InEdges&) override { return x; }
  [[nodiscard]] at::Tensor root(const at::Tensor&) override { return {}; }
  [[nodiscard]] at::Tensor update(const at::Tensor&, const at::Tensor& sums) override {
    return sums;
  }

  std::vector<int64_t> seen;
};

// A ring of nodes, each of which is an item; a node's feature is its number.
graph::Dataset ring_of_two_partitions() {
  graph::Dataset dataset;
  dataset.name = "ring";
  dataset.num_classes = 2;
  dataset.node_types.push_back(
      {.name = "node",
       .num_nodes = kGraphNodes,
       .features =
           graph::FeatureStore::create(at::arange(kGraphNodes, at::kFloat).view({-1, 1})).value(),
       .labels = at::zeros({kGraphNodes}, at::kLong)}
  );
  dataset.edge_types.push_back(graph::EdgeTypeData{
      .source = "node",
      .relation = "to",
      .destination = "node",
      .graph = graph::CscGraph::create(
                   at::arange(kGraphNodes + 1), at::arange(kGraphNodes).roll(1), kGraphNodes
      )
                   .value(),
      .features = std::nullopt
  });
  // Items of both partitions in turn.
  const at::Tensor items = at::arange(kGraphNodes).mul(7).remainder(kGraphNodes);
  dataset.split = {.train = items, .validation = items, .test = at::empty({0}, at::kLong)};
  dataset.partitions.emplace();
  dataset.partitions->book.parts = 2;
  dataset.partitions->book.offsets = {{0, kFirstOfPartition1, kGraphNodes}};
  return dataset;
}

NodeWorkloadOptions owner_options() {
  NodeWorkloadOptions options;
  options.training.sharding = api::Sharding::Owner;
  options.training.batch_size = 4;
  options.training.seed = 3;
  options.sampling.fanout = {1};
  return options;
}

// What forward() sees from batch `first` of epoch 1 on.
std::vector<int64_t> train_from(NodeWorkload& workload, SeedModel& model, int64_t first) {
  model.seen.clear();
  comm::require(workload.start_epoch(1, first));
  while (comm::require(workload.next_batch())) static_cast<void>(workload.forward());
  return model.seen;
}

TEST(OwnerSharding, RanksTrainOnAndMeasureTheNodesOfTheirPartitionAlone) {
  constexpr int64_t kNodes = 3;  // 0 and 2 hold partition 0
  std::vector<std::vector<int64_t>> trained(2 * kNodes);
  std::vector<std::vector<int64_t>> measured(2 * kNodes);
  comm::run_ranks_of_nodes(kNodes, 2, [&](const comm::RankGroups& groups) {
    const auto rank = static_cast<size_t>(groups.all->rank());
    const auto model = std::make_shared<SeedModel>();
    const auto workload =
        comm::require(NodeWorkload::create(ring_of_two_partitions(), model, groups, owner_options())
        );
    trained[rank] = train_from(*workload, *model, 0);
    const auto batches = static_cast<size_t>(workload->batches_per_rank()[rank]);
    EXPECT_EQ(batches, (trained[rank].size() + 3) / 4);
    if (batches > 1) {
      const std::vector<int64_t> rest(trained[rank].begin() + 4, trained[rank].end());
      EXPECT_EQ(train_from(*workload, *model, 1), rest) << "in the middle of an epoch";
    }
    model->seen.clear();
    training::CountingSink sink;
    const StopToken stop;
    const auto measure = comm::require(
        workload->evaluate(training::Part::Validation, {.stop = stop, .progress = sink})
    );
    EXPECT_EQ(measure, progress::accuracy(kGraphNodes, kGraphNodes));
    measured[rank] = model->seen;
  });
  for (const auto& of_ranks : {trained, measured}) {
    std::vector<int64_t> all;
    for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
      const bool holds_partition_1 = rank / 2 == 1;
      for (const int64_t node : of_ranks[rank])
        EXPECT_EQ(node >= kFirstOfPartition1, holds_partition_1) << "rank " << rank;
      all.insert(all.end(), of_ranks[rank].begin(), of_ranks[rank].end());
    }
    std::ranges::sort(all);
    std::vector<int64_t> expected(kGraphNodes);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all, expected);
  }

  graph::Dataset not_partitioned = ring_of_two_partitions();
  not_partitioned.partitions.reset();
  const auto refused = NodeWorkload::create(
      std::move(not_partitioned),
      std::make_shared<SeedModel>(),
      comm::make_single_communicator(),
      owner_options()
  );
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(refused.error().message, HasSubstr("ring without partitions"));
}

// Keeps the pairs that it was asked for; a node's feature is its number.
class PairModel final : public nn::LinkModel {
 public:
  at::Tensor forward(const nn::TypedInputs& x, const nn::TypedBlocks&, const nn::LinkRows& links)
      override {
    const at::Tensor sources = x[0].select(1, 0).index_select(0, links.source_rows);
    const at::Tensor destinations = x[1].select(1, 0).index_select(0, links.destination_rows);
    for (int64_t i = 0; i < sources.numel(); ++i) {
      seen.emplace_back(
          static_cast<int64_t>(sources[i].item<float>()),
          static_cast<int64_t>(destinations[i].item<float>())
      );
    }
    return at::zeros({sources.numel()});
  }
  [[nodiscard]] int64_t num_layers() const override { return 1; }
  [[nodiscard]] std::vector<int64_t> reads() const override { return {0, 1}; }

  std::vector<LinkEnds> seen;
};

TEST(OwnerSharding, RanksTrainOnTheLinksToNodesOfTheirPartitionAndNegativesOfAll) {
  constexpr int64_t kUsers = 80;
  constexpr int64_t kItems = 40;
  constexpr int64_t kFirstItemOfPartition1 = 25;
  graph::Dataset dataset = two_tastes(kUsers, kItems, 6);
  for (graph::NodeTypeData& type : dataset.node_types) {
    type.features =
        graph::FeatureStore::create(at::arange(type.num_nodes, at::kFloat).view({-1, 1})).value();
  }
  dataset.partitions.emplace();
  dataset.partitions->book.parts = 2;
  dataset.partitions->book.offsets = {{0, 10, kUsers}, {0, kFirstItemOfPartition1, kItems}};
  const LinkSplit split =
      split_links(links_of(dataset), {.validation = 0.1, .test = 0.2, .seed = 5}).value();
  std::vector<LinkEnds> links;
  const at::Tensor pairs = dataset.links->pairs.index_select(0, split.train);
  for (int64_t i = 0; i < pairs.size(0); ++i)
    links.emplace_back(pairs[i][0].item<int64_t>(), pairs[i][1].item<int64_t>());
  std::ranges::sort(links);

  LinkWorkloadOptions options{.sampling = {.fanout = {1}}, .training = {}, .split_seed = 5};
  options.sampling.negatives = api::Negatives{.strict = true};
  options.training = owner_options().training;
  std::vector<std::vector<LinkEnds>> seen(3);
  comm::run_ranks_of_nodes(3, 1, [&](const comm::RankGroups& groups) {  // 0 and 2 hold partition 0
    const auto model = std::make_shared<PairModel>();
    LinkInputs inputs{.embeddings = std::nullopt, .tables = {-1, -1}};
    const auto workload = comm::require(LinkWorkload::create(
        {.dataset = dataset, .split = split}, model, std::move(inputs), groups, options
    ));
    model->seen.clear();
    comm::require(workload->start_epoch(1, 0));
    while (comm::require(workload->next_batch())) static_cast<void>(workload->forward());
    seen[static_cast<size_t>(groups.all->rank())] = model->seen;
  });
  std::vector<LinkEnds> trained;
  for (size_t node = 0; node < seen.size(); ++node) {
    int64_t negatives_elsewhere = 0;
    for (const LinkEnds& pair : seen[node]) {
      const bool is_own = (pair.second >= kFirstItemOfPartition1) == (node == 1);
      if (std::ranges::binary_search(links, pair)) {
        EXPECT_TRUE(is_own) << "node " << node;
        trained.push_back(pair);
      } else if (!is_own) {
        ++negatives_elsewhere;
      }
    }
    EXPECT_GT(negatives_elsewhere, 0) << "node " << node;
  }
  std::ranges::sort(trained);
  EXPECT_EQ(trained, links);
}

}  // namespace
}  // namespace gnn::tasks
