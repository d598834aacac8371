// Wherever data lies, training ends with the same bits: ranks whose nodes hold partitions, which ask
// each other over connections of their own, against ranks that have all of it.

#include "common/progress_bar.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/comm/in_process_ranks.h"
#include "tests/worker/loader/emulated_row_device.h"
#include "tests/worker/tasks/logged_models.h"
#include "worker/data/co_occurrence.h"
#include "worker/data/generate.h"
#include "worker/data/transforms.h"
#include "worker/graph/load.h"
#include "worker/partition/extract.h"
#include "worker/partition/partition.h"
#include "worker/progress/console_sink.h"
#include "worker/tasks/link_workload.h"
#include "worker/tasks/models.h"
#include "worker/tasks/node_workload.h"
#include "worker/training/trainer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
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

std::string text_of(const api::Placement& placement) {
  const auto word = [](Mode mode) { return mode == Mode::Partitioned ? "own " : "all "; };
  std::string text =
      std::string(word(placement.topology)) + "lists, " + word(placement.features) + "rows";
  if (placement.cache)
    text += ", cache " + placement.cache->rows.text + " by policy " +
            std::to_string(static_cast<int>(placement.cache->policy));
  return text;
}

// Notes what a rank reports.
class Watch final : public progress::NullSink {
 public:
  void on_remote_meter(const std::shared_ptr<const progress::RemoteMeter>& meter) override {
    meter_ = meter;
  }
  void on_step(const progress::StepReport& report) override {
    input_nodes_ += report.input_nodes;
    if (stop_ != nullptr && ++steps_ == stop_after_) stop_->request();
  }
  // Asks for it after so many steps, if that is not 0.
  void stop_training(StopToken& stop, int64_t after) {
    stop_ = &stop;
    stop_after_ = after;
  }

  // Of all steps.
  [[nodiscard]] int64_t input_nodes() const { return input_nodes_; }
  // Nothing where the whole data set is on each node.
  [[nodiscard]] std::optional<progress::RemoteData> remote() const {
    return meter_ == nullptr ? std::nullopt : std::optional(meter_->read());
  }

 private:
  std::shared_ptr<const progress::RemoteMeter> meter_;
  int64_t input_nodes_ = 0;
  StopToken* stop_ = nullptr;
  int64_t stop_after_ = 0;
  int64_t steps_ = 0;
};

// The numbers of a rank against each other: what its sampler says that batches read (U), where its
// rows came from, and what went over its connections.
void expect_right(
    const progress::RemoteData& data,
    int64_t input_nodes,
    int64_t row_bytes,
    api::EvaluationMode evaluation
) {
  using progress::DataKind;
  const progress::RowOrigins& rows = data.training;
  EXPECT_EQ(rows.local + rows.cache + rows.remote, input_nodes);
  EXPECT_EQ(
      data.received_bytes[DataKind::Features],
      (rows.remote + data.evaluation.remote + data.cache_rows) * row_bytes
  );
  const int64_t hop_bytes = data.training_bytes - rows.remote * row_bytes;
  const int64_t all_hop_bytes = data.received_bytes[DataKind::Hops];
  if (evaluation == api::EvaluationMode::LayerWise) {
    EXPECT_EQ(hop_bytes, all_hop_bytes) << "no evaluation has drawn a hop";
  } else if (all_hop_bytes > 0) {
    EXPECT_GT(hop_bytes, 0);
    EXPECT_LT(hop_bytes, all_hop_bytes) << "evaluations have drawn some";
  }
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
  double expected_hits = 0;
  bool is_expected = true;
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
    const int64_t reads = each.training.cache + each.training.remote;
    if (reads == 0) continue;
    is_expected = is_expected && each.expected_hit_rate.has_value();
    expected_hits += each.expected_hit_rate.value_or(0) * static_cast<double>(reads);
  }
  EXPECT_DOUBLE_EQ(summary.bytes_per_step * static_cast<double>(steps), static_cast<double>(bytes));
  if (rows.cache + rows.remote > 0) {
    EXPECT_DOUBLE_EQ(summary.hit_rate, rows.hit_rate());
    ASSERT_EQ(summary.expected_hit_rate.has_value(), is_expected);
    if (is_expected) {
      EXPECT_DOUBLE_EQ(
          *summary.expected_hit_rate, expected_hits / static_cast<double>(rows.cache + rows.remote)
      ) << "ranks that read more weigh more";
    }
  } else {
    EXPECT_TRUE(std::isnan(summary.hit_rate));
  }
}

