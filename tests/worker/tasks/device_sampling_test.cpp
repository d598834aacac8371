// Batches of jobs whose device samples, emulated: those of CPUs, bit for bit.
#include "worker/tasks/device_sampling.h"

#include "common/api/defaults.h"
#include "tests/common/api/sample_job.h"
#include "tests/support/emulated_sampling_device.h"
#include "tests/worker/sampling/device/sampler_cases.h"
#include "tests/worker/shards/in_process_peer.h"
#include "tests/worker/shards/parts.h"
#include "tests/worker/tasks/link_datasets.h"
#include "worker/gpu/kernels/sampler_memory.h"
#include "worker/progress/console_sink.h"
#include "worker/tasks/link_batches.h"
#include "worker/tasks/node_batches.h"
#include "worker/tasks/registry.h"
#include "worker/tasks/sampled_shape.h"
#include "worker/tasks/task_batches.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gnn::tasks {
namespace {

using sampling::device::DeviceGraph;
using ::testing::AllOf;
using testing::EmulatedSamplingDevice;
using ::testing::HasSubstr;
using testing::must;

constexpr int64_t kRandomNodes = 150;
constexpr int64_t kConcurrency = 2;

std::shared_ptr<DeviceGraph> emulated_graph() {
  return std::make_shared<DeviceGraph>(std::make_shared<EmulatedSamplingDevice>());
}

api::Training training_of(int64_t batch_size) {
  api::Training training;
  training.batch_size = batch_size;
  training.seed = 5;
  training.evaluation.fanout = {2, 4};
  return training;
}

// Three batches at a time ask for two samplers; of those that wait for other nodes there are six.
template <class Data>
std::vector<typename Data::Batch> loaded_batches(
    std::shared_ptr<const Data> data, api::Part part, Use use, int64_t first_batch
) {
  const auto batches = must(LoadedBatches<Data>::create(
      std::move(data), 0, {.num_threads = 3, .concurrency = kConcurrency}
  ));
  const auto source = must(batches->open(part, use));
  must(source->start_epoch(1, first_batch));
  std::vector<typename Data::Batch> all;
  while (auto batch = must(source->next())) all.push_back(std::move(*batch));
  return all;
}

template <class Data>
void expect_the_same(
    const std::shared_ptr<const Data>& device,
    const std::shared_ptr<const Data>& cpu,
    api::Part part,
    Use use,
    int64_t first_batch = 0
) {
  SCOPED_TRACE("part " + std::to_string(static_cast<int>(part)));
  const auto found = loaded_batches(device, part, use, first_batch);
  const auto wanted = loaded_batches(cpu, part, use, first_batch);
  ASSERT_EQ(found.size(), wanted.size());
  EXPECT_GT(found.size(), 1U);
  for (size_t i = 0; i < wanted.size(); ++i) {
    SCOPED_TRACE("batch " + std::to_string(i));
    EXPECT_EQ(found[i].batch_index, wanted[i].batch_index);
    sampling::device::expect_equal(found[i].subgraph, wanted[i].subgraph);
    auto tensors = [](typename Data::Batch batch) {
      std::vector<at::Tensor> list;
      for_each_tensor(batch, [&](at::Tensor& tensor) { list.push_back(tensor); });
      return list;
    };
    const auto there = tensors(found[i]);
    const auto here = tensors(wanted[i]);
    ASSERT_EQ(there.size(), here.size());
    for (size_t t = 0; t < here.size(); ++t) sampling::device::expect_equal(there[t], here[t]);
  }
}

api::Sampling node_sampling() {
  return {.fanout = {3, 2}};
}

std::shared_ptr<const NodeBatches> node_batches(
    std::shared_ptr<DeviceGraph> graph, std::optional<PartitionedData> partitioned = std::nullopt
) {
  graph::Dataset dataset;
  dataset.name = "random";
  dataset.num_classes = 2;
  dataset.node_types.push_back(
      {.name = "node",
       .num_nodes = kRandomNodes,
       .features =
           graph::FeatureStore::create(at::arange(kRandomNodes * 2, at::kFloat).view({-1, 2}))
               .value(),
       .labels = at::arange(kRandomNodes).remainder(2)}
  );
  dataset.edge_types.push_back(
      {.source = "node",
       .relation = "to",
       .destination = "node",
       .graph = sampling::device::random_relation({kRandomNodes}, 0, 0, at::kInt).graph,
       .features = std::nullopt}
  );
  const at::Tensor items = at::arange(kRandomNodes);
  dataset.split = {
      .train = items.slice(0, 0, 60), .validation = items.slice(0, 60, 100), .test = {}
  };
  graph::PartitionData whole_as_one_part;
  whole_as_one_part.book = {.parts = 1, .offsets = {{0, dataset.target().num_nodes}}};
  whole_as_one_part.original_ids.resize(1);
  whole_as_one_part.hot.assign(1, std::vector<graph::HotRowsData>(1));
  dataset.partitions = std::move(whole_as_one_part);
  return must(NodeBatches::create(
      std::move(dataset),
      comm::RankGroups(comm::make_single_communicator()),
      {.sampling = node_sampling(),
       .training = training_of(9),
       .partitioned = std::move(partitioned),
       .device_graph = std::move(graph)}
  ));
}

TEST(DeviceSampling, GivesTheCpusBatchesOfNodes) {
  const auto graph = emulated_graph();
  const auto on_device = node_batches(graph);
  const auto on_cpu = node_batches(nullptr);
  expect_the_same(on_device, on_cpu, api::Part::Train, Use::Training);
  expect_the_same(on_device, on_cpu, api::Part::Train, Use::Training, 3);
  expect_the_same(on_device, on_cpu, api::Part::Validation, Use::Evaluation);
  const auto& device = dynamic_cast<const EmulatedSamplingDevice&>(graph->device());
  EXPECT_EQ(device.placed(), 2) << "the graph is there once";
  EXPECT_EQ(device.samplers(), 3 * 2);
  for (const auto& batch : loaded_batches(on_device, api::Part::Validation, Use::Evaluation, 0))
    EXPECT_LE(batch.subgraph.edges_per_hop[0][0], 2 * batch.subgraph.num_seeds)
        << "its own fan-out";
}

TEST(DeviceSampling, GivesTheCpusBatchesOfNodesThatArePartitioned) {
  SilentProgressBar loading;
  const PartitionedData data{
      .placement = {.topology = api::PlacementMode::Partitioned}, .network = {}, .loading = loading
  };
  const auto graph = emulated_graph();
  const auto on_device = node_batches(graph, data);
  const auto on_cpu = node_batches(nullptr);
  expect_the_same(on_device, on_cpu, api::Part::Train, Use::Training);
  expect_the_same(on_device, on_cpu, api::Part::Validation, Use::Evaluation);
  const auto& device = dynamic_cast<const EmulatedSamplingDevice&>(graph->device());
  EXPECT_EQ(device.placed(), 2) << "the part's lists are there once";
  EXPECT_GT(device.samplers(), 0);
}

// Users and items in three parts, of which the second has no items.
graph::Dataset parted_shop() {
  graph::Dataset dataset = two_tastes(60, 40, 5);
  graph::PartitionData partitions;
  partitions.book = {.parts = 3, .offsets = {{0, 10, 30, 60}, {0, 25, 25, 40}}};
  partitions.original_ids.resize(2);
  partitions.hot.assign(2, std::vector<graph::HotRowsData>(3));
  dataset.partitions = std::move(partitions);
  return dataset;
}

api::Sampling link_sampling() {
  api::Sampling sampling{.fanout = {3, 2}};
  sampling.rule = api::SamplingRule::AllSeen;
  sampling.exclude_seed_edges = true;
  sampling.fanout_by_edge_type = {
      {.edge_type = {.source = "user", .relation = "to", .destination = "item"}, .fanout = {-1, 1}}
  };
  return sampling;
}

// The model reads the reversed links first, so that a relation's place is not its edge type.
std::shared_ptr<const LinkBatches> link_batches(
    std::shared_ptr<DeviceGraph> graph,
    std::optional<PartitionedData> partitioned = std::nullopt,
    graph::Dataset dataset = parted_shop()
) {
  LinkSplit split = must(split_links(
      links_of(dataset), {.validation = 0.2, .test = 0.2, .disjoint_train = 0.3, .seed = 5}
  ));
  return must(LinkBatches::create(
      {.dataset = std::move(dataset), .split = std::move(split)},
      {.edge_types = {1, 0}, .features = {false, false}},
      comm::RankGroups(comm::make_single_communicator()),
      {.sampling = link_sampling(),
       .training = training_of(16),
       .partitioned = std::move(partitioned),
       .device_graph = std::move(graph)}
  ));
}

TEST(DeviceSampling, GivesTheCpusBatchesOfLinks) {
  const auto graph = emulated_graph();
  const auto on_device = link_batches(graph);
  const auto on_cpu = link_batches(nullptr);
  expect_the_same(on_device, on_cpu, api::Part::Train, Use::Training);
  expect_the_same(on_device, on_cpu, api::Part::Train, Use::Training, 2);
  for (const api::Part part : {api::Part::Validation, api::Part::Test})
    expect_the_same(on_device, on_cpu, part, Use::Evaluation);
  const auto& device = dynamic_cast<const EmulatedSamplingDevice&>(graph->device());
  EXPECT_EQ(device.placed(), 2 * 2 + 2 * 3) << "two relations, and what each part sees of them";
}

// The nodes of a job in one process: each has a part and asks the others, who may come later.
class NodesOfAJob {
 public:
  explicit NodesOfAJob(int64_t parts) : nodes_(static_cast<size_t>(parts)) {}
  ~NodesOfAJob() {
    for (const auto& node : nodes_)
      if (node != nullptr) node->close();
  }
  NodesOfAJob(const NodesOfAJob&) = delete;
  NodesOfAJob& operator=(const NodesOfAJob&) = delete;

