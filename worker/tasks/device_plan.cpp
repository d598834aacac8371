#include "worker/tasks/device_plan.h"

#include "worker/data/memory_plan.h"
#include "worker/sampling/device/device_sampler.h"
#include "worker/sampling/device/sampler_memory.h"
#include "worker/tasks/device_rows.h"
#include "worker/tasks/part_inputs.h"
#include "worker/tasks/row_type.h"
#include "worker/tasks/sampled_shape.h"
#include "worker/tasks/sampler_options.h"
#include "worker/tasks/task_batches.h"

#include <ATen/DeviceAccelerator.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>
#include <utility>

namespace gnn::tasks {
namespace {

using sampling::device::SamplerMemory;

constexpr const char* kFeatures = "spec.features.memory";
constexpr const char* kTopology = "spec.sampling.topologyMemory";
constexpr int64_t kPartsOfSplit = 3;  // each sees other links

// Products of sizes that a spec gives, which need not fit: then the most that does.
int64_t times(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() / 4 : product;
}

// What a batch has at most.
struct BatchShape {
  std::vector<int64_t> nodes;  // [hops + 1]: after each hop, of all types
  int64_t edges = 0;
};

struct GraphShape {
  int64_t nodes = 0;
  int64_t edges = 0;
};

BatchShape batch_shape(
    const std::vector<int64_t>& fanout,
    const api::Sampling& sampling,
    int64_t seeds,
    const GraphShape& graph
) {
  const bool all_seen = sampling.rule == api::SamplingRule::AllSeen;
  // With replacement an edge is drawn more than once.
  const int64_t most = sampling.replace ? std::numeric_limits<int64_t>::max() : graph.edges;
  BatchShape shape{.nodes = {std::min(seeds, graph.nodes)}};
  int64_t expanded = shape.nodes.front();
  for (const int64_t draws : fanout) {
    const int64_t before = shape.nodes.back();
    const int64_t drawn = draws < 0 ? graph.edges : std::min(times(expanded, draws), most);
    shape.nodes.push_back(draws < 0 ? graph.nodes : std::min(before + drawn, graph.nodes));
    shape.edges += drawn;
    expanded = all_seen ? shape.nodes.back() : std::min(drawn, graph.nodes);
  }
  return shape;
}

class Planner {
 public:
  explicit Planner(const DevicePlanInput& input)
      : input_(input),
        spec_(input.spec),
        sampling_(*input.spec.sampling),
        memory_(input.spec.features.value_or(api::Features{}).memory),
        batch_(largest_shape()) {}

  Result<DevicePlan> plan() {
    add_graph();
    add_rows();
    add_batches();
    GNN_RETURN_IF_ERROR(add_samplers());
    put(plan_.on_device, "the model's allowance", model_bytes());
    return std::move(plan_);
  }

 private:
  [[nodiscard]] bool gathers() const { return memory_ != api::FeatureMemory::Host; }
  [[nodiscard]] bool samples() const { return sampling_.device == api::SamplingDevice::CUDA; }
  [[nodiscard]] bool is_apart(bool features) const {
    if (!spec_.placement) return false;
    return (features ? spec_.placement->features : spec_.placement->topology) ==
           api::PlacementMode::Partitioned;
  }

  static void put(
      std::vector<PlannedMemory>& into, std::string what, int64_t bytes, const char* field = ""
  ) {
    if (bytes > 0) into.push_back({.what = std::move(what), .bytes = bytes, .field = field});
  }

  [[nodiscard]] GraphShape graph_shape() const {
    GraphShape shape;
    for (const graph::NodeTypeData& type : input_.dataset.node_types) shape.nodes += type.num_nodes;
    for (const graph::EdgeTypeData& type : input_.dataset.edge_types)
      shape.edges += type.graph.num_edges();
    return shape;
  }

  // The draws of all edge types: a node may have lists of each.
  [[nodiscard]] std::vector<int64_t> draws_of(const std::vector<int64_t>& fanout) const {
    std::vector<int64_t> draws = fanout;
    const auto types = static_cast<int64_t>(input_.edge_types.size());
    for (size_t hop = 0; hop < draws.size(); ++hop) {
      int64_t most = fanout[hop];
      bool all = most < 0;
      for (const api::EdgeTypeFanout& own : sampling_.fanout_by_edge_type) {
        all = all || own.fanout[hop] < 0;
        most = std::max(most, own.fanout[hop]);
      }
      draws[hop] = all ? -1 : times(most, types);
    }
    return draws;
  }