// A partitioned data set, and each of its partitions alone.
struct PartedData {
  graph::Dataset whole;
  std::vector<graph::Dataset> parts;
};

PartedData parted(const data::DatasetArrays& arrays, int64_t partitions) {
  data::MemoryStorage memory;
  SilentProgressBar silent;
  ThreadPool none(0);
  const data::DatasetArrays arrays_of_parts =
      partition::partition(
          arrays,
          {.parts = partitions, .method = partition::Method::Ldg, .fanout = {5, 3}, .batch_size = 8
          },
          memory,
          none,
          silent
      )
          .value();
  PartedData made{.whole = graph::make_dataset(arrays_of_parts, "whole").value(), .parts = {}};
  for (int64_t index = 0; index < partitions; ++index) {
    const auto alone = partition::extract(arrays_of_parts, index, "whole", memory, silent).value();
    made.parts.push_back(graph::make_dataset(alone, "part").value());
  }
  return made;
}

// What a job ends with.
struct Outcome {
  std::vector<at::Tensor> values;  // parameters and embeddings, which all ranks have alike
  std::map<std::string, double> metrics;
  std::vector<std::vector<uint64_t>> batches;  // of each rank
  std::optional<progress::RemoteSummary> remote;
  int64_t steps = 0;
};

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

  // What a node has: every other one has its own partition alone, where that is enough.
  static const graph::Dataset& data_of_node(
      const PartedData& data,
      const comm::RankGroups& groups,
      const std::optional<api::Placement>& placement
  ) {
    const int64_t node = groups.all->rank() / groups.node->world_size();
    const bool is_enough = placement && placement->topology == Mode::Partitioned &&
                           placement->features == Mode::Partitioned;
    if (!is_enough || node % 2 == 0) return data.whole;
    return data.parts[static_cast<size_t>(node % placement->partitions)];
  }

  // Trains on this rank, and adds to the job's outcome.
  template <class Workload>
  void train(
      Workload& workload,
      const comm::RankGroups& groups,
      const api::Training& training,
      Watch& watch,
      const BatchLog& log,
      Outcome& outcome
  ) const {
    StopToken stop;
    watch.stop_training(stop, stop_after_);
    training::TrainerContext context{.communicator = groups.all, .progress = watch, .stop = stop};
    const auto result = comm::require(
        training::train(workload, context, {.training = training, .checkpoint = checkpoint_})
    );
    EXPECT_EQ(result.stopped, stop_after_ > 0);
    if (stop_after_ == 0) {
      EXPECT_GE(result.report.global_steps, kLeastSteps);
    }
    const int64_t steps = result.report.run_steps;
    const auto remote = comm::require(workload.remote_summary(result.report));
    comm::require(workload.leave());
    std::vector<at::Tensor> values;
    for (const at::Tensor& parameter : workload.module().parameters())
      values.push_back(parameter.detach());
    EXPECT_TRUE(comm::replicas_agree(values, *groups.all));
    const auto rank = static_cast<size_t>(groups.all->rank());
    outcome.batches[rank] = log.batches();
    if (rank != 0) return;
    outcome.values = std::move(values);
    outcome.remote = remote;
    outcome.steps = steps;
    outcome.metrics = result.report.metrics;
  }

  static void expect_equal(const Outcome& found, const Outcome& expected) {
    ASSERT_EQ(found.values.size(), expected.values.size());
    for (size_t i = 0; i < found.values.size(); ++i)
      EXPECT_TRUE(at::equal(found.values[i], expected.values[i])) << "tensor " << i;
    EXPECT_TRUE(
        expected.metrics.contains("test_accuracy") || expected.metrics.contains("test_auc")
    );
    EXPECT_EQ(found.metrics, expected.metrics);
    for (size_t rank = 0; rank < expected.batches.size(); ++rank) {
      EXPECT_FALSE(expected.batches[rank].empty());
      EXPECT_EQ(found.batches[rank], expected.batches[rank]) << "rank " << rank;
    }
  }

  const std::string key_file_;
  SilentProgressBar silent_;
  std::optional<api::Checkpoint> checkpoint_;
  int64_t stop_after_ = 0;  // steps; 0: not before the end
  std::optional<api::Precision> precision_;
  std::optional<api::Features> features_;  // of an emulated device; nothing: the host gathers
};

