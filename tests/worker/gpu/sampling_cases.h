#pragma once

#include "common/result.h"
#include "tests/worker/sampling/random_graph.h"
#include "worker/sampling/core/drawn_lists.h"
#include "worker/sampling/core/excluded_pairs.h"
#include "worker/sampling/core/hop_draw.h"
#include "worker/sampling/core/neighbor_kernel.h"
#include "worker/sampling/core/rng.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gnn::gpu {

/// A sampled batch as plain lists, so that a difference is printed.
struct SampledLists {
  std::vector<std::vector<int64_t>> ids;
  std::vector<std::vector<int64_t>> nodes_up_to;
  std::vector<std::vector<int64_t>> indptr;
  std::vector<std::vector<int64_t>> indptr_at;
  std::vector<std::vector<int32_t>> indices;
  std::vector<std::vector<int64_t>> edge_ids;
  std::vector<std::vector<int64_t>> edges_up_to;

  friend bool operator==(const SampledLists&, const SampledLists&) = default;
};

inline void PrintTo(const SampledLists& lists, std::ostream* out) {
  const auto print = [out](const char* name, const auto& all) {
    for (const auto& list : all) {
      *out << "\n  " << name << ":";
      for (size_t i = 0; i < std::min<size_t>(list.size(), 40); ++i) *out << ' ' << list[i];
      if (list.size() > 40) *out << " ... (" << list.size() << ")";
    }
  };
  print("ids", lists.ids);
  print("nodes up to", lists.nodes_up_to);
  print("indptr", lists.indptr);
  print("indptr at", lists.indptr_at);
  print("indices", lists.indices);
  print("edge ids", lists.edge_ids);
  print("edges up to", lists.edges_up_to);
}

/// How much a relation has.
struct ListSizes {
  size_t lists = 0;
  size_t edges = 0;
};

/// A graph, and what is sampled of it.
struct SamplingCase {
  std::string name;
  std::vector<int64_t> num_nodes;
  std::vector<sampling::RandomGraph> graphs;         // per relation, as are the next three
  std::vector<std::vector<int32_t>> narrow_indices;  // empty: the relation has int64
  std::vector<std::vector<int64_t>> ends;            // empty: all is visible
  std::vector<std::vector<int64_t>> edge_ids;        // empty: the positions
  std::vector<int> source_types;
  std::vector<int> destination_types;
  std::vector<std::vector<int64_t>> fanouts;            // per relation; empty: those of the options
  std::vector<sampling::core::ExcludedPairs> excluded;  // per relation; none: nothing is
  sampling::core::KernelOptions options;
  std::vector<std::vector<int64_t>> seeds;

  [[nodiscard]] std::vector<sampling::core::RelationView> relations() const {
    std::vector<sampling::core::RelationView> views;
    for (size_t i = 0; i < graphs.size(); ++i) {
      const bool narrow = !narrow_indices[i].empty();
      views.push_back(
          {.indptr = graphs[i].indptr.data(),
           .ends = ends[i].empty() ? nullptr : ends[i].data(),
           .indices32 = narrow ? narrow_indices[i].data() : nullptr,
           .indices64 = narrow ? nullptr : graphs[i].indices.data(),
           .edge_ids = edge_ids[i].empty() ? nullptr : edge_ids[i].data(),
           .source_type = source_types[i],
           .destination_type = destination_types[i],
           .lane = static_cast<uint32_t>(i),
           .fanout = fanouts[i]}
      );
    }
    return views;
  }

  [[nodiscard]] std::vector<ListSizes> sizes() const {
    std::vector<ListSizes> sizes;
    for (const sampling::RandomGraph& graph : graphs)
      sizes.push_back({.lists = graph.indptr.size() - 1, .edges = graph.indices.size()});
    return sizes;
  }

  [[nodiscard]] std::vector<std::span<const int64_t>> seed_spans() const {
    return {seeds.begin(), seeds.end()};
  }

  [[nodiscard]] std::vector<const sampling::core::ExcludedPairs*> excluded_pairs() const {
    std::vector<const sampling::core::ExcludedPairs*> pointers;
    for (const auto& each : excluded) pointers.push_back(each.empty() ? nullptr : &each);
    return pointers;
  }

