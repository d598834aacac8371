#include "worker/sampling/sample_parts.h"

#include "worker/data/gather.h"

#include <ATen/Functions.h>

#include <string>
#include <utility>

namespace gnn::sampling {

namespace {

using core::ExcludedPairs;
using core::RelationView;
using core::SampleArena;

Status check_fanout(const std::vector<int64_t>& fanout, const std::string& field) {
  for (size_t hop = 0; hop < fanout.size(); ++hop) {
    if (fanout[hop] < -1) {
      return fail(
          ErrorKind::Configuration,
          field + "[" + std::to_string(hop) +
              "]: expected a number of neighbours or -1 for all, found " +
              std::to_string(fanout[hop])
      );
    }
  }
  return {};
}

Status check_fanouts(
    const NeighborSamplerOptions& options, const std::vector<RelationView>& relations
) {
  if (options.fanout.empty() || options.fanout.size() > 255) {
    return fail(
        ErrorKind::Configuration,
        "sampling.fanout: expected 1 to 255 hops, found " + std::to_string(options.fanout.size())
    );
  }
  GNN_RETURN_IF_ERROR(check_fanout(options.fanout, "sampling.fanout"));
  for (size_t i = 0; i < relations.size(); ++i) {
    const std::string field = "sampling.fanoutByEdgeType: relation " + std::to_string(i);
    const std::vector<int64_t>& fanout = relations[i].fanout;
    if (!fanout.empty() && fanout.size() != options.fanout.size()) {
      return fail(
          ErrorKind::Configuration,
          field + ": expected as many hops as sampling.fanout has, " +
              std::to_string(options.fanout.size()) + ", found " + std::to_string(fanout.size())
      );
    }
    GNN_RETURN_IF_ERROR(check_fanout(fanout, field));
  }
  return {};
}

// Two relations of one lane would draw alike.
Status check_lanes(const std::vector<RelationView>& relations, int64_t num_edge_types) {
  const int64_t limit =
      num_edge_types > 0 ? num_edge_types : static_cast<int64_t>(RelationView::kMaxLanes);
  std::vector<bool> taken;
  for (size_t i = 0; i < relations.size(); ++i) {
    const uint32_t lane = relations[i].lane;
    if (static_cast<int64_t>(lane) >= limit) {
      return fail(
          ErrorKind::Data,
          "relation " + std::to_string(i) + ": expected an edge type below " +
              std::to_string(limit) + ", found " + std::to_string(lane)
      );
    }
    if (lane >= taken.size()) taken.resize(lane + 1);
    if (taken[lane]) {
      return fail(
          ErrorKind::Data,
          "relation " + std::to_string(i) + ": another one has edge type " + std::to_string(lane) +
              " too"
      );
    }
    taken[lane] = true;
  }
  return {};
}

void check_excluded(const ExcludedEdges& edges, size_t num_relations) {
  const auto is_vector = [](const at::Tensor& ids) {
    return ids.defined() && ids.dim() == 1 && ids.scalar_type() == at::kLong &&
           ids.is_contiguous() && ids.is_cpu();
  };
  TORCH_CHECK(
      edges.relation >= 0 && static_cast<size_t>(edges.relation) < num_relations,
      "excluded edges: relation ",
      edges.relation,
      " is not one of ",
      num_relations
  );
  TORCH_CHECK(
      is_vector(edges.sources) && is_vector(edges.destinations) &&
          edges.sources.numel() == edges.destinations.numel(),
      "excluded edges must be two contiguous int64 vectors of one length on the CPU"
  );
}

// Makes tensors over an arena's arrays. Each keeps the arena alive.
class ArenaTensors {
 public:
  explicit ArenaTensors(std::shared_ptr<SampleArena> arena) : arena_(std::move(arena)) {}

  template <class T>
  [[nodiscard]] at::Tensor over(const T* data, int64_t count) const {
    const auto options = at::TensorOptions().dtype(c10::CppTypeToScalarType<T>::value);
    if (count == 0) return at::empty({0}, options);
    // const_cast: from_blob takes no pointer to const.
    return at::from_blob(const_cast<T*>(data), {count}, [arena = arena_](void*) {}, options);
  }

