// Wherever data lies, training ends with the same bits: ranks whose nodes hold partitions, which ask
// each other over connections of their own, against ranks that have all of it.

#include "common/progress_bar.h"
#include "tests/worker/comm/in_process_ranks.h"
#include "tests/worker/data/dealt_parts.h"
#include "worker/data/co_occurrence.h"
#include "worker/data/generate.h"
#include "worker/data/transforms.h"
#include "worker/graph/load.h"
#include "worker/progress/console_sink.h"
#include "worker/tasks/link_workload.h"
#include "worker/tasks/models.h"
#include "worker/tasks/node_workload.h"
#include "worker/training/trainer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace gnn::tasks {
namespace {

using Mode = api::PlacementMode;

constexpr int64_t kLeastSteps = 10;

// Nodes of the job, ranks of each, partitions of the data.
struct Layout {
  int64_t nodes = 1;
  int64_t ranks = 1;
  int64_t partitions = 1;
};

std::string text_of(const Layout& layout) {
  return std::to_string(layout.nodes) + " x " + std::to_string(layout.ranks) + " ranks, " +
         std::to_string(layout.partitions) + " partitions";
}

std::string text_of(const std::optional<api::Placement>& placement) {
  if (!placement) return "all on each node";
  const auto word = [](Mode mode) { return mode == Mode::Partitioned ? "own " : "all "; };
  std::string text =
      std::string(word(placement->topology)) + "lists, " + word(placement->features) + "rows";
  if (placement->cache) text += ", cache " + placement->cache->rows.text;
  return text;
}

// Notes what a rank reports.
class Watch final : public progress::NullSink {
 public:
  void on_remote_meter(const std::shared_ptr<const progress::RemoteMeter>& meter) override {
    meter_ = meter;
  }
  void on_step(const progress::StepReport& report) override { input_nodes_ += report.input_nodes; }

  // Of all steps.
  [[nodiscard]] int64_t input_nodes() const { return input_nodes_; }
  // Nothing where the whole data set is on each node.
  [[nodiscard]] std::optional<progress::RemoteData> remote() const {
    return meter_ == nullptr ? std::nullopt : std::optional(meter_->read());
  }

 private:
  std::shared_ptr<const progress::RemoteMeter> meter_;
  int64_t input_nodes_ = 0;
};

// The numbers of a rank against each other: what its sampler says that batches read (U), where its
// rows came from, and what went over its connections.
void expect_right(const progress::RemoteData& data, int64_t input_nodes, int64_t row_bytes) {
  using progress::DataKind;
  const progress::RowOrigins& rows = data.training;
  EXPECT_EQ(rows.local + rows.cache + rows.remote, input_nodes);
  EXPECT_EQ(
      data.received_bytes[DataKind::Features],
      (rows.remote + data.evaluation.remote + data.cache_rows) * row_bytes
  );
  EXPECT_GE(data.training_bytes, rows.remote * row_bytes);
  EXPECT_LE(data.training_bytes, rows.remote * row_bytes + data.received_bytes[DataKind::Hops]);
  for (const DataKind kind : progress::kDataKinds)
    EXPECT_EQ(data.latency[kind].sum.count() > 0, data.received_bytes[kind] > 0) << to_string(kind);
  EXPECT_EQ(data.received_bytes[DataKind::Labels], 0) << "a rank trains on items of its own part";
  EXPECT_EQ(data.calls_under_way, 0);
  EXPECT_EQ(data.peers_lost, 0);
  EXPECT_EQ(data.connections_refused, 0);
}

// What the nodes of a job received is what they sent, and their summary is of all of them.
void expect_right(
    const std::vector<progress::RemoteData>& ranks,
    const progress::RemoteSummary& summary,
    int64_t steps
) {
  progress::RowOrigins rows;
  int64_t bytes = 0;
  for (const progress::DataKind kind : progress::kDataKinds) {
    int64_t received = 0;
    int64_t served = 0;
    for (const progress::RemoteData& each : ranks) {
      received += each.received_bytes[kind];
      served += each.served_bytes[kind];
    }
    EXPECT_EQ(received, served) << to_string(kind);
  }
  for (const progress::RemoteData& each : ranks) {
    rows.cache += each.training.cache;
    rows.remote += each.training.remote;
    bytes += each.training_bytes;
  }
  EXPECT_DOUBLE_EQ(summary.bytes_per_step * static_cast<double>(steps), static_cast<double>(bytes));
  if (rows.cache + rows.remote > 0) {
    EXPECT_DOUBLE_EQ(summary.hit_rate, rows.hit_rate());
  } else {
    EXPECT_TRUE(std::isnan(summary.hit_rate));
  }
}

class PartitionedTraining : public ::testing::Test {
 protected:
  PartitionedTraining()
      : key_file_(
            std::filesystem::path(::testing::TempDir()) / ("data-key-" + std::to_string(::getpid()))
        ) {
    std::ofstream(key_file_) << rpc::Key::draw().value().to_hex() << '\n';
    at::set_num_threads(1);
  }
  ~PartitionedTraining() override { std::filesystem::remove(key_file_); }

