#include "worker/sampling/neighbor.h"

#include "common/recycler.h"
#include "worker/data/gather.h"
#include "worker/sampling/core/neighbor_kernel.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <atomic>
#include <span>
#include <string>
#include <utility>

namespace gnn::sampling {

namespace {

using core::ExcludedPairs;
using core::KernelOptions;
using core::NeighborKernel;
using core::RelationView;
using core::SampleArena;

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

Status check(const NeighborSamplerOptions& options, const std::vector<Relation>& relations) {
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

Status check_ends(const Relation& relation, const std::string& where) {
  if (!relation.ends.defined()) return {};
  const int64_t destinations = relation.graph.num_destinations();
  TORCH_CHECK(
      relation.ends.dim() == 1 && relation.ends.scalar_type() == at::kLong &&
          relation.ends.is_contiguous() && relation.ends.is_cpu(),
      where,
      "ends must be a contiguous int64 vector on the CPU"
  );
  if (relation.ends.numel() != destinations) {
    return fail(
        ErrorKind::Data,
        where + "expected " + std::to_string(destinations) + " ends of neighbour lists, found " +
            std::to_string(relation.ends.numel())
    );
  }
  const auto* const indptr = relation.graph.indptr().const_data_ptr<int64_t>();
  const auto* const ends = relation.ends.const_data_ptr<int64_t>();
  for (int64_t node = 0; node < destinations; ++node) {
    if (ends[node] < indptr[node] || ends[node] > indptr[node + 1]) {
      return fail(
          ErrorKind::Data,
          where + "ends[" + std::to_string(node) + "]: expected a position in [" +
              std::to_string(indptr[node]) + ", " + std::to_string(indptr[node + 1]) + "], found " +
              std::to_string(ends[node])
      );
    }
  }
  return {};
}

// Two relations of one lane would draw alike.
Status check_lanes(const std::vector<Relation>& relations, int64_t num_edge_types) {
  const int64_t limit =
      num_edge_types > 0 ? num_edge_types : static_cast<int64_t>(RelationView::kMaxLanes);
  std::vector<bool> taken;
  for (size_t i = 0; i < relations.size(); ++i) {
    const uint32_t lane = view_of(relations[i], i).lane;
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

Status check(
    const std::vector<int64_t>& num_nodes,
    const std::vector<Relation>& relations,
    int64_t num_edge_types
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
    GNN_RETURN_IF_ERROR(check_ends(relation, where));
  }
  return check_lanes(relations, num_edge_types);
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

// One element per relation, empty where nothing is excluded.
std::vector<ExcludedPairs> by_relation(
    const std::vector<ExcludedEdges>& excluded, size_t num_relations
) {
  std::vector<ExcludedPairs> pairs(excluded.empty() ? 0 : num_relations);
  for (const ExcludedEdges& edges : excluded) {
    check_excluded(edges, num_relations);
    const auto* const sources = edges.sources.const_data_ptr<int64_t>();
    const auto* const destinations = edges.destinations.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < edges.sources.numel(); ++i)
      pairs[static_cast<size_t>(edges.relation)].add(sources[i], destinations[i]);
  }
  for (ExcludedPairs& each : pairs) each.build();
  return pairs;
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

class NeighborSampler::Impl {
 public:
  Impl(
      NeighborSamplerOptions options,
      std::vector<int64_t> num_nodes,
      std::vector<Relation> relations
  )
      : options_(std::move(options)),
        num_nodes_(std::move(num_nodes)),
        relations_(std::move(relations)),
        kernels_([this] { return make_kernel(); }),
        arenas_([] { return std::make_unique<SampleArena>(); }) {
    for (size_t i = 0; i < relations_.size(); ++i) views_.push_back(view_of(relations_[i], i));
  }

  [[nodiscard]] Result<SampledSubgraph> sample(
      const std::vector<at::Tensor>& seeds,
      const core::StreamPosition& position,
      const std::vector<ExcludedEdges>& excluded
  ) {
    TORCH_CHECK(
        seeds.size() == num_nodes_.size(),
        "expected seeds for ",
        num_nodes_.size(),
        " node types, found ",
        seeds.size()
    );
    std::vector<std::span<const int64_t>> spans;
    for (size_t type = 0; type < seeds.size(); ++type) {
      GNN_ASSIGN_OR_RETURN(auto span, checked(seeds[type], type));
      spans.push_back(span);
    }
    const std::vector<ExcludedPairs> pairs = by_relation(excluded, relations_.size());
    std::vector<const ExcludedPairs*> pointers;
    pointers.reserve(pairs.size());
    for (const ExcludedPairs& each : pairs) pointers.push_back(&each);
    std::shared_ptr<SampleArena> arena = arenas_.borrow();
    {
      const std::shared_ptr<NeighborKernel> kernel = kernels_.borrow();
      kernel->sample(spans, position, *arena, pointers);
    }
    return describe(arena);
  }

  [[nodiscard]] const NeighborSamplerOptions& options() const { return options_; }

  [[nodiscard]] int64_t state_bytes_per_thread() const {
    size_t largest = 0;
    kernels_.for_each_idle([&](const NeighborKernel& kernel) {
      largest = std::max(largest, kernel.state_bytes());
    });
    return static_cast<int64_t>(largest);
  }

 private:
  [[nodiscard]] std::unique_ptr<NeighborKernel> make_kernel() const {
    KernelOptions options;
    options.fanout = options_.fanout;
    options.replace = options_.replace;
    options.rule = options_.rule;
    options.with_edge_ids = options_.with_edge_ids;
    options.sampler_memory_bytes = options_.sampler_memory_bytes;
    return std::make_unique<NeighborKernel>(num_nodes_, views_, std::move(options));
  }

  [[nodiscard]] Result<std::span<const int64_t>> checked(const at::Tensor& seeds, size_t type)
      const {
    if (!seeds.defined()) return std::span<const int64_t>();
    TORCH_CHECK(
        seeds.dim() == 1 && seeds.scalar_type() == at::kLong && seeds.is_contiguous() &&
            seeds.is_cpu(),
        "seeds must be a contiguous int64 vector on the CPU, found ",
        seeds.toString(),
        " of shape ",
        seeds.sizes()
    );
    const std::span ids(seeds.const_data_ptr<int64_t>(), static_cast<size_t>(seeds.numel()));
    const int64_t bad = data::first_out_of_range(ids, num_nodes_[type]);
    if (bad >= 0) {
      return fail(
          ErrorKind::Data,
          "seeds[" + std::to_string(bad) + "]: expected a node in [0, " +
              std::to_string(num_nodes_[type]) + "), found " +
              std::to_string(ids[static_cast<size_t>(bad)])
      );
    }
    return ids;
  }

  [[nodiscard]] SampledSubgraph describe(const std::shared_ptr<SampleArena>& arena) const {
    const ArenaTensors tensors(arena);
    const size_t hops = options_.fanout.size();
    SampledSubgraph result;
    for (const SampleArena::NodeList& list : arena->nodes) {
      result.node_ids.push_back(tensors.over(list.ids.data(), list.up_to.back()));
      auto& per_hop = result.nodes_per_hop.emplace_back(list.up_to);
      for (size_t hop = hops; hop > 0; --hop) per_hop[hop] -= per_hop[hop - 1];
      result.num_seeds += list.up_to.front();
    }
    const size_t num_lists = options_.num_edge_types > 0
                                 ? static_cast<size_t>(options_.num_edge_types)
                                 : relations_.size();
    result.edges_per_hop.assign(num_lists, std::vector<int64_t>(hops));
    result.blocks.assign(hops, std::vector<graph::Block>(num_lists));
    for (size_t type = 0; type < relations_.size(); ++type) {
      const size_t list = options_.num_edge_types > 0 ? views_[type].lane : type;
      const std::vector<int64_t>& up_to = arena->edges[type].up_to;
      for (size_t hop = 0; hop < hops; ++hop) {
        result.edges_per_hop[list][hop] = up_to[hop + 1] - up_to[hop];
        result.blocks[hops - 1 - hop][list] =
            block_of_hop(*arena, views_[type], type, hop, options_.rule, tensors);
      }
    }
    return result;
  }

  const NeighborSamplerOptions options_;
  const std::vector<int64_t> num_nodes_;
  const std::vector<Relation> relations_;  // keeps the views' arrays alive
  std::vector<RelationView> views_;
  Recycler<NeighborKernel> kernels_;
  Recycler<SampleArena> arenas_;
};

Result<NeighborSampler> NeighborSampler::create(
    NeighborSamplerOptions options, const graph::CscGraph& graph
) {
  if (graph.num_sources() != graph.num_destinations()) {
    return fail(
        ErrorKind::Data,
        "a graph of one node type must have as many sources as destinations, found " +
            std::to_string(graph.num_sources()) + " and " + std::to_string(graph.num_destinations())
    );
  }
  return create(std::move(options), {graph.num_sources()}, {Relation{.graph = graph}});
}

Result<NeighborSampler> NeighborSampler::create(
    NeighborSamplerOptions options, std::vector<int64_t> num_nodes, std::vector<Relation> relations
) {
  GNN_RETURN_IF_ERROR(check(options, relations));
  GNN_RETURN_IF_ERROR(check(num_nodes, relations, options.num_edge_types));
  return NeighborSampler(
      std::make_shared<Impl>(std::move(options), std::move(num_nodes), std::move(relations))
  );
}

Result<SampledSubgraph> NeighborSampler::sample(
    const at::Tensor& seeds, const core::StreamPosition& position
) const {
  return impl_->sample({seeds}, position, {});
}

Result<SampledSubgraph> NeighborSampler::sample(
    const std::vector<at::Tensor>& seeds,
    const core::StreamPosition& position,
    const std::vector<ExcludedEdges>& excluded
) const {
  return impl_->sample(seeds, position, excluded);
}

const NeighborSamplerOptions& NeighborSampler::options() const {
  return impl_->options();
}

int64_t NeighborSampler::state_bytes_per_thread() const {
  return impl_->state_bytes_per_thread();
}

}  // namespace gnn::sampling
