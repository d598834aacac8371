#include "worker/tasks/device_plan.h"

#include "tests/support/must.h"
#include "worker/progress/console_sink.h"
#include "worker/sampling/device/sampler_memory.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gnn::tasks {
namespace {

using ::testing::HasSubstr;
using testing::must;
using enum api::FeatureMemory;

constexpr int64_t kMuch = int64_t{1} << 50;

// Nodes of 100 bytes each, with 200 neighbours each.
graph::Dataset dataset_of(int64_t nodes) {
  constexpr int64_t kDegree = 200;
  graph::Dataset dataset;
  dataset.name = "data";
  dataset.node_types = {
      {.name = "node",
       .num_nodes = nodes,
       .features = graph::FeatureStore::create(at::zeros({nodes, 25}, at::kFloat)).value(),
       .labels = {}}
  };
  dataset.edge_types.push_back(
      {.source = "node",
       .relation = "to",
       .destination = "node",
       .graph = graph::CscGraph::create_unchecked(
                    at::arange(0, (nodes + 1) * kDegree, kDegree, at::kLong),
                    at::zeros({nodes * kDegree}, at::kInt),
                    nodes
       )
                    .value(),
       .features = std::nullopt}
  );
  return dataset;
}

api::GnnJobSpec spec_with(std::vector<int64_t> fanout, api::FeatureMemory memory = Device) {
  api::GnnJobSpec spec;
  spec.sampling.emplace().fanout = std::move(fanout);
  spec.training.batch_size = 10;
  spec.features.emplace().memory = memory;
  spec.model.graph_sage.emplace().hidden_channels = 16;
  return spec;
}

DevicePlan plan_of(const api::GnnJobSpec& spec, const graph::Dataset& dataset) {
  return must(plan_device(
      {.spec = spec,
       .dataset = dataset,
       .features = {true},
       .model_parameters = 1000,
       .pipeline = {.num_threads = 3, .concurrency = 2, .prefetch = 2},
       .part = 1}
  ));
}

// Of the one item whose text begins like that, or nothing.
std::optional<int64_t> bytes_of(const std::vector<PlannedMemory>& memory, const std::string& what) {
  std::optional<int64_t> found;
  for (const PlannedMemory& each : memory) {
    if (each.what.rfind(what, 0) != 0) continue;
    EXPECT_FALSE(found) << what;
    found = each.bytes;
  }
  return found;
}

TEST(DevicePlan, CountsTheRowsWhereTheyLie) {
  const graph::Dataset dataset = dataset_of(1000);
  api::GnnJobSpec spec = spec_with({3, 2});
  DevicePlan plan = plan_of(spec, dataset);
  EXPECT_EQ(bytes_of(plan.on_device, "feature rows"), 100'000);
  EXPECT_EQ(bytes_of(plan.on_device, "the map"), std::nullopt);
  EXPECT_TRUE(plan.pinned.empty());

  spec.training.precision = api::Precision::BFloat16;
  EXPECT_EQ(bytes_of(plan_of(spec, dataset).on_device, "feature rows"), 50'000);
  spec.training.precision.reset();

  spec.features->memory = ZeroCopy;
  plan = plan_of(spec, dataset);
  EXPECT_EQ(bytes_of(plan.on_device, "hot feature rows"), std::nullopt);
  EXPECT_EQ(bytes_of(plan.pinned, "feature rows"), 100'000);

  spec.features->device_rows = api::Decimal{"0.2"};
  plan = plan_of(spec, dataset);
  EXPECT_EQ(bytes_of(plan.on_device, "hot feature rows"), 20'000);
  EXPECT_EQ(bytes_of(plan.on_device, "the map"), 4000);
  EXPECT_EQ(bytes_of(plan.pinned, "feature rows"), 100'000);
}

TEST(DevicePlan, CountsAPartsOwnRowsWithTheCacheOfOthers) {
  graph::Dataset dataset = dataset_of(1000);
  dataset.partitions.emplace().book = {.parts = 2, .offsets = {{0, 300, 1000}}};
  api::GnnJobSpec spec = spec_with({3, 2});
  spec.placement = api::Placement{
      .features = api::PlacementMode::Partitioned,
      .partitions = 2,
      .cache = api::FeatureCache{.rows = api::Decimal{"0.1"}}
  };
  const DevicePlan plan = plan_of(spec, dataset);
  EXPECT_EQ(bytes_of(plan.on_device, "feature rows"), 70'000);
  EXPECT_EQ(bytes_of(plan.on_device, "cached rows"), 10'000);
  EXPECT_EQ(bytes_of(plan.on_device, "the map"), 4000);
  spec.placement->cache->policy = api::CachePolicy::None;
  EXPECT_EQ(bytes_of(plan_of(spec, dataset).on_device, "cached rows"), std::nullopt);
}

// 6 under way, 2 finished before the copies and 2 behind, the model's and the next.
TEST(DevicePlan, CountsAllBatchesUnderWayAtTheMostThatTheyCanHave) {
  const graph::Dataset dataset = dataset_of(1000);
  const auto rows = [&](const api::GnnJobSpec& spec) {
    return bytes_of(plan_of(spec, dataset).on_device, "the rows of");
  };
  EXPECT_EQ(rows(spec_with({3, 2})), 12 * (10 + 30 + 60) * 100);
  api::GnnJobSpec spec = spec_with({3, 2});
  spec.sampling->rule = api::SamplingRule::AllSeen;
  EXPECT_EQ(rows(spec), 12 * (10 + 30 + 80) * 100) << "draws of every node that is seen again";
  spec = spec_with({1});
  spec.training.evaluation.fanout = {4};
  EXPECT_EQ(rows(spec), 12 * (10 + 40) * 100) << "of evaluations, too";
  for (const auto& fanout :
       {std::vector<int64_t>{30, 20}, {-1}, {1'000'000, 1'000'000, 1'000'000, 1'000'000}})
    EXPECT_EQ(rows(spec_with(fanout)), 12 * 1000 * 100) << "no more than the graph";
  EXPECT_EQ(rows(spec_with({0, 7})), 12 * 10 * 100);
  // Rows that the host gathers go there with the copies, and so do edges that it samples.
  EXPECT_EQ(rows(spec_with({3, 2}, Host)), 4 * 100 * 100);
  EXPECT_EQ(
      bytes_of(plan_of(spec_with({3, 2}), dataset).on_device, "the edges of"),
      4 * (100 * 16 + 90 * 12)
  );
  spec = spec_with({30'000});
  EXPECT_EQ(
      bytes_of(plan_of(spec, dataset).on_device, "the edges of"), 4 * (1000 * 16 + 200'000 * 12)
  ) << "no more than the graph";
  spec.sampling->replace = true;
  EXPECT_EQ(
      bytes_of(plan_of(spec, dataset).on_device, "the edges of"), 4 * (1000 * 16 + 300'000 * 12)
  ) << "but for edges that are drawn again";
}

TEST(DevicePlan, CountsTheModelWithWhatItComputes) {
  const DevicePlan plan = plan_of(spec_with({3, 2}), dataset_of(1000));
  EXPECT_EQ(
      bytes_of(plan.on_device, "the model's allowance"), 3 * 4 * (1000 + (10 + 30) * 16 + 10 * 16)
  );
}

TEST(DevicePlan, CountsTheGraph) {
  const graph::Dataset dataset = dataset_of(1000);
  api::GnnJobSpec spec = spec_with({3, 2}, Host);
  spec.sampling->device = api::SamplingDevice::CUDA;
  const DevicePlan plan = plan_of(spec, dataset);
  EXPECT_EQ(bytes_of(plan.on_device, "the graph"), 1001 * 8 + 200'000 * 4);
  EXPECT_EQ(bytes_of(plan.on_device, "the edges of"), 12 * (100 * 16 + 90 * 12));
  spec.sampling->topology_memory = api::TopologyMemory::ZeroCopy;
  const DevicePlan in_place = plan_of(spec, dataset);
  EXPECT_EQ(bytes_of(in_place.on_device, "the graph"), std::nullopt);
  EXPECT_EQ(bytes_of(in_place.pinned, "the graph"), 1001 * 8 + 200'000 * 4);
}

// By samplers of one relation of `dataset`, as they are made.
sampling::device::SamplerMemory sampler_of(
    const graph::Dataset& dataset,
    std::vector<int64_t> fanout,
    sampling::device::LargestBatch largest
) {
  return must(sampling::device::memory_of_sampler(
      {.num_nodes = {dataset.target().num_nodes},
       .relations = {{}},
       .options = {.fanout = std::move(fanout)},
       .largest = std::move(largest)}
  ));
}

TEST(DevicePlan, CountsTheSamplersThatThereAreAtTheSameTimeAsTheyAreMade) {
  graph::Dataset dataset = dataset_of(1000);
  api::GnnJobSpec spec = spec_with({3, 2}, Host);
  spec.sampling->device = api::SamplingDevice::CUDA;
  spec.training.evaluation.fanout = {4};
  const auto training = sampler_of(dataset, {3, 2}, {.seeds = {10}});
  const auto evaluation = sampler_of(dataset, {4}, {.seeds = {10}});
  DevicePlan plan = plan_of(spec, dataset);
  EXPECT_EQ(
      bytes_of(plan.on_device, "the state of 4 samplers"),
      2 * (training.device_bytes + evaluation.device_bytes)
  );
  EXPECT_EQ(
      bytes_of(plan.pinned, "the state of 4 samplers"),
      2 * (training.pinned_bytes + evaluation.pinned_bytes)
  );

  const auto without_evaluation = [&](const std::string& what) {
    return bytes_of(
        must(plan_device(
                 {.spec = spec,
                  .dataset = dataset,
                  .features = {true},
                  .pipeline = {.num_threads = 3, .concurrency = 2},
                  .evaluates = false}
             ))
            .on_device,
        what
    );
  };
  EXPECT_EQ(without_evaluation("the state of 2 samplers"), 2 * training.device_bytes);

  dataset.partitions.emplace().book = {.parts = 2, .offsets = {{0, 300, 1000}}};
  spec.placement = api::Placement{.topology = api::PlacementMode::Partitioned, .partitions = 2};
  const auto in_steps = sampler_of(dataset, {3, 2}, {.seeds = {10}, .in_steps = true});
  EXPECT_GT(in_steps.device_bytes, training.device_bytes) << "with what others send";
  EXPECT_EQ(without_evaluation("the state of 6 samplers"), 6 * in_steps.device_bytes);
}

TEST(DevicePlan, CountsTheEndsOfLinksAndTheEdgesThatABatchLeavesOut) {
  graph::Dataset dataset = dataset_of(1000);
  dataset.links = graph::LinkData{.edge_type = 0, .reverse_edge_type = 0, .pairs = {}};
  api::GnnJobSpec spec = spec_with({3, 2}, Host);
  spec.sampling->device = api::SamplingDevice::CUDA;
  spec.sampling->exclude_seed_edges = true;
  spec.sampling->negatives = api::Negatives{.amount = api::Decimal{"2.5"}};
  spec.training.evaluation.metric = api::Metric::MRR;
  spec.training.evaluation.negatives = 20;
  const auto training =
      sampler_of(dataset, {3, 2}, {.seeds = {2 * (10 + 25)}, .excluded = {2 * 10}});
  const auto evaluation = sampler_of(dataset, {3, 2}, {.seeds = {2 * 10 * (1 + 20)}});
  const DevicePlan plan = plan_of(spec, dataset);
  EXPECT_EQ(
      bytes_of(plan.on_device, "the state of 4 samplers"),
      2 * (training.device_bytes + evaluation.device_bytes)
  );
  EXPECT_EQ(bytes_of(plan.on_device, "the graph"), 1001 * 8 + 200'000 * 4 + 3 * 1000 * 8);
}

// Ids of that many nodes are found by hashing.
TEST(DevicePlan, CountsNoMoreOfALargeGraphThanSamplersTake) {
  graph::Dataset dataset = dataset_of(1000);
  dataset.node_types.front().num_nodes = 200'000'000;
  api::GnnJobSpec spec = spec_with({3, 2}, Host);
  spec.sampling->device = api::SamplingDevice::CUDA;
  EXPECT_LT(bytes_of(plan_of(spec, dataset).on_device, "the state of 4 samplers"), 100'000);
}

TEST(DevicePlan, RefusesBatchesThatNoGpuSamples) {
  const graph::Dataset dataset = dataset_of(1000);
  api::GnnJobSpec spec = spec_with({int64_t{1} << 30}, Host);
  spec.sampling->device = api::SamplingDevice::CUDA;
  const auto refused =
      plan_device({.spec = spec, .dataset = dataset, .features = {true}, .pipeline = {}});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, ::testing::StartsWith("spec.sampling.fanout: "));
}

TEST(DevicePlan, IsRefusedByFieldWithWhatItNeedsAndWhatIsFree) {
  DevicePlan plan{
      .on_device =
          {{.what = "the graph", .bytes = 900, .field = "spec.sampling.topologyMemory"},
           {.what = "feature rows", .bytes = 1010, .field = "spec.features.memory"},
           {.what = "batches", .bytes = 9000}},
      .pinned = {{.what = "rows in place", .bytes = 500, .field = "spec.features.memory"}},
      .device = "cuda:1",
      .free_bytes = 10'910,
      .host_bytes = 500
  };
  EXPECT_TRUE(check(plan));
  plan.free_bytes = 10'909;
  const Status refused = check(plan);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(refused.error().message, ::testing::StartsWith("spec.features.memory: "));
  for (const char* part :
       {"cuda:1", "feature rows 1010 bytes", "the graph 900 bytes", "11 KiB are free"})
    EXPECT_THAT(refused.error().message, HasSubstr(part));
  plan.on_device.front().bytes = 1020;
  EXPECT_THAT(check(plan).error().message, ::testing::StartsWith("spec.sampling.topologyMemory: "));
  plan.free_bytes = kMuch;
  plan.host_bytes = 499;
  EXPECT_THAT(check(plan).error().message, HasSubstr("rows in place 500 bytes"));
}

class Messages final : public progress::NullSink {
 public:
  void on_message(const std::string& text) override { all += text; }
  std::string all;
};

TEST(DevicePlan, IsLoggedAndHeldAgainstWhatIsFreeOfTheRanksOwnDevice) {
  const graph::Dataset dataset = dataset_of(1000);
  SilentProgressBar loading;
  Messages messages;
  StopToken stop;
  TaskContext context{
      .communicator = comm::make_single_communicator(),
      .device = c10::Device(c10::kCUDA, 3),
      .incarnation = {},
      .loading = loading,
      .progress = messages,
      .stop = stop
  };
  const auto planned = [&](const api::GnnJobSpec& spec) {
    return plan_for(
        {.spec = spec, .dataset = dataset, .features = {true}},
        context,
        [](c10::Device device) { return device.index() == 3 ? kMuch : 0; }
    );
  };
  EXPECT_TRUE(planned(spec_with({3, 2}, Host)));
  EXPECT_EQ(messages.all, "");
  EXPECT_TRUE(planned(spec_with({3, 2})));
  EXPECT_THAT(messages.all, HasSubstr("cuda:3 is to hold feature rows 98 KiB"));
  context.device = c10::Device(c10::kCUDA, 2);
  EXPECT_FALSE(planned(spec_with({3, 2})));
  context.device = c10::Device(c10::kCUDA, 3);
  context.memory_bytes = 99'999;
  EXPECT_TRUE(planned(spec_with({3, 2})));
  EXPECT_FALSE(planned(spec_with({3, 2}, ZeroCopy)));
}

}  // namespace
}  // namespace gnn::tasks