  [[nodiscard]] PartitionedData network(const api::Placement& placement) {
    return {
        .placement = placement,
        .network =
            {.endpoint =
                 {.address = {.host = "127.0.0.1", .port = 0},
                  .host = "127.0.0.1",
                  .key_file = key_file_},
             .incarnation = {.job_uid = "job", .attempt = 1, .round = 0},
             .partitions = placement.partitions},
        .loading = silent_,
    };
  }

  struct Trained {
    std::vector<at::Tensor> parameters;  // which all ranks have alike
    std::optional<progress::RemoteSummary> remote;
    int64_t steps = 0;
  };

  template <class Workload>
  static Trained trained(
      Workload& workload,
      const comm::RankGroups& groups,
      const api::Training& training,
      progress::ProgressSink& sink
  ) {
    const StopToken stop;
    training::TrainerContext context{.communicator = groups.all, .progress = sink, .stop = stop};
    const auto result = comm::require(training::train(workload, context, {.training = training}));
    EXPECT_GE(result.report.global_steps, kLeastSteps);
    Trained made{.parameters = {}, .remote = {}, .steps = result.report.run_steps};
    made.remote = comm::require(workload.remote_summary(made.steps));
    comm::require(workload.leave());
    for (const at::Tensor& parameter : workload.module().parameters())
      made.parameters.push_back(parameter.detach());
    EXPECT_TRUE(comm::replicas_agree(made.parameters, *groups.all));
    return made;
  }

  static void expect_equal(
      const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected
  ) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(at::equal(found[i], expected[i])) << "tensor " << i;
  }

  const std::string key_file_;
  SilentProgressBar silent_;
};

// ---- nodes

graph::Dataset products(int64_t partitions) {
  data::MemoryStorage memory;
  SilentProgressBar silent;
  data::DatasetArrays arrays =
      data::generate({.shape = data::Shape::Products, .scale = 0.0005, .seed = 4}, memory, silent)
          .value();
  data::testing::deal_to_parts(arrays, partitions, memory);
  return graph::make_dataset(arrays, "products").value();
}

class PartitionedNodes : public PartitionedTraining {
 protected:
  std::vector<at::Tensor> run(
      const Layout& layout, const graph::Dataset& dataset, std::optional<api::Placement> placement
  ) {
    NodeWorkloadOptions options;
    options.sampling = {.fanout = {5, 3}, .num_threads = 2, .concurrency = 3};
    options.training.sharding = api::Sharding::Owner;
    options.training.epochs = 5;
    options.training.batch_size = 8;
    options.training.evaluation.every = 2;
    if (placement) options.partitioned.emplace(network(*placement));
    std::vector<std::shared_ptr<nn::NodeModel>> models;
    for (int64_t rank = 0; rank < layout.nodes * layout.ranks; ++rank) {
      torch::manual_seed(5);
      api::Model model{.type = api::ModelType::GraphSAGE};
      model.graph_sage =
          api::GraphSage{.layers = 2, .hidden_channels = 8, .dropout = api::Decimal{"0"}};
      models.push_back(make_node_model(
          model, {.in_channels = dataset.features().width(), .num_classes = dataset.num_classes}
      ));
    }
    Trained made;
    std::vector<progress::RemoteData> remote(models.size());
    const auto row_bytes =
        dataset.features().width() * static_cast<int64_t>(dataset.features().rows().element_size());
    comm::run_ranks_of_nodes(layout.nodes, layout.ranks, [&](const comm::RankGroups& groups) {
      const auto rank = static_cast<size_t>(groups.all->rank());
      Watch watch;
      NodeWorkloadOptions mine = options;
      if (placement) mine.partitioned->progress = &watch;
      const auto workload =
          comm::require(NodeWorkload::create(dataset, models[rank], groups, mine));
      const Trained by_rank = trained(*workload, groups, mine.training, watch);
      if (rank == 0) made = by_rank;
      EXPECT_EQ(watch.remote().has_value(), placement.has_value());
      if (!placement) return;
      remote[rank] = *watch.remote();
      expect_right(remote[rank], watch.input_nodes(), row_bytes);
    });
    EXPECT_EQ(made.remote.has_value(), placement.has_value());
    if (placement) expect_right(remote, *made.remote, made.steps);
    return made.parameters;
  }
};

TEST_F(PartitionedNodes, EndWithTheBitsOfRanksThatHaveAllData) {
  for (const Layout& layout : {Layout{2, 1, 2}, {2, 2, 2}, {3, 1, 3}, {4, 1, 4}, {4, 1, 2}}) {
    SCOPED_TRACE(text_of(layout));
    const graph::Dataset dataset = products(layout.partitions);
    const auto expected = run(layout, dataset, std::nullopt);
    expect_equal(
        run(layout,
            dataset,
            api::Placement{
                .topology = Mode::Partitioned,
                .features = Mode::Partitioned,
                .partitions = layout.partitions,
                .cache = api::FeatureCache{.rows = api::Decimal{"0.1"}}
            }),
        expected
    );
  }
}