// ---- nodes

PartedData products(int64_t partitions) {
  data::MemoryStorage memory;
  SilentProgressBar silent;
  return parted(
      data::generate({.shape = data::Shape::Products, .scale = 0.0005, .seed = 4}, memory, silent)
          .value(),
      partitions
  );
}

// How many rows a node's ranks read themselves, those in their caches included.
int64_t rows_of_node(const graph::Dataset& data, const api::Placement& placement, int64_t part) {
  const int64_t nodes = data.target().num_nodes;
  if (placement.features == Mode::Replicated) return nodes;
  const data::IdRange own = data.partitions->book.range_of(0, part);
  const auto most =
      static_cast<int64_t>(placement.cache->rows.value() * static_cast<double>(nodes));
  if (placement.cache->policy == api::CachePolicy::None) return own.size();
  if (placement.cache->policy == api::CachePolicy::Hotness) {
    const graph::HotRowsData& hot = data.partitions->hot[0][static_cast<size_t>(part)];
    return own.size() + std::min(most, hot.ids.numel());
  }
  const at::Tensor named = at::zeros({nodes}, at::kBool);
  const auto* const indptr = data.graph().indptr().const_data_ptr<int64_t>();
  named.index_fill_(
      0, data.graph().indices().slice(0, indptr[own.begin], indptr[own.end]).to(at::kLong), true
  );
  named.slice(0, own.begin, own.end).fill_(false);
  return own.size() + std::min(most, named.sum().item<int64_t>());
}

class PartitionedNodes : public PartitionedTraining {
 protected:
  Outcome run(
      const Layout& layout,
      api::EvaluationMode evaluation,
      const PartedData& data,
      const std::optional<api::Placement>& placement
  ) {
    NodeWorkloadOptions options;
    options.sampling = {.fanout = {5, 3}, .num_threads = 2, .concurrency = 3};
    options.training.sharding = api::Sharding::Owner;
    options.training.epochs = 5;
    options.training.batch_size = 8;
    options.training.evaluation.every = 2;
    options.training.evaluation.mode = evaluation;
    options.training.evaluation.fanout = {4, 2};
    options.training.precision = precision_;
    if (placement) options.partitioned.emplace(network(*placement));
    if (features_) {
      options.device_features.emplace(DeviceFeatures{
          .device = std::make_shared<loader::EmulatedRowDevice>(),
          .features = *features_,
          .finding = {.progress = silent_}
      });
    }
    if (features_ && placement)
      options.partitioned->device_features.emplace(*options.device_features);
    std::vector<std::shared_ptr<LoggedNodeModel>> models;
    for (int64_t rank = 0; rank < layout.nodes * layout.ranks; ++rank) {
      torch::manual_seed(5);
      api::Model model{.type = api::ModelType::GraphSAGE};
      model.graph_sage =
          api::GraphSage{.layers = 2, .hidden_channels = 8, .dropout = api::Decimal{"0"}};
      models.push_back(std::make_shared<LoggedNodeModel>(make_node_model(
          model,
          {.in_channels = data.whole.features().width(), .num_classes = data.whole.num_classes}
      )));
    }
    Outcome outcome;
    outcome.batches.resize(models.size());
    std::vector<progress::RemoteData> remote(models.size());
    const at::Tensor& rows = data.whole.features().rows();
    const int64_t row_bytes = static_cast<int64_t>(rows.nbytes()) / rows.size(0);
    comm::run_ranks_of_nodes(layout.nodes, layout.ranks, [&](const comm::RankGroups& groups) {
      const auto rank = static_cast<size_t>(groups.all->rank());
      Watch watch;
      NodeWorkloadOptions mine = options;
      if (placement) mine.partitioned->progress = &watch;
      const auto workload = comm::require(
          NodeWorkload::create(data_of_node(data, groups, placement), models[rank], groups, mine)
      );
      const int64_t node = groups.all->rank() / layout.ranks;
      if (placement) {
        EXPECT_EQ(
            workload->memory().features,
            rows_of_node(data.whole, *placement, node % layout.partitions) * row_bytes
        );
      }
      train(*workload, groups, mine.training, watch, models[rank]->log, outcome);
      EXPECT_EQ(watch.remote().has_value(), placement.has_value());
      if (!placement) return;
      remote[rank] = *watch.remote();
      // Batches that nobody takes any more have read, too.
      if (stop_after_ == 0) expect_right(remote[rank], watch.input_nodes(), row_bytes, evaluation);
    });
    EXPECT_EQ(outcome.remote.has_value(), placement.has_value());
    if (placement) expect_right(remote, *outcome.remote, outcome.steps);
    return outcome;
  }
};