  /// Excludes edges of a relation, given by their places in its graph, and those parallel to them.
  void exclude(size_t relation, std::span<const int64_t> edges) {
    excluded.resize(graphs.size());
    const sampling::RandomGraph& graph = graphs[relation];
    for (const int64_t edge : edges) {
      const auto next = std::upper_bound(graph.indptr.begin(), graph.indptr.end(), edge);
      excluded[relation].add(
          graph.indices[static_cast<size_t>(edge)], next - graph.indptr.begin() - 1
      );
    }
    excluded[relation].build();
  }

  /// `Batch`: core::SampleArena, or SampledBatch, whose members have the same names; `read(data, size)`
  /// makes a vector of an array of it.
  template <class Batch, class Read>
  [[nodiscard]] SampledLists lists_of(const Batch& batch, const Read& read) const {
    SampledLists lists;
    for (const auto& nodes : batch.nodes) {
      lists.ids.push_back(read(nodes.ids, nodes.up_to.back()));
      lists.nodes_up_to.push_back(nodes.up_to);
    }
    for (size_t i = 0; i < batch.edges.size(); ++i) {
      const auto& edges = batch.edges[i];
      const auto& known = batch.nodes[static_cast<size_t>(destination_types[i])].up_to;
      const int64_t last = options.rule == sampling::core::SamplingRule::AllSeen
                               ? edges.indptr_at.back()
                               : int64_t{0};
      lists.indptr.push_back(read(edges.indptr, last + known[known.size() - 2] + 1));
      lists.indptr_at.push_back(edges.indptr_at);
      lists.edges_up_to.push_back(edges.up_to);
      lists.indices.push_back(read(edges.indices, edges.up_to.back()));
      if (options.with_edge_ids) lists.edge_ids.push_back(read(edges.edge_ids, edges.up_to.back()));
    }
    return lists;
  }

  /// The batch as core::NeighborKernel samples it.
  [[nodiscard]] SampledLists by_the_cpu(const sampling::core::StreamPosition& position) const {
    sampling::core::NeighborKernel kernel(num_nodes, relations(), options);
    sampling::core::SampleArena arena;
    kernel.sample(seed_spans(), position, arena, excluded_pairs());
    return lists_of(arena, [](const auto& buffer, int64_t size) {
      return size == 0 ? decltype(std::vector(&buffer[0], &buffer[0])){}
                       : std::vector(&buffer[0], &buffer[0] + size);
    });
  }

  void add_relation(int source, int destination, int64_t mean_degree, uint64_t seed) {
    const auto number_of = [this](int type) { return num_nodes[static_cast<size_t>(type)]; };
    graphs.emplace_back(number_of(destination), number_of(source), mean_degree, seed);
    source_types.push_back(source);
    destination_types.push_back(destination);
    narrow_indices.emplace_back();
    ends.emplace_back();
    edge_ids.emplace_back();
    fanouts.emplace_back();
  }
};

/// A case whose nodes are dealt to four parts, of which one has none: what each part has of the lists, and
/// draws for the others.
class PartsOfCase {
 public:
  static constexpr size_t kParts = 4;

  explicit PartsOfCase(const SamplingCase& whole) : whole_(whole), views_(whole.relations()) {
    for (const int64_t nodes : whole.num_nodes)
      cuts_.push_back({0, nodes / 5, nodes / 5, nodes / 2, nodes});
    for (size_t part = 0; part < kParts; ++part) {
      for (size_t relation = 0; relation < views_.size(); ++relation)
        lists_.push_back(cut_out(relation, part));
    }
  }

  /// The lists of a part's own nodes, and nothing else.
  [[nodiscard]] std::vector<sampling::core::RelationView> relations(size_t part) const {
    std::vector<sampling::core::RelationView> views = views_;
    for (size_t i = 0; i < views.size(); ++i) {
      const Lists& own = lists_[part * views.size() + i];
      views[i].indptr = own.indptr.data();
      views[i].ends = views[i].ends == nullptr ? nullptr : own.ends.data();
      views[i].indices32 = views[i].indices32 == nullptr ? nullptr : own.narrow.data();
      views[i].indices64 = views[i].indices64 == nullptr ? nullptr : own.indices.data();
      views[i].edge_ids = own.edge_ids.data();
      views[i].first_node = cuts_of(i)[part];
    }
    return views;
  }