 private:
  std::shared_ptr<SampleArena> arena_;
};

// The block of the layer that hop `hop` feeds.
graph::Block block_of_hop(
    const SampleArena& arena,
    const RelationView& relation,
    size_t edge_type,
    size_t hop,
    SamplingRule rule,
    const ArenaTensors& tensors
) {
  const SampleArena::EdgeList& edges = arena.edges[edge_type];
  const auto& destinations = arena.nodes[static_cast<size_t>(relation.destination_type)].up_to;
  const auto& sources = arena.nodes[static_cast<size_t>(relation.source_type)].up_to;
  const int64_t first_edge = rule == SamplingRule::NewNodes ? 0 : edges.up_to[hop];
  const int64_t num_edges = edges.up_to[hop + 1] - first_edge;
  graph::Block block;
  block.num_destinations = destinations[hop];
  block.num_sources = sources[hop + 1];
  block.indptr =
      tensors.over(edges.indptr.data() + edges.indptr_at[hop], block.num_destinations + 1);
  block.indices = tensors.over(edges.indices.data() + first_edge, num_edges);
  if (edges.edge_ids.data() != nullptr)
    block.edge_ids = tensors.over(edges.edge_ids.data() + first_edge, num_edges);
  return block;
}

}  // namespace

Status check_options(
    const NeighborSamplerOptions& options, const std::vector<RelationView>& relations
) {
  GNN_RETURN_IF_ERROR(check_fanouts(options, relations));
  return check_lanes(relations, options.num_edge_types);
}

core::KernelOptions kernel_options(const NeighborSamplerOptions& options) {
  core::KernelOptions kernel;
  kernel.fanout = options.fanout;
  kernel.replace = options.replace;
  kernel.rule = options.rule;
  kernel.with_edge_ids = options.with_edge_ids;
  kernel.sampler_memory_bytes = options.sampler_memory_bytes;
  return kernel;
}

Result<std::vector<std::span<const int64_t>>> checked_seeds(
    const std::vector<at::Tensor>& seeds, const std::vector<int64_t>& num_nodes
) {
  TORCH_CHECK(
      seeds.size() == num_nodes.size(),
      "expected seeds for ",
      num_nodes.size(),
      " node types, found ",
      seeds.size()
  );
  std::vector<std::span<const int64_t>> spans(seeds.size());
  for (size_t type = 0; type < seeds.size(); ++type) {
    if (!seeds[type].defined()) continue;
    TORCH_CHECK(
        seeds[type].dim() == 1 && seeds[type].scalar_type() == at::kLong &&
            seeds[type].is_contiguous() && seeds[type].is_cpu(),
        "seeds must be a contiguous int64 vector on the CPU, found ",
        seeds[type].toString(),
        " of shape ",
        seeds[type].sizes()
    );
    const std::span ids(
        seeds[type].const_data_ptr<int64_t>(), static_cast<size_t>(seeds[type].numel())
    );
    const int64_t bad = data::first_out_of_range(ids, num_nodes[type]);
    if (bad >= 0) {
      return fail(
          ErrorKind::Data,
          "seeds[" + std::to_string(bad) + "]: expected a node in [0, " +
              std::to_string(num_nodes[type]) + "), found " +
              std::to_string(ids[static_cast<size_t>(bad)])
      );
    }
    spans[type] = ids;
  }
  return spans;
}

BatchExclusions::BatchExclusions(const std::vector<ExcludedEdges>& excluded, size_t num_relations)
    : pairs_(excluded.empty() ? 0 : num_relations) {
  for (const ExcludedEdges& edges : excluded) {
    check_excluded(edges, num_relations);
    const auto* const sources = edges.sources.const_data_ptr<int64_t>();
    const auto* const destinations = edges.destinations.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < edges.sources.numel(); ++i)
      pairs_[static_cast<size_t>(edges.relation)].add(sources[i], destinations[i]);
  }
  pointers_.reserve(pairs_.size());
  for (ExcludedPairs& each : pairs_) {
    each.build();
    pointers_.push_back(&each);
  }
}

SampledSubgraph subgraph_over(
    const std::shared_ptr<SampleArena>& arena,
    const NeighborSamplerOptions& options,
    const std::vector<RelationView>& relations
) {
  const ArenaTensors tensors(arena);
  const size_t hops = options.fanout.size();
  SampledSubgraph result;
  for (const SampleArena::NodeList& list : arena->nodes) {
    result.node_ids.push_back(tensors.over(list.ids.data(), list.up_to.back()));
    auto& per_hop = result.nodes_per_hop.emplace_back(list.up_to);
    for (size_t hop = hops; hop > 0; --hop) per_hop[hop] -= per_hop[hop - 1];
    result.num_seeds += list.up_to.front();
  }
  const size_t num_lists =
      options.num_edge_types > 0 ? static_cast<size_t>(options.num_edge_types) : relations.size();
  result.edges_per_hop.assign(num_lists, std::vector<int64_t>(hops));
  result.blocks.assign(hops, std::vector<graph::Block>(num_lists));
  for (size_t type = 0; type < relations.size(); ++type) {
    const size_t list = options.num_edge_types > 0 ? relations[type].lane : type;
    const std::vector<int64_t>& up_to = arena->edges[type].up_to;
    for (size_t hop = 0; hop < hops; ++hop) {
      result.edges_per_hop[list][hop] = up_to[hop + 1] - up_to[hop];
      result.blocks[hops - 1 - hop][list] =
          block_of_hop(*arena, relations[type], type, hop, options.rule, tensors);
    }
  }
  return result;
}

}  // namespace gnn::sampling