TEST_F(PartitionedNodes, HaveTheBatchesMetricsAndBitsOfRanksThatHaveAllDataInEveryPlacement) {
  const auto cache = [](const char* rows, api::CachePolicy policy) {
    return api::FeatureCache{.rows = api::Decimal{rows}, .policy = policy};
  };
  const std::vector<api::Placement> placements{
      {.topology = Mode::Partitioned},
      {.features = Mode::Partitioned, .cache = cache("0.5", api::CachePolicy::None)},
      {.features = Mode::Partitioned, .cache = cache("0.1", api::CachePolicy::Hotness)},
      {.topology = Mode::Partitioned,
       .features = Mode::Partitioned,
       .cache = cache("0.5", api::CachePolicy::None)},
      {.topology = Mode::Partitioned,
       .features = Mode::Partitioned,
       .cache = cache("0.5", api::CachePolicy::Degree)},
  };
  auto evaluation = api::EvaluationMode::Sampled;
  for (const Layout& layout : {Layout{2, 1, 2}, {2, 2, 2}, {3, 1, 3}, {4, 1, 4}, {4, 1, 2}}) {
    const PartedData data = products(layout.partitions);
    const Outcome expected = run(layout, evaluation, data, std::nullopt);
    for (api::Placement placement : placements) {
      SCOPED_TRACE(text_of(layout) + "; " + text_of(placement));
      placement.partitions = layout.partitions;
      expect_equal(run(layout, evaluation, data, placement), expected);
    }
    evaluation = evaluation == api::EvaluationMode::Sampled ? api::EvaluationMode::LayerWise
                                                            : api::EvaluationMode::Sampled;
  }
}