  [[nodiscard]] std::vector<ListSizes> sizes(size_t part) const {
    std::vector<ListSizes> sizes;
    for (size_t i = 0; i < views_.size(); ++i) {
      const Lists& own = lists_[part * views_.size() + i];
      sizes.push_back({.lists = own.indptr.size() - 1, .edges = own.indices.size()});
    }
    return sizes;
  }

  /// Has `sampler` (NeighborSteps, or gpu::NeighborSampler), whose relations are those of a part, do the
  /// first hops of a batch that is begun.
  template <class HopByHop>
  [[nodiscard]] Status add_hops(
      HopByHop& sampler, size_t part, const sampling::core::StreamPosition& position, size_t hops
  ) const {
    for (size_t hop = 0; hop < hops; ++hop) {
      std::vector<Dealt> dealt(views_.size());
      std::vector<sampling::core::DrawnLists> drawn;
      for (size_t relation = 0; relation < views_.size(); ++relation) {
        dealt[relation] = deal(sampler.destinations(relation), relation, hop, part, position);
        drawn.push_back({.pieces = dealt[relation].pieces, .owners = dealt[relation].owners});
      }
      GNN_RETURN_IF_ERROR(sampler.add_hop(drawn));
    }
    return {};
  }

 private:
  struct Lists {
    std::vector<int64_t> indptr;
    std::vector<int64_t> ends;
    std::vector<int32_t> narrow;
    std::vector<int64_t> indices;
    std::vector<int64_t> edge_ids;
  };
  struct Dealt {
    std::vector<int32_t> owners;
    std::vector<sampling::core::DrawnHop> drawn = std::vector<sampling::core::DrawnHop>(kParts);
    std::vector<sampling::core::DrawnPiece> pieces =
        std::vector<sampling::core::DrawnPiece>(kParts);
  };

  [[nodiscard]] const std::vector<int64_t>& cuts_of(size_t relation) const {
    return cuts_[static_cast<size_t>(whole_.destination_types[relation])];
  }

  [[nodiscard]] Lists cut_out(size_t relation, size_t part) const {
    const sampling::RandomGraph& graph = whole_.graphs[relation];
    const std::vector<int64_t>& ends = whole_.ends[relation];
    const int64_t first = cuts_of(relation)[part];
    const int64_t begin = graph.indptr[static_cast<size_t>(first)];
    Lists lists;
    lists.indptr.push_back(0);
    for (int64_t node = first; node < cuts_of(relation)[part + 1]; ++node) {
      lists.indptr.push_back(graph.indptr[static_cast<size_t>(node) + 1] - begin);
      if (!ends.empty()) lists.ends.push_back(ends[static_cast<size_t>(node)] - begin);
    }
    for (int64_t edge = begin; edge < begin + lists.indptr.back(); ++edge) {
      const auto at = static_cast<size_t>(edge);
      lists.indices.push_back(graph.indices[at]);
      lists.narrow.push_back(static_cast<int32_t>(graph.indices[at]));
      const std::vector<int64_t>& ids = whole_.edge_ids[relation];
      lists.edge_ids.push_back(ids.empty() ? edge : ids[at]);
    }
    return lists;
  }

  [[nodiscard]] Dealt deal(
      std::span<const int64_t> nodes,
      size_t relation,
      size_t hop,
      size_t own,
      const sampling::core::StreamPosition& position
  ) const {
    Dealt dealt;
    std::vector<std::vector<int64_t>> asked(kParts);
    const std::vector<int64_t>& cuts = cuts_of(relation);
    for (const int64_t node : nodes) {
      const auto owner =
          static_cast<size_t>(std::upper_bound(cuts.begin(), cuts.end(), node) - cuts.begin() - 1);
      dealt.owners.push_back(static_cast<int32_t>(owner));
      asked[owner].push_back(node);
    }
    const sampling::core::RelationView& view = views_[relation];
    const int64_t fanout = view.fanout.empty() ? whole_.options.fanout[hop] : view.fanout[hop];
    sampling::core::HopDraw draw(fanout, whole_.options.replace);
    for (size_t part = 0; part < kParts; ++part) {
      if (part == own || asked[part].empty()) continue;
      draw.draw(
          view,
          {.hop = hop,
           .fanout = fanout,
           .replace = whole_.options.replace,
           .key = sampling::core::draw_key(position, whole_.options.rule)},
          asked[part],
          whole_.options.with_edge_ids,
          dealt.drawn[part]
      );
      dealt.pieces[part] = dealt.drawn[part].piece();
    }
    return dealt;
  }