  [[nodiscard]] SampledData sampled() const {
    return {
        .sampling = sampling_,
        .training = spec_.training,
        .dataset = input_.dataset,
        .edge_types = input_.edge_types,
        .in_steps = is_apart(false)
    };
  }

  [[nodiscard]] BatchShape shape_of(api::Part part, Use use) const {
    const std::vector<int64_t> seeds = seeds_of(sampled(), use);
    return batch_shape(
        draws_of(sampler_options(sampling_, spec_.training, part).fanout),
        sampling_,
        std::accumulate(seeds.begin(), seeds.end(), int64_t{0}),
        graph_shape()
    );
  }

  [[nodiscard]] BatchShape largest_shape() const {
    BatchShape largest = shape_of(api::Part::Train, Use::Training);
    if (!input_.evaluates) return largest;
    BatchShape other = shape_of(api::Part::Validation, Use::Evaluation);
    return other.edges > largest.edges ? other : largest;
  }

  void add_graph() {
    if (!samples()) return;
    int64_t bytes = 0;
    for (const int64_t index : input_.edge_types) {
      const graph::EdgeTypeData& type = input_.dataset.edge_types[static_cast<size_t>(index)];
      const int64_t nodes = owned(type.destination_index, false);
      const int64_t edges = edges_of(type, nodes);
      bytes += (nodes + 1) * int64_t{sizeof(int64_t)} +
               edges * static_cast<int64_t>(type.graph.indices().element_size());
      const auto& links = input_.dataset.links;
      if (links && (index == links->edge_type || index == links->reverse_edge_type))
        bytes += nodes * (input_.evaluates ? kPartsOfSplit : 1) * int64_t{sizeof(int64_t)};
    }
    const bool in_place = sampling_.topology_memory == api::TopologyMemory::ZeroCopy;
    put(in_place ? plan_.pinned : plan_.on_device, "the graph", bytes, kTopology);
  }

  // Of the lists that the rank reads.
  [[nodiscard]] int64_t edges_of(const graph::EdgeTypeData& type, int64_t nodes) const {
    const graph::CscGraph& graph = type.graph;
    if (nodes >= graph.num_destinations()) return graph.num_edges();
    const data::IdRange own = input_.dataset.partitions->book.range_of(
        static_cast<size_t>(type.destination_index), input_.part
    );
    const int64_t first = input_.dataset.held(type.destination_index).begin;
    const auto* const indptr = graph.indptr().const_data_ptr<int64_t>();
    return indptr[own.end - first] - indptr[own.begin - first];
  }

  // Nodes of a type whose rows, or lists, the rank reads itself.
  [[nodiscard]] int64_t owned(int64_t type, bool features) const {
    if (is_apart(features) && input_.dataset.partitions) {
      return input_.dataset.partitions->book.range_of(static_cast<size_t>(type), input_.part)
          .size();
    }
    return input_.dataset.node_types[static_cast<size_t>(type)].num_nodes;
  }

  [[nodiscard]] const graph::FeatureStore* rows_of(size_t type) const {
    const auto& rows = input_.dataset.node_types[type].features;
    return rows && input_.features.at(type) ? &*rows : nullptr;
  }
  [[nodiscard]] int64_t gathered_row_bytes(const graph::FeatureStore& rows) const {
    // Rows of other nodes come as they are stored.
    const auto type = is_apart(true) ? loader::RowType::AsStored : row_type(spec_.training);
    return rows.width() *
           static_cast<int64_t>(c10::elementSize(loader::gathered_type(rows.dtype(), type)));
  }

  void add_rows() {
    if (!gathers()) return;
    int64_t hot = 0;
    int64_t cached = 0;
    int64_t maps = 0;
    int64_t pinned = 0;
    for (size_t type = 0; type < input_.features.size(); ++type) {
      const graph::FeatureStore* const rows = rows_of(type);
      if (rows == nullptr) continue;
      const int64_t nodes = input_.dataset.node_types[type].num_nodes;
      const int64_t own = owned(static_cast<int64_t>(type), true);
      const int64_t hot_rows = num_device_rows(spec_.features.value_or(api::Features{}), own);
      const int64_t cached_rows = share_of_cache(nodes);
      hot += hot_rows * gathered_row_bytes(*rows);
      cached += cached_rows * gathered_row_bytes(*rows);
      if (cached_rows > 0 || (hot_rows > 0 && hot_rows < nodes))
        maps += nodes * int64_t{sizeof(int32_t)};
      if (hot_rows < own) pinned += own * rows->row_bytes();
    }
    put(plan_.on_device, hot_name(), hot, kFeatures);
    put(plan_.on_device, "cached rows of other nodes", cached, "spec.placement.cache.rows");
    put(plan_.on_device, "the map to rows", maps, kFeatures);
    put(plan_.pinned, "feature rows", pinned, kFeatures);
  }