TEST_F(PartitionedNodes, CountTrainingAloneAndResumeFromACheckpointOfAnotherPlacement) {
  const Layout layout{2, 1, 2};
  const PartedData data = products(layout.partitions);
  const api::Placement all_apart{
      .topology = Mode::Partitioned,
      .features = Mode::Partitioned,
      .partitions = layout.partitions,
      .cache = api::FeatureCache{.policy = api::CachePolicy::None}
  };
  const Outcome whole = run(layout, api::EvaluationMode::Sampled, data, all_apart);
  EXPECT_EQ(
      run(layout, api::EvaluationMode::LayerWise, data, all_apart).remote->bytes_per_step,
      whole.remote->bytes_per_step
  ) << "however evaluations read";

  const gnn::testing::TemporaryFolder folder;
  checkpoint_.emplace().path = folder.path("checkpoints");
  stop_after_ = whole.steps / 2 + 1;
  const Outcome stopped = run(layout, api::EvaluationMode::Sampled, data, all_apart);
  EXPECT_GE(stopped.steps, stop_after_);
  EXPECT_LT(stopped.steps, whole.steps);
  stop_after_ = 0;
  api::Placement features_apart = all_apart;
  features_apart.topology = Mode::Replicated;
  Outcome resumed = run(layout, api::EvaluationMode::Sampled, data, features_apart);
  EXPECT_EQ(resumed.steps, whole.steps - stopped.steps);
  // Batches before and after, without the one that checks the model of each run.
  for (size_t rank = 0; rank < resumed.batches.size(); ++rank) {
    std::vector<uint64_t>& batches = resumed.batches[rank];
    const auto first = whole.batches[rank].end() - static_cast<std::ptrdiff_t>(batches.size()) + 1;
    EXPECT_TRUE(std::equal(batches.begin() + 1, batches.end(), first)) << "rank " << rank;
    batches = whole.batches[rank];
  }
  expect_equal(resumed, whole);
}

TEST_F(PartitionedNodes, WhoseDevicesGatherHaveTheBitsOfRanksWhoseHostsDo) {
  const Layout layout{2, 2, 2};
  const PartedData data = products(layout.partitions);
  const api::Placement all_apart{
      .topology = Mode::Partitioned,
      .features = Mode::Partitioned,
      .partitions = layout.partitions,
      .cache = api::FeatureCache{.rows = api::Decimal{"0.1"}}
  };
  api::Placement lists_apart = all_apart;
  lists_apart.features = Mode::Replicated;
  lists_apart.cache.reset();
  const Outcome expected = run(layout, api::EvaluationMode::Sampled, data, std::nullopt);
  using enum api::FeatureMemory;
  for (const auto& features :
       {api::Features{.memory = Device},
        api::Features{.memory = ZeroCopy, .device_rows = api::Decimal{"0.2"}}}) {
    features_ = features;
    for (const std::optional<api::Placement>& placement :
         {std::optional<api::Placement>(), std::optional(lists_apart), std::optional(all_apart)})
      expect_equal(run(layout, api::EvaluationMode::Sampled, data, placement), expected);
  }
  features_.reset();
  const Outcome by_layer = run(layout, api::EvaluationMode::LayerWise, data, std::nullopt);
  features_ = {.memory = ZeroCopy};
  expect_equal(run(layout, api::EvaluationMode::LayerWise, data, all_apart), by_layer);
}

// Rows arrive as float32 from other nodes, and are rounded where they are gathered on this one.
TEST_F(PartitionedNodes, InBFloat16HaveTheBitsOfRanksThatHaveAllDataAndResumeAfterEveryStep) {
  precision_ = api::Precision::BFloat16;
  const Layout layout{2, 1, 2};
  const PartedData data = products(layout.partitions);
  const api::Placement all_apart{
      .topology = Mode::Partitioned,
      .features = Mode::Partitioned,
      .partitions = layout.partitions,
      .cache = api::FeatureCache{.policy = api::CachePolicy::None}
  };
  const Outcome whole = run(layout, api::EvaluationMode::Sampled, data, std::nullopt);
  expect_equal(run(layout, api::EvaluationMode::Sampled, data, all_apart), whole);
  for (const at::Tensor& value : whole.values) EXPECT_EQ(value.scalar_type(), at::kFloat);

  precision_.reset();
  const Outcome in_float = run(layout, api::EvaluationMode::Sampled, data, std::nullopt);
  EXPECT_FALSE(at::equal(in_float.values.front(), whole.values.front()));
  precision_ = api::Precision::BFloat16;

  const gnn::testing::TemporaryFolder folder;
  for (int64_t step = 1; step < whole.steps; ++step) {
    SCOPED_TRACE(step);
    checkpoint_.emplace().path = folder.path("after-" + std::to_string(step));
    stop_after_ = step;
    run(layout, api::EvaluationMode::Sampled, data, std::nullopt);
    stop_after_ = 0;
    const Outcome resumed = run(layout, api::EvaluationMode::Sampled, data, std::nullopt);
    EXPECT_LT(resumed.steps, whole.steps);
    ASSERT_EQ(resumed.values.size(), whole.values.size());
    for (size_t i = 0; i < whole.values.size(); ++i)
      EXPECT_TRUE(at::equal(resumed.values[i], whole.values[i])) << "tensor " << i;
    EXPECT_EQ(resumed.metrics, whole.metrics);
  }
}