  const SamplingCase& whole_;
  std::vector<sampling::core::RelationView> views_;
  std::vector<std::vector<int64_t>> cuts_;  // by node type
  std::vector<Lists> lists_;                // by part and relation
};

/// Draws the parts of a case.
class CaseMaker {
 public:
  explicit CaseMaker(uint64_t seed)
      : seed_(seed), random_({static_cast<uint32_t>(seed), 42}, 0, 0) {}

  /// Anything: typed or not, either rule, with and without replacement, any fan-outs.
  [[nodiscard]] SamplingCase any() {
    SamplingCase each;
    each.name = "any " + std::to_string(seed_);
    const auto types = static_cast<int>(1 + below(3));
    for (int type = 0; type < types; ++type)
      each.num_nodes.push_back(static_cast<int64_t>(1 + below(200)));
    const uint64_t relations = types == 1 ? 1 : 1 + below(4);
    for (uint64_t i = 0; i < relations; ++i) {
      each.add_relation(
          static_cast<int>(below(static_cast<uint64_t>(types))),
          static_cast<int>(below(static_cast<uint64_t>(types))),
          static_cast<int64_t>(1 + below(5)),
          seed_ * 10 + i
      );
      vary_relation(each);
    }
    const uint64_t hops = 1 + below(3);
    for (uint64_t hop = 0; hop < hops; ++hop) each.options.fanout.push_back(any_fanout());
    if (below(4) == 0) {
      for (uint64_t hop = 0; hop < hops; ++hop) each.fanouts.back().push_back(any_fanout());
    }
    each.options.replace = below(3) == 0;
    each.options.rule = below(2) == 0 ? sampling::core::SamplingRule::NewNodes
                                      : sampling::core::SamplingRule::AllSeen;
    each.options.with_edge_ids = below(2) == 0;
    if (below(2) == 0) each.options.sampler_memory_bytes = 0;
    for (const int64_t count : each.num_nodes) each.seeds.push_back(some_nodes(below(12), count));
    if (below(2) == 0) exclude_some(each);
    return each;
  }

  [[nodiscard]] std::vector<int64_t> some_nodes(uint64_t count, int64_t num_nodes) {
    std::vector<int64_t> nodes(count);
    for (int64_t& node : nodes)
      node = static_cast<int64_t>(below(static_cast<uint64_t>(num_nodes)));
    return nodes;
  }

 private:
  uint64_t below(uint64_t bound) { return random_.below(bound); }

  [[nodiscard]] int64_t any_fanout() {
    static constexpr int64_t kFanouts[] = {0, 1, 2, 3, 5, 8, -1, 33};
    return kFanouts[below(std::size(kFanouts))];
  }

  // Up to all edges of some relations.
  void exclude_some(SamplingCase& each) {
    for (size_t relation = 0; relation < each.graphs.size(); ++relation) {
      const auto edges = static_cast<int64_t>(each.graphs[relation].indices.size());
      if (edges == 0 || below(3) == 0) continue;
      each.exclude(relation, some_nodes(below(static_cast<uint64_t>(edges) + 1), edges));
    }
  }

  void vary_relation(SamplingCase& each) {
    const sampling::RandomGraph& graph = each.graphs.back();
    if (below(2) == 0)
      each.narrow_indices.back().assign(graph.indices.begin(), graph.indices.end());
    if (below(3) == 0) {
      for (size_t node = 0; node + 1 < graph.indptr.size(); ++node) {
        const int64_t degree = graph.indptr[node + 1] - graph.indptr[node];
        each.ends.back().push_back(
            graph.indptr[node] + static_cast<int64_t>(below(static_cast<uint64_t>(degree) + 1))
        );
      }
    }
    if (below(2) == 0) {
      for (size_t i = 0; i < graph.indices.size(); ++i)
        each.edge_ids.back().push_back(static_cast<int64_t>(below(uint64_t{1} << 40)));
    }
  }

  uint64_t seed_;
  sampling::core::CounterRng random_;
};

