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
  [[nodiscard]] at::Tensor operator()(const Buffer<T>& array, int64_t count) const {
    const auto options = at::TensorOptions().dtype(c10::CppTypeToScalarType<T>::value);
    if (count == 0) return at::empty({0}, options);
    return at::from_blob(array.data(), {count}, [arena = arena_](void*) {}, options);
  }

 private:
  std::shared_ptr<SampleArena> arena_;
};

// The block of the layer that hop `hop` feeds.
graph::Block block_of_hop(
    const BatchArrays& arrays,
    const RelationView& relation,
    size_t place,
    size_t hop,
    SamplingRule rule
) {
  const BatchArrays::Edges& edges = arrays.edges[place];
  const auto& destinations = arrays.nodes[static_cast<size_t>(relation.destination_type)].up_to;
  const auto& sources = arrays.nodes[static_cast<size_t>(relation.source_type)].up_to;
  const int64_t first_edge = rule == SamplingRule::NewNodes ? 0 : edges.up_to[hop];
  const int64_t num_edges = edges.up_to[hop + 1] - first_edge;
  graph::Block block;
  block.num_destinations = destinations[hop];
  block.num_sources = sources[hop + 1];
  block.indptr = edges.indptr.narrow(0, edges.indptr_at[hop], block.num_destinations + 1);
  block.indices = edges.indices.narrow(0, first_edge, num_edges);
  if (edges.edge_ids.defined()) block.edge_ids = edges.edge_ids.narrow(0, first_edge, num_edges);
  return block;
}

}  // namespace

Status check_options(
    const NeighborSamplerOptions& options, const std::vector<RelationView>& relations
) {
  GNN_RETURN_IF_ERROR(check_fanouts(options, relations));
  return check_lanes(relations, options.num_edge_types);
}

RelationView view_of(const Relation& relation, size_t place) {
  RelationView view;
  view.indptr = relation.graph.indptr().const_data_ptr<int64_t>();
  if (relation.graph.indices().scalar_type() == at::kInt) {
    view.indices32 = relation.graph.indices().const_data_ptr<int32_t>();
  } else {
    view.indices64 = relation.graph.indices().const_data_ptr<int64_t>();
  }
  if (relation.graph.edge_ids().defined())
    view.edge_ids = relation.graph.edge_ids().const_data_ptr<int64_t>();
  view.source_type = static_cast<int>(relation.source_type);
  view.destination_type = static_cast<int>(relation.destination_type);
  if (relation.ends.defined()) view.ends = relation.ends.const_data_ptr<int64_t>();
  view.lane =
      static_cast<uint32_t>(relation.lane < 0 ? static_cast<int64_t>(place) : relation.lane);
  view.fanout = relation.fanout;
  return view;
}

Status check_ends(
    const at::Tensor& indptr,
    const at::Tensor& ends,
    const data::IdRange& lists,
    const std::string& where
) {
  if (!ends.defined()) return {};
  TORCH_CHECK(
      ends.dim() == 1 && ends.scalar_type() == at::kLong && ends.is_contiguous() && ends.is_cpu(),
      where,
      "ends must be a contiguous int64 vector on the CPU"
  );
  if (ends.numel() != indptr.numel() - 1) {
    return fail(
        ErrorKind::Data,
        where + "expected " + std::to_string(indptr.numel() - 1) +
            " ends of neighbour lists, found " + std::to_string(ends.numel())
    );
  }
  const auto* const begin_of = indptr.const_data_ptr<int64_t>();
  const auto* const end_of = ends.const_data_ptr<int64_t>();
  for (int64_t list = lists.begin; list < lists.end; ++list) {
    if (end_of[list] >= begin_of[list] && end_of[list] <= begin_of[list + 1]) continue;
    return fail(
        ErrorKind::Data,
        where + "ends[" + std::to_string(list) + "]: expected a position in [" +
            std::to_string(begin_of[list]) + ", " + std::to_string(begin_of[list + 1]) +
            "], found " + std::to_string(end_of[list])
    );
  }
  return {};
}

Status check_relations(
    const std::vector<int64_t>& num_nodes, const std::vector<Relation>& relations
) {
  const auto num_types = static_cast<int64_t>(num_nodes.size());
  for (size_t i = 0; i < relations.size(); ++i) {
    const Relation& relation = relations[i];
    const std::string where = "relation " + std::to_string(i) + ": ";
    for (const int64_t type : {relation.source_type, relation.destination_type}) {
      if (type < 0 || type >= num_types) {
        return fail(
            ErrorKind::Data,
            where + "node type " + std::to_string(type) + " is not one of " +
                std::to_string(num_types)
        );
      }
    }
    const int64_t sources = num_nodes[static_cast<size_t>(relation.source_type)];
    const int64_t destinations = num_nodes[static_cast<size_t>(relation.destination_type)];
    if (relation.graph.num_sources() != sources ||
        relation.graph.num_destinations() != destinations) {
      return fail(
          ErrorKind::Data,
          where + "expected " + std::to_string(sources) + " source and " +
              std::to_string(destinations) + " destination nodes, found " +
              std::to_string(relation.graph.num_sources()) + " and " +
              std::to_string(relation.graph.num_destinations())
      );
    }
    const data::IdRange all{.begin = 0, .end = relation.graph.num_destinations()};
    GNN_RETURN_IF_ERROR(check_ends(relation.graph.indptr(), relation.ends, all, where));
  }
  return {};
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

SampledSubgraph subgraph_in(
    const BatchArrays& arrays,
    const NeighborSamplerOptions& options,
    const std::vector<RelationView>& relations
) {
  const size_t hops = options.fanout.size();
  SampledSubgraph result;
  for (const BatchArrays::Nodes& nodes : arrays.nodes) {
    result.node_ids.push_back(nodes.ids);
    auto& per_hop = result.nodes_per_hop.emplace_back(nodes.up_to);
    for (size_t hop = hops; hop > 0; --hop) per_hop[hop] -= per_hop[hop - 1];
    result.num_seeds += nodes.up_to.front();
  }
  const size_t num_lists =
      options.num_edge_types > 0 ? static_cast<size_t>(options.num_edge_types) : relations.size();
  result.edges_per_hop.assign(num_lists, std::vector<int64_t>(hops));
  result.blocks.assign(hops, std::vector<graph::Block>(num_lists));
  for (size_t place = 0; place < relations.size(); ++place) {
    const size_t list = options.num_edge_types > 0 ? relations[place].lane : place;
    const std::vector<int64_t>& up_to = arrays.edges[place].up_to;
    for (size_t hop = 0; hop < hops; ++hop) {
      result.edges_per_hop[list][hop] = up_to[hop + 1] - up_to[hop];
      result.blocks[hops - 1 - hop][list] =
          block_of_hop(arrays, relations[place], place, hop, options.rule);
    }
  }
  return result;
}

SampledSubgraph subgraph_over(
    const std::shared_ptr<SampleArena>& arena,
    const NeighborSamplerOptions& options,
    const std::vector<RelationView>& relations
) {
  return subgraph_in(
      arrays_of(*arena, options, relations, ArenaTensors(arena)), options, relations
  );
}

}  // namespace gnn::sampling
