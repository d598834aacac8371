#include "worker/tasks/device_rows.h"

#include "tests/support/must.h"
#include "tests/worker/loader/emulated_row_device.h"
#include "tests/worker/partition/sets.h"
#include "tests/worker/tasks/link_datasets.h"
#include "worker/graph/load.h"
#include "worker/progress/console_sink.h"
#include "worker/tasks/link_batches.h"
#include "worker/tasks/node_batches.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace gnn::tasks {
namespace {

using gnn::testing::must;
using ::testing::HasSubstr;
using enum api::FeatureMemory;

std::vector<api::Features> features_on_device() {
  std::vector<api::Features> all{{.memory = Device}, {.memory = ZeroCopy}};
  for (const char* share : {"0", "0.2", "1"})
    all.push_back({.memory = ZeroCopy, .device_rows = api::Decimal{share}});
  return all;
}

DeviceFeatures emulated(const api::Features& features) {
  static SilentProgressBar silent;
  return {
      .device = std::make_shared<loader::EmulatedRowDevice>(),
      .features = features,
      .finding = {.progress = silent}
  };
}

// All batches of a part.
template <class Data>
std::vector<typename Data::Batch> read(const Data& data, api::Part part, Use use) {
  typename Data::LoaderOptions options;
  options.items = must(data.items(part, use));
  options.num_threads = 2;
  const auto loader = must(Data::Loader::create(options, must(data.maker(part, use))));
  must(loader->start_epoch(0, 0));
  std::vector<typename Data::Batch> batches;
  while (auto batch = must(loader->next())) batches.push_back(std::move(*batch));
  EXPECT_FALSE(batches.empty());
  return batches;
}

void expect_same(const at::Tensor& found, const at::Tensor& expected) {
  ASSERT_EQ(found.defined(), expected.defined());
  if (!found.defined()) return;
  EXPECT_EQ(found.scalar_type(), expected.scalar_type());
  EXPECT_TRUE(found.equal(expected));
}

TEST(DeviceRows, OfNodesAreThoseOfTheHostsBatches) {
  const graph::Dataset dataset = must(graph::make_dataset(
      partition::testing::community_set({.nodes = 200, .communities = 4}), "data"
  ));
  const comm::RankGroups groups{comm::make_single_communicator()};
  NodeBatchesOptions options;
  options.sampling.fanout = {4, 3};
  options.training.batch_size = 16;
  for (const auto precision :
       {std::optional<api::Precision>(), std::optional(api::Precision::BFloat16)}) {
    options.training.precision = precision;
    options.device_features.reset();
    const auto on_host = must(NodeBatches::create(dataset, groups, options));
    for (const api::Features& features : features_on_device()) {
      NodeBatchesOptions mine = options;
      mine.device_features.emplace(emulated(features));
      const auto on_device = must(NodeBatches::create(dataset, groups, mine));
      for (const Use use : {Use::Training, Use::Evaluation}) {
        const auto part = use == Use::Training ? api::Part::Train : api::Part::Validation;
        const auto expected = read(*on_host, part, use);
        const auto found = read(*on_device, part, use);
        ASSERT_EQ(found.size(), expected.size());
        for (size_t i = 0; i < found.size(); ++i) {
          expect_same(found[i].x, expected[i].x);
          expect_same(found[i].y, expected[i].y);
        }
      }
    }
  }
}

// Of users and items that both have features, of different widths.
TEST(DeviceRows, OfLinksAreThoseOfTheHostsBatches) {
  graph::Dataset dataset = two_tastes(80, 40, 6);
  dataset.node_types[0].features = must(graph::FeatureStore::create(at::randn({80, 3})));
  dataset.node_types[1].features = must(graph::FeatureStore::create(at::randn({40, 8})));
  LinkSplit split =
      must(split_links(links_of(dataset), {.validation = 0.1, .test = 0.2, .seed = 5}));
  std::vector<int64_t> edge_types(dataset.edge_types.size());
  std::iota(edge_types.begin(), edge_types.end(), 0);
  const LinkReads reads{.edge_types = edge_types, .features = {true, true}};
  const comm::RankGroups groups{comm::make_single_communicator()};
  LinkBatchesOptions options;
  options.sampling.fanout = {3, 2};
  options.training.batch_size = 32;
  const auto on_host =
      must(LinkBatches::create({.dataset = dataset, .split = split}, reads, groups, options));
  for (const api::Features& features : features_on_device()) {
    LinkBatchesOptions mine = options;
    mine.device_features.emplace(emulated(features));
    const auto on_device =
        must(LinkBatches::create({.dataset = dataset, .split = split}, reads, groups, mine));
    for (const Use use : {Use::Training, Use::Evaluation}) {
      const auto part = use == Use::Training ? api::Part::Train : api::Part::Validation;
      const auto expected = read(*on_host, part, use);
      const auto found = read(*on_device, part, use);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) {
        for (const size_t type : {0, 1}) expect_same(found[i].x[type], expected[i].x[type]);
      }
    }
  }
}

TEST(DeviceRows, AreAShareOfThoseHere) {
  EXPECT_EQ(num_device_rows({.memory = Host}, 10), 0);
  EXPECT_EQ(num_device_rows({.memory = Device}, 10), 10);
  EXPECT_EQ(num_device_rows({.memory = ZeroCopy}, 10), 0);
  EXPECT_EQ(num_device_rows({.memory = ZeroCopy, .device_rows = api::Decimal{"0.25"}}, 10), 2);
}

TEST(DeviceRows, AreNoneByDefaultAndNeverOnAnotherDeviceOrWithoutKernels) {
  SilentProgressBar loading;
  progress::NullSink sink;
  StopToken stop;
  TaskContext context{
      .communicator = comm::make_single_communicator(),
      .incarnation = {},
      .loading = loading,
      .progress = sink,
      .stop = stop
  };
  api::GnnJobSpec spec;
  EXPECT_FALSE(must(device_features(spec, context)));
  spec.features.emplace();
  EXPECT_FALSE(must(device_features(spec, context)));
  for (const auto memory : {ZeroCopy, Device}) {
    spec.features->memory = memory;
    context.device = c10::kCPU;
    const auto on_cpu = device_features(spec, context);
    ASSERT_FALSE(on_cpu);
    EXPECT_EQ(on_cpu.error().kind, ErrorKind::Configuration);
    EXPECT_THAT(on_cpu.error().message, HasSubstr("spec.features.memory: "));
    EXPECT_THAT(on_cpu.error().message, HasSubstr("found one on cpu"));
    context.device = c10::Device(c10::kCUDA, 0);
    const auto without_kernels = device_features(spec, context);
    if (without_kernels) GTEST_SKIP() << "this build has kernels";
    EXPECT_EQ(without_kernels.error().kind, ErrorKind::Configuration);
    EXPECT_THAT(without_kernels.error().message, HasSubstr("spec.features.memory: "));
    EXPECT_THAT(without_kernels.error().message, HasSubstr("GNN_WITH_CUDA_KERNELS"));
  }
}

}  // namespace
}  // namespace gnn::tasks
