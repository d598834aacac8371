// Ranks of nodes that each hold a partition, through a workload: who trains on what, and who measures it.

#include "tests/worker/comm/in_process_ranks.h"
#include "tests/worker/training/counting_sink.h"
#include "worker/tasks/node_workload.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
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
}

TEST(OwnerSharding, NeedsPartitionedData) {
  graph::Dataset dataset = ring_of_two_partitions();
  dataset.partitions.reset();
  const auto workload = NodeWorkload::create(
      std::move(dataset),
      std::make_shared<SeedModel>(),
      comm::make_single_communicator(),
      owner_options()
  );
  ASSERT_FALSE(workload);
  EXPECT_EQ(workload.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(workload.error().message, HasSubstr("ring without partitions"));
}

}  // namespace
}  // namespace gnn::tasks