  [[nodiscard]] PartitionedData node(int64_t part) {
    return {
        .placement =
            {.topology = api::PlacementMode::Partitioned,
             .features = api::PlacementMode::Partitioned,
             .partitions = static_cast<int64_t>(nodes_.size()),
             .cache = api::FeatureCache{.policy = api::CachePolicy::None}},
        .network = {},
        .loading = loading_,
        .server =
            ServerPlace{
                .part = part,
                .connect = [this, part](auto service) { return connect(part, std::move(service)); }
            }
    };
  }

 private:
  class Node final : public shards::Peer {
   public:
    Node(const NodesOfAJob& job, size_t part) : job_(job), part_(part) {}
    [[nodiscard]] std::string name() const override { return job_.nodes_[part_]->name(); }
    void call(shards::PeerCall call, Callback callback) override {
      job_.nodes_[part_]->call(std::move(call), std::move(callback));
    }

   private:
    const NodesOfAJob& job_;
    const size_t part_;
  };

  Result<shards::Peers> connect(int64_t part, std::shared_ptr<const shards::Service> service) {
    const auto own = static_cast<size_t>(part);
    nodes_[own] = std::make_unique<shards::InProcessPeer>(std::move(service), part);
    shards::Peers peers(nodes_.size());
    for (size_t other = 0; other < nodes_.size(); ++other)
      if (other != own) peers[other] = std::make_shared<Node>(*this, other);
    return peers;
  }