/// One node type and relation.
[[nodiscard]] inline SamplingCase homogeneous_case(
    std::string name, int64_t num_nodes, int64_t mean_degree, std::vector<int64_t> fanout
) {
  SamplingCase each;
  each.name = std::move(name);
  each.num_nodes = {num_nodes};
  each.add_relation(0, 0, mean_degree, 7);
  each.options.fanout = std::move(fanout);
  each.seeds = {CaseMaker(3).some_nodes(10, num_nodes)};
  return each;
}

/// What trips samplers, by name.
[[nodiscard]] inline std::vector<SamplingCase> named_cases() {
  std::vector<SamplingCase> cases;
  cases.push_back(homogeneous_case("no seed", 100, 4, {3, 2}));
  cases.back().seeds = {{}};
  cases.push_back(homogeneous_case("one seed", 100, 4, {3, 2}));
  cases.back().seeds = {{17}};
  cases.push_back(homogeneous_case("a seed five times", 100, 4, {3, 2}));
  cases.back().seeds = {{8, 5, 8, 8, 9, 8, 8}};
  cases.push_back(homogeneous_case("a seed without edges", 100, 4, {3, 2}));
  cases.back().seeds = {{3}};
  cases.push_back(homogeneous_case("no neighbours wanted", 100, 4, {0, 0}));
  cases.push_back(homogeneous_case("all neighbours", 100, 4, {-1, -1}));
  // Nodes 10, 60, ... have 40 times the mean degree: 480, which a draw of 40 takes from, and one of 130 shuffles.
  cases.push_back(homogeneous_case("wide draws from long lists", 120, 12, {40}));
  cases.back().seeds = {{10, 60, 1, 10, 2}};
  cases.push_back(homogeneous_case("wide draws from short lists", 120, 12, {130}));
  cases.back().seeds = {{10, 60, 1, 2}};
  cases.push_back(homogeneous_case("wide draws with replacement", 120, 12, {40}));
  cases.back().seeds = {{10, 3, 1, 2}};
  cases.back().options.replace = true;
  cases.push_back(homogeneous_case("a list of 4000", 120, 100, {-1, 2}));
  cases.back().seeds = {{1, 3, 10, 2}};
  // Nearly each draw has an edge, or several parallel ones, that the batch must not have.
  for (const int64_t fanout : {int64_t{-1}, int64_t{5}, int64_t{40}}) {
    const std::string name = "excluded of " + std::to_string(fanout);
    cases.push_back(homogeneous_case(name, 30, 20, {fanout, fanout}));
    const auto edges = static_cast<int64_t>(cases.back().graphs[0].indices.size());
    cases.back().exclude(0, CaseMaker(4).some_nodes(100, edges));
    cases.back().options.with_edge_ids = true;
  }
  cases.push_back(homogeneous_case("every edge excluded", 30, 3, {-1, 2}));
  std::vector<int64_t> edges(cases.back().graphs[0].indices.size());
  std::iota(edges.begin(), edges.end(), 0);
  cases.back().exclude(0, edges);
  cases.push_back(homogeneous_case("no edges", 100, 0, {3, -1}));
  cases.push_back(homogeneous_case("more wanted than there are", 100, 4, {200, 1000}));
  for (const int64_t fanout : {5, 40}) {
    cases.push_back(homogeneous_case("a list of a million", 12, 25'000, {fanout}));
    cases.back().seeds = {{10}};
  }
  SamplingCase empty_type;
  empty_type.name = "a type without nodes";
  empty_type.num_nodes = {0, 60};
  empty_type.add_relation(0, 1, 0, 1);
  empty_type.add_relation(1, 0, 3, 2);
  empty_type.add_relation(1, 1, 3, 3);
  empty_type.options.fanout = {4, -1};
  empty_type.seeds = {{}, {1, 2, 4, 4}};
  cases.push_back(empty_type);
  // Ids at the bounds of words, and such as take more than 32 bits, of a type that has no lists.
  for (const int bits : {31, 32, 40}) {
    SamplingCase high;
    high.name = "ids of " + std::to_string(bits) + " bits";
    const int64_t bound = int64_t{1} << bits;
    high.num_nodes = {50, bound + 1};
    high.add_relation(1, 0, 6, 1);
    high.options.fanout = {4};
    high.seeds = {{1, 2, 4, 4}, {bound, bound - 1, 5}};
    cases.push_back(high);
  }
  return cases;
}

}  // namespace gnn::gpu