// ---- links

// Users and items with links, their reverse, and edges between items: all that a BipartiteSAGE reads.
PartedData shop(int64_t partitions) {
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
  return parted(arrays, partitions);
}

TEST_F(PartitionedTraining, OfLinksHasTheBatchesMetricsAndBitsOfRanksThatHaveAllData) {
  const auto run = [&](const Layout& layout,
                       const PartedData& data,
                       const std::optional<api::Placement>& placement) {
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
    std::vector<std::shared_ptr<LoggedLinkModel>> models;
    for (int64_t rank = 0; rank < layout.nodes * layout.ranks; ++rank) {
      torch::manual_seed(5);
      api::Model model{.type = api::ModelType::BipartiteSAGE};
      model.bipartite_sage = api::BipartiteSage{.hidden_channels = 4, .out_channels = 4};
      models.push_back(std::make_shared<LoggedLinkModel>(
          make_link_model(
              model, {.dataset = data.whole, .link = data.whole.links->edge_type, .widths = {4, 4}}
          ).value()
      ));
    }
    Outcome outcome;
    outcome.batches.resize(models.size());
    std::vector<progress::RemoteData> remote(models.size());
    comm::run_ranks_of_nodes(layout.nodes, layout.ranks, [&](const comm::RankGroups& groups) {
      const auto rank = static_cast<size_t>(groups.all->rank());
      const graph::Dataset& dataset = data_of_node(data, groups, placement);
      Watch watch;
      LinkWorkloadOptions mine = options;
      if (placement) mine.partitioned->progress = &watch;
      LinkInputs inputs{.embeddings = std::nullopt, .tables = {0, 1}};
      std::vector<embedding::TableOptions> tables;
      for (const graph::NodeTypeData& type : dataset.node_types)
        tables.push_back({.name = type.name, .rows = type.num_nodes, .width = 4});
      inputs.embeddings = comm::require(embedding::Embeddings::create(
          {.tables = tables, .optimizer = options.training.optimizer, .seed = 5}, *groups.all
      ));
      const auto workload = comm::require(LinkWorkload::create(
          {.dataset = dataset,
           .split =
               split_links(links_of(dataset), {.validation = 0.1, .test = 0.2, .seed = 5}).value()},
          models[rank],
          std::move(inputs),
          groups,
          mine
      ));
      train(*workload, groups, options.training, watch, models[rank]->log, outcome);
      if (placement) remote[rank] = *watch.remote();
      for (const size_t table : {0, 1}) {
        if (rank == 0) outcome.values.push_back(workload->embeddings()->values(table));
      }
    });
    if (!placement) return outcome;
    expect_right(remote, *outcome.remote, outcome.steps);
    for (const progress::RemoteData& each : remote) {
      EXPECT_GT(each.training_bytes, 0);
      EXPECT_LT(each.training_bytes, each.received_bytes[progress::DataKind::Hops])
          << "evaluations have drawn hops, and a model of embeddings reads no rows";
    }
    return outcome;
  };
  for (const Layout& layout : {Layout{2, 2, 2}, {3, 1, 3}}) {
    const PartedData data = shop(layout.partitions);
    const Outcome expected = run(layout, data, std::nullopt);
    for (const Mode features : {Mode::Replicated, Mode::Partitioned}) {
      SCOPED_TRACE(text_of(layout));
      expect_equal(
          run(layout,
              data,
              api::Placement{
                  .topology = Mode::Partitioned,
                  .features = features,
                  .partitions = layout.partitions
              }),
          expected
      );
    }
  }
}

}  // namespace
}  // namespace gnn::tasks