  SilentProgressBar loading_;
  std::vector<std::unique_ptr<shards::InProcessPeer>> nodes_;
};

// The memory that the plan of a rank counts for a sampler of batches of `part`, on an emulated device.
int64_t planned_bytes(const SampledData& data, api::Part part, Use use) {
  const auto spec = sampler_spec(data, part, use);
  return static_cast<int64_t>(must(gpu::sampler_memory(
                                       EmulatedSamplingDevice::shape_of(spec),
                                       EmulatedSamplingDevice::kSteps
                                   ))
                                  .sampler);
}

// `data`: what the batches sample. Checks that samplers take what is planned when they are made, and no
// batch takes more.
template <class Batches>
void expect_planned_memory(
    const std::function<std::shared_ptr<const Batches>(std::shared_ptr<DeviceGraph>)>& make,
    const SampledData& data
) {
  using Case = std::pair<api::Part, Use>;
  for (const auto& [part, use] :
       {Case{api::Part::Train, Use::Training}, Case{api::Part::Validation, Use::Evaluation}}) {
    SCOPED_TRACE("part " + std::to_string(static_cast<int>(part)));
    const auto graph = emulated_graph();
    EXPECT_GT(loaded_batches(make(graph), part, use, 0).size(), 1U);
    const auto& device = dynamic_cast<const EmulatedSamplingDevice&>(graph->device());
    const int64_t most = data.in_steps ? 3 * kConcurrency : 2;
    EXPECT_GT(device.most_samplers(), 0);
    EXPECT_LE(device.most_samplers(), most);
    EXPECT_EQ(device.most_bytes(), device.most_samplers() * planned_bytes(data, part, use));
  }
}

TEST(DeviceSampling, TakesTheMemoryThatIsPlanned) {
  const api::Sampling nodes = node_sampling();
  const api::Sampling links = link_sampling();
  const api::Training of_nodes = training_of(9);
  const api::Training of_links = training_of(16);
  const graph::Dataset random = node_batches(nullptr)->dataset();
  const graph::Dataset shop = parted_shop();
  expect_planned_memory<NodeBatches>(
      [](auto graph) { return node_batches(std::move(graph)); },
      {.sampling = nodes, .training = of_nodes, .dataset = random, .edge_types = {0}}
  );
  expect_planned_memory<LinkBatches>(
      [](auto graph) { return link_batches(std::move(graph)); },
      {.sampling = links, .training = of_links, .dataset = shop, .edge_types = {1, 0}}
  );
  NodesOfAJob job(3);
  std::vector<std::shared_ptr<const LinkBatches>> others;
  for (const int64_t part : {0, 1}) others.push_back(link_batches(nullptr, job.node(part)));
  expect_planned_memory<LinkBatches>(
      [&](auto graph) { return link_batches(std::move(graph), job.node(2)); },
      {.sampling = links,
       .training = of_links,
       .dataset = shop,
       .edge_types = {1, 0},
       .in_steps = true}
  );
}

// Every other node has its part alone. Of a whole data set the lists of later parts begin elsewhere.
TEST(DeviceSampling, GivesTheCpusBatchesOfLinksThatArePartitioned) {
  const graph::Dataset whole = parted_shop();
  const int64_t parts = whole.partitions->book.parts;
  NodesOfAJob job(parts);
  std::vector<std::shared_ptr<DeviceGraph>> graphs;
  std::vector<std::shared_ptr<const LinkBatches>> nodes;
  for (int64_t part = 0; part < parts; ++part) {
    graphs.push_back(emulated_graph());
    nodes.push_back(link_batches(
        graphs.back(), job.node(part), part == 0 ? shards::extracted(whole, part) : whole
    ));
  }
  const auto on_cpu = link_batches(nullptr);
  for (size_t part = 0; part < nodes.size(); ++part) {
    SCOPED_TRACE("node " + std::to_string(part));
    expect_the_same(nodes[part], on_cpu, api::Part::Train, Use::Training);
    for (const api::Part of : {api::Part::Validation, api::Part::Test})
      expect_the_same(nodes[part], on_cpu, of, Use::Evaluation);
    const int64_t placed = graphs[part]->bytes();
    expect_the_same(nodes[part], on_cpu, api::Part::Validation, Use::Evaluation);
    EXPECT_EQ(graphs[part]->bytes(), placed) << "a later evaluation reads what is there";
  }
  expect_the_same(nodes[2], on_cpu, api::Part::Train, Use::Training, 2);
}

std::string refusal_of(const std::function<void(api::GnnJobSpec&)>& change, c10::Device device) {
  api::GnnJobSpec spec = api::sample_job().spec;
  spec.sampling->device = api::SamplingDevice::CUDA;
  change(spec);
  const auto refused = device_graph_of(spec, device);
  if (refused) return "none";
  EXPECT_EQ(refused.error().kind, ErrorKind::Configuration);
  return refused.error().message;
}

TEST(DeviceSampling, IsRefusedByTheFieldThatAsksForTooMuch) {
  const c10::Device none(c10::kCUDA, 127);
  const auto nothing = [](api::GnnJobSpec&) {};
  EXPECT_THAT(
      refusal_of(nothing, c10::kCPU), AllOf(HasSubstr("spec.sampling.device"), HasSubstr("cpu"))
  );
  EXPECT_THAT(refusal_of(nothing, none), HasSubstr("spec.sampling.device: CUDA: "));
  EXPECT_EQ(refusal_of([](auto& spec) { spec.sampling->device = {}; }, none), "none");
}

// Before the data set is read, which is not there.
TEST(DeviceSampling, EndsAJobWithoutAGpuAtItsStart) {
  for (api::GnnJob job : {api::sample_job(), api::sample_plain_link_job()}) {
    job.spec.dataset.format = api::DatasetFormat::OGB;
    job.spec.dataset.synthetic.reset();
    job.spec.dataset.path = "/nowhere";
    job.spec.training.device = api::DeviceChoice::CUDA;
    job.spec.workers.gpus_per_process = 1;
    job.spec.sampling->device = api::SamplingDevice::CUDA;
    api::apply_defaults(job.spec);
    auto task = parse_task(job);
    ASSERT_TRUE(task) << to_error(task.error()).message;
    SilentProgressBar loading;
    progress::NullSink sink;
    const StopToken stop;
    TaskContext context{
        .communicator = comm::make_single_communicator(),
        .incarnation = {},
        .loading = loading,
        .progress = sink,
        .stop = stop
    };
    const auto refused = (*task)->run(context);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::Configuration);
    EXPECT_THAT(refused.error().message, HasSubstr("spec.sampling.device"));
  }
}

TEST(DeviceSampling, TakesFewThreadsWhereNothingIsLeftForThem) {
  api::Sampling sampling{.fanout = {3}};
  const c10::Device gpu(c10::kCUDA, 0);
  const auto threads = [&](bool host_gathers) {
    return pipeline_options(sampling, false, 16, gpu, host_gathers).num_threads;
  };
  EXPECT_EQ(threads(false), 14);
  sampling.device = api::SamplingDevice::CUDA;
  EXPECT_EQ(threads(true), 14);
  EXPECT_EQ(threads(false), 4);
  sampling.num_threads = 6;
  EXPECT_EQ(threads(false), 6);
}

}  // namespace
}  // namespace gnn::tasks