  [[nodiscard]] const char* hot_name() const {
    return memory_ == api::FeatureMemory::Device ? "feature rows" : "hot feature rows";
  }

  [[nodiscard]] int64_t share_of_cache(int64_t nodes) const {
    if (!is_apart(true) || spec_.placement->partitions < 2) return 0;
    const api::FeatureCache cache = spec_.placement->cache.value_or(api::FeatureCache());
    if (cache.policy == api::CachePolicy::None) return 0;
    return static_cast<int64_t>(std::floor(cache.rows.value() * static_cast<double>(nodes)));
  }

  // Of one that the model reads, one that it takes next, and all that are finished or under way
  // before, on the device or on their way there.
  void add_batches() {
    const loader::PipelineOptions& pipeline = input_.pipeline;
    const int64_t copied = pipeline.prefetch + 2;
    const int64_t under_way = loader::under_way(pipeline);
    const int64_t made = copied + under_way + pipeline.prefetch;
    const int64_t with_rows = gathers() ? made : copied;
    const int64_t with_edges = samples() ? made : copied;
    put(plan_.on_device,
        "the rows of " + std::to_string(with_rows) + " batches",
        times(with_rows, row_bytes_of_batch()));
    put(plan_.on_device,
        "the edges of " + std::to_string(with_edges) + " batches",
        times(with_edges, edge_bytes_of_batch()));
  }

  // Those of the training stay while an evaluation has its own, of one part of the split at a time.
  Status add_samplers() {
    if (!samples()) return {};
    GNN_ASSIGN_OR_RETURN(SamplerMemory memory, memory_of(api::Part::Train, Use::Training));
    int64_t samplers = samplers_of_loader();
    if (input_.evaluates) {
      SamplerMemory most{};
      std::vector<api::Part> parts =
          spec_.training.evaluation.parts.value_or(std::vector<api::Part>());
      parts.push_back(api::Part::Test);  // which is as large as validation
      for (const api::Part part : parts) {
        GNN_ASSIGN_OR_RETURN(const auto of_part, memory_of(part, Use::Evaluation));
        most.device_bytes = std::max(most.device_bytes, of_part.device_bytes);
        most.pinned_bytes = std::max(most.pinned_bytes, of_part.pinned_bytes);
      }
      memory.device_bytes += most.device_bytes;
      memory.pinned_bytes += most.pinned_bytes;
      samplers *= 2;
    }
    const std::string named = "the state of " + std::to_string(samplers) + " samplers";
    put(plan_.on_device, named, times(samplers_of_loader(), memory.device_bytes));
    put(plan_.pinned, named, times(samplers_of_loader(), memory.pinned_bytes));
    return {};
  }

  [[nodiscard]] int64_t samplers_of_loader() const {
    return is_apart(false) ? loader::under_way(input_.pipeline)
                           : static_cast<int64_t>(sampling::device::kDefaultInFlight);
  }

  [[nodiscard]] Result<SamplerMemory> memory_of(api::Part part, Use use) const {
    auto memory = sampling::device::memory_of_sampler(sampler_spec(sampled(), part, use));
    if (!memory)
      return tl::unexpected(with_context(std::move(memory).error(), "spec.sampling.fanout"));
    return memory;
  }

  // The types' nodes are together no more than the batch's.
  [[nodiscard]] int64_t row_bytes_of_batch() const {
    const int64_t most = batch_.nodes.back();
    int64_t bytes = 0;
    int64_t widest = 0;
    for (size_t type = 0; type < input_.features.size(); ++type) {
      const graph::FeatureStore* const rows = rows_of(type);
      if (rows == nullptr) continue;
      const int64_t nodes = std::min(most, input_.dataset.node_types[type].num_nodes);
      bytes += times(nodes, gathered_row_bytes(*rows));
      widest = std::max(widest, gathered_row_bytes(*rows));
    }
    return std::min(bytes, times(most, widest));
  }

  // Ids of nodes and offsets of their lists, and local sources with the ids of edges.
  [[nodiscard]] int64_t edge_bytes_of_batch() const {
    return times(batch_.nodes.back(), 16) + times(batch_.edges, 12);
  }