TEST_F(PartitionedNodes, EndWithTheSameBitsInEveryPlacementAndCache) {
  const Layout layout{2, 1, 2};
  const graph::Dataset dataset = products(2);
  const auto expected = run(layout, dataset, std::nullopt);
  const auto cache = [](const char* rows, api::CachePolicy policy) {
    return api::FeatureCache{.rows = api::Decimal{rows}, .policy = policy};
  };
  for (const api::Placement& placement : std::vector<api::Placement>{
           {.topology = Mode::Partitioned, .partitions = 2},
           {.features = Mode::Partitioned,
            .partitions = 2,
            .cache = cache("0.5", api::CachePolicy::None)},
           {.features = Mode::Partitioned,
            .partitions = 2,
            .cache = cache("1", api::CachePolicy::Hotness)},
           {.topology = Mode::Partitioned,
            .features = Mode::Partitioned,
            .partitions = 2,
            .cache = cache("0.05", api::CachePolicy::Degree)},
       }) {
    SCOPED_TRACE(text_of(placement));
    expect_equal(run(layout, dataset, placement), expected);
  }
}

// ---- links

// Users and items with links, their reverse, and edges between items: all that a BipartiteSAGE reads.
graph::Dataset shop_of_parts(int64_t partitions) {
  data::MemoryStorage memory;
  SilentProgressBar silent;
  data::DatasetArrays arrays =
      data::generate({.shape = data::Shape::Taobao, .scale = 0.0003, .seed = 4}, memory, silent)
          .value();
  const data::EdgeTypeName link = data::name_of(arrays.edge_tables.at(0));
  arrays = data::transform(std::move(arrays), {.link = link, .add_reverse = true}, memory, silent)
               .value();
  ThreadPool pool(0);
  arrays.edge_tables.push_back(
      data::co_occurrence(
          arrays.edge_tables.at(0),
          {.num_sources = data::find_node_table(arrays, link.source)->num_nodes, .at_least = 2},
          pool,
          memory,
          silent
      )
          .value()
  );
  arrays.edge_tables.back().source = link.destination;
  arrays.edge_tables.back().relation = "to";
  arrays.edge_tables.back().destination = link.destination;
  data::testing::deal_to_parts(arrays, partitions, memory);
  return graph::make_dataset(arrays, "shop").value();
}

TEST_F(PartitionedTraining, OfLinksEndsWithTheBitsOfRanksThatHaveAllData) {
  const Layout layout{2, 2, 2};
  const graph::Dataset dataset = shop_of_parts(layout.partitions);
  const LinkSplit split =
      split_links(links_of(dataset), {.validation = 0.1, .test = 0.2, .seed = 5}).value();
  const auto run = [&](std::optional<api::Placement> placement) {
    LinkWorkloadOptions options{
        .sampling = {.fanout = {3, 2}, .num_threads = 1, .exclude_seed_edges = true},
        .training = {},
        .split_seed = 5
    };
    options.sampling.negatives = api::Negatives{.strict = true};
    options.training.sharding = api::Sharding::Owner;
    options.training.epochs = 1;
    options.training.batch_size = 512;
    if (placement) options.partitioned.emplace(network(*placement));
    std::vector<std::shared_ptr<nn::LinkModel>> models;
    for (int64_t rank = 0; rank < layout.nodes * layout.ranks; ++rank) {
      torch::manual_seed(5);
      api::Model model{.type = api::ModelType::BipartiteSAGE};
      model.bipartite_sage = api::BipartiteSage{.hidden_channels = 4, .out_channels = 4};
      models.push_back(make_link_model(
                           model,
                           {.dataset = dataset, .link = dataset.links->edge_type, .widths = {4, 4}}
      ).value());
    }
    std::vector<at::Tensor> values;
    comm::run_ranks_of_nodes(layout.nodes, layout.ranks, [&](const comm::RankGroups& groups) {
      const auto rank = static_cast<size_t>(groups.all->rank());
      LinkInputs inputs{.embeddings = std::nullopt, .tables = {0, 1}};
      std::vector<embedding::TableOptions> tables;
      for (const graph::NodeTypeData& type : dataset.node_types)
        tables.push_back({.name = type.name, .rows = type.num_nodes, .width = 4});
      inputs.embeddings = comm::require(embedding::Embeddings::create(
          {.tables = tables, .optimizer = options.training.optimizer, .seed = 5}, *groups.all
      ));
      const auto workload = comm::require(LinkWorkload::create(
          {.dataset = dataset, .split = split}, models[rank], std::move(inputs), groups, options
      ));
      progress::NullSink sink;
      auto mine = trained(*workload, groups, options.training, sink).parameters;
      for (const size_t table : {0, 1}) mine.push_back(workload->embeddings()->values(table));
      if (rank == 0) values = mine;
    });
    return values;
  };
  const auto expected = run(std::nullopt);
  expect_equal(run(api::Placement{.topology = Mode::Partitioned, .partitions = 2}), expected);
}

}  // namespace
}  // namespace gnn::tasks