  [[nodiscard]] int64_t hidden_channels() const {
    if (spec_.model.graph_sage) return spec_.model.graph_sage->hidden_channels;
    return spec_.model.gcn ? spec_.model.gcn->hidden_channels : 0;
  }

  [[nodiscard]] int64_t model_bytes() const {
    constexpr int64_t kFloat = sizeof(float);
    int64_t bytes = times(input_.model_parameters, 3 * kFloat);
    const auto layers = batch_.nodes.size() - 1;
    for (size_t layer = 0; layer < layers; ++layer)
      bytes += times(times(batch_.nodes[layers - 1 - layer], hidden_channels()), 3 * kFloat);
    return bytes;
  }

  const DevicePlanInput& input_;
  const api::GnnJobSpec& spec_;
  const api::Sampling& sampling_;
  const api::FeatureMemory memory_;
  const BatchShape batch_;
  DevicePlan plan_;
};

std::string list_of(const std::vector<PlannedMemory>& memory) {
  std::string text;
  for (const PlannedMemory& each : memory)
    text += (text.empty() ? "" : ", ") + each.what + " " + data::bytes_text(each.bytes);
  return text;
}

std::string field_of_largest(const std::vector<PlannedMemory>& memory) {
  const auto largest = std::max_element(
      memory.begin(),
      memory.end(),
      [](const PlannedMemory& a, const PlannedMemory& b) {
        return std::pair(!a.field.empty(), a.bytes) < std::pair(!b.field.empty(), b.bytes);
      }
  );
  return largest->field.empty() ? "spec.training.batchSize" : largest->field;
}

}  // namespace

int64_t sum_of(const std::vector<PlannedMemory>& memory) {
  int64_t sum = 0;
  for (const PlannedMemory& each : memory) sum += each.bytes;
  return sum;
}

Result<DevicePlan> plan_device(const DevicePlanInput& input) {
  return Planner(input).plan();
}

std::string text_of(const DevicePlan& plan) {
  std::string text = plan.device + " is to hold " + list_of(plan.on_device) + ": at most " +
                     data::bytes_text(sum_of(plan.on_device)) + "; " +
                     data::bytes_text(plan.free_bytes) + " are free";
  if (!plan.pinned.empty())
    text += ". Pinned memory of the node is to hold " + list_of(plan.pinned);
  return text;
}

Status check(const DevicePlan& plan) {
  if (sum_of(plan.on_device) > plan.free_bytes) {
    return fail(
        ErrorKind::Configuration,
        field_of_largest(plan.on_device) + ": expected room on the GPU, but " + text_of(plan) +
            ". Set memory: ZeroCopy with fewer deviceRows, or Host; a smaller sampling.fanout, "
            "batchSize, numThreads or prefetch; or use a GPU with more memory"
    );
  }
  if (sum_of(plan.pinned) <= plan.host_bytes) return {};
  return fail(
      ErrorKind::Configuration,
      field_of_largest(plan.pinned) + ": expected room in the node's memory for " +
          list_of(plan.pinned) + ", found " + data::bytes_text(plan.host_bytes) +
          ". Set Host, raise the workers' memory limit, or partition the data over more "
          "nodes"
  );
}

int64_t free_bytes_of(c10::Device device) {
  return static_cast<int64_t>(at::accelerator::getMemoryInfo(device.index()).first);
}

int64_t num_parameters(const torch::nn::Module& model) {
  int64_t count = 0;
  for (const at::Tensor& parameter : model.parameters()) count += parameter.numel();
  return count;
}

Status plan_for(DevicePlanInput input, TaskContext& context, const FreeBytes& free_bytes) {
  const bool gathers =
      input.spec.features && input.spec.features->memory != api::FeatureMemory::Host;
  if (!gathers && input.spec.sampling->device != api::SamplingDevice::CUDA) return {};
  const std::optional<api::Placement>& placement = input.spec.placement;
  input.pipeline = pipeline_options(
      *input.spec.sampling,
      is_partitioned(placement),
      context.num_cpus,
      context.device,
      /*host_gathers=*/!gathers && std::ranges::any_of(input.features, std::identity())
  );
  const comm::RankGroups& groups = context.groups;
  if (placement)
    input.part = groups.all->rank() / groups.node->world_size() % placement->partitions;
  GNN_ASSIGN_OR_RETURN(DevicePlan plan, plan_device(input));
  plan.device = context.device.str();
  plan.free_bytes = free_bytes(context.device);
  plan.host_bytes = context.memory_bytes;
  context.progress.on_message(text_of(plan));
  return check(plan);
}

}  // namespace gnn::tasks
