#include "worker/sampling/core/neighbor_kernel.h"

#include "tests/worker/sampling/core/chi_square.h"
#include "tests/worker/sampling/random_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gnn::sampling::core {
namespace {

struct TypedGraph {
  std::vector<int64_t> num_nodes;
  std::vector<RandomGraph> edges;
  std::vector<RelationView> relations;
};

TypedGraph one_type(int64_t num_nodes, int64_t mean_degree, uint64_t seed = 1) {
  TypedGraph graph;
  graph.num_nodes = {num_nodes};
  graph.edges.emplace_back(num_nodes, num_nodes, mean_degree, seed);
  graph.relations.push_back(
      {.indptr = graph.edges[0].indptr.data(), .indices64 = graph.edges[0].indices.data()}
  );
  return graph;
}

TypedGraph two_types() {
  TypedGraph graph;
  graph.num_nodes = {300, 200};
  graph.edges.reserve(3);
  graph.edges.emplace_back(300, 200, 4, 1);  // items into users
  graph.edges.emplace_back(200, 300, 6, 2);  // users into items
  graph.edges.emplace_back(200, 200, 3, 3);  // items into items
  const std::vector<std::pair<int, int>> types{{1, 0}, {0, 1}, {1, 1}};
  for (size_t i = 0; i < 3; ++i) {
    RelationView view;
    view.indptr = graph.edges[i].indptr.data();
    view.indices64 = graph.edges[i].indices.data();
    view.source_type = types[i].first;
    view.destination_type = types[i].second;
    view.lane = static_cast<uint32_t>(i);
    graph.relations.push_back(view);
  }
  return graph;
}

// One hop of one relation as the slow and obvious program gives it.
struct HopEdges {
  std::vector<int64_t> degrees;  // per expanded node
  std::vector<int64_t> sources;  // local ids
  std::vector<int64_t> edge_ids;
  bool operator==(const HopEdges&) const = default;
};

struct Sample {
  std::vector<std::vector<int64_t>> nodes;   // per type
  std::vector<std::vector<int64_t>> up_to;   // per type
  std::vector<std::vector<HopEdges>> edges;  // per relation, per hop
  bool operator==(const Sample&) const = default;
};

using Pairs = std::set<std::pair<int64_t, int64_t>>;  // source, destination

Sample brute_force(
    const TypedGraph& graph,
    const KernelOptions& options,
    const std::vector<std::vector<int64_t>>& seeds,
    const StreamPosition& position,
    const std::vector<Pairs>& excluded = {}
) {
  Sample sample;
  sample.nodes = seeds;
  sample.edges.resize(graph.relations.size());
  std::vector<std::unordered_map<int64_t, int64_t>> local(seeds.size());
  for (size_t type = 0; type < seeds.size(); ++type) {
    for (size_t i = 0; i < seeds[type].size(); ++i) local[type].try_emplace(seeds[type][i], i);
    sample.up_to.push_back({static_cast<int64_t>(seeds[type].size())});
  }
  const auto key = derive_key(
      position,
      options.rule == SamplingRule::AllSeen ? StreamPurpose::AllSeen : StreamPurpose::NewNodes
  );
  for (size_t hop = 0; hop < options.fanout.size(); ++hop) {
    for (size_t r = 0; r < graph.relations.size(); ++r) {
      const RelationView& relation = graph.relations[r];
      const auto destination = static_cast<size_t>(relation.destination_type);
      const auto source = static_cast<size_t>(relation.source_type);
      HopEdges& edges = sample.edges[r].emplace_back();
      const size_t first = options.rule == SamplingRule::AllSeen || hop == 0
                               ? 0
                               : static_cast<size_t>(sample.up_to[destination][hop - 1]);
      for (size_t i = first; i < static_cast<size_t>(sample.up_to[destination][hop]); ++i) {
        const int64_t node = sample.nodes[destination][i];
        const int64_t begin = relation.indptr[node];
        const int64_t degree =
            (relation.ends != nullptr ? relation.ends[node] : relation.indptr[node + 1]) - begin;
        const int64_t fanout = (relation.fanout.empty() ? options.fanout : relation.fanout)[hop];
        std::vector<int64_t> chosen;
        const CounterRng rng(
            key, static_cast<uint32_t>(hop) | relation.lane << 8, static_cast<uint64_t>(node)
        );
        if (fanout >= 0 && options.replace && degree > 0) {
          chosen.resize(static_cast<size_t>(fanout));
          NeighborDraw::with_replacement(rng, degree, fanout, begin, chosen.data());
        } else if (fanout < 0 || degree <= fanout) {
          for (int64_t e = 0; e < degree; ++e) chosen.push_back(begin + e);
        } else {
          chosen.resize(static_cast<size_t>(fanout));
          NeighborDraw(fanout).distinct(rng, degree, fanout, begin, chosen.data());
        }
        if (!excluded.empty()) {
          std::erase_if(chosen, [&](int64_t e) {
            return excluded[r].contains({relation.indices64[e], node});
          });
        }
        edges.degrees.push_back(static_cast<int64_t>(chosen.size()));
        for (const int64_t e : chosen) {
          const auto [place, is_new] = local[source].try_emplace(
              relation.indices64[e], static_cast<int64_t>(sample.nodes[source].size())
          );
          if (is_new) sample.nodes[source].push_back(relation.indices64[e]);
          edges.sources.push_back(place->second);
          edges.edge_ids.push_back(relation.edge_ids == nullptr ? e : relation.edge_ids[e]);
        }
      }
    }
    for (size_t type = 0; type < seeds.size(); ++type) {
      sample.up_to[type].push_back(static_cast<int64_t>(sample.nodes[type].size()));
    }
  }
  return sample;
}

Sample read(const TypedGraph& graph, const KernelOptions& options, const SampleArena& arena) {
  Sample sample;
  for (const auto& list : arena.nodes) {
    sample.nodes.emplace_back(list.ids.data(), list.ids.data() + list.up_to.back());
    sample.up_to.push_back(list.up_to);
  }
  for (size_t r = 0; r < graph.relations.size(); ++r) {
    const auto& list = arena.edges[r];
    const auto& destinations =
        sample.up_to[static_cast<size_t>(graph.relations[r].destination_type)];
    auto& hops = sample.edges.emplace_back();
    for (size_t hop = 0; hop < options.fanout.size(); ++hop) {
      HopEdges& edges = hops.emplace_back();
      const int64_t first =
          options.rule == SamplingRule::AllSeen || hop == 0 ? 0 : destinations[hop - 1];
      for (int64_t row = first; row < destinations[hop]; ++row) {
        const int64_t* offset = list.indptr.data() + list.indptr_at[hop] + row;
        edges.degrees.push_back(offset[1] - offset[0]);
      }
      edges.sources.assign(
          list.indices.data() + list.up_to[hop], list.indices.data() + list.up_to[hop + 1]
      );
      edges.edge_ids.assign(
          list.edge_ids.data() + list.up_to[hop], list.edge_ids.data() + list.up_to[hop + 1]
      );
    }
  }
  return sample;
}

Sample run(
    NeighborKernel& kernel,
    const TypedGraph& graph,
    const KernelOptions& options,
    const std::vector<std::vector<int64_t>>& seeds,
    const StreamPosition& position,
    SampleArena& arena
) {
  const std::vector<std::span<const int64_t>> spans(seeds.begin(), seeds.end());
  kernel.sample(spans, position, arena);
  return read(graph, options, arena);
}

KernelOptions options_of(std::vector<int64_t> fanout, bool replace, SamplingRule rule) {
  KernelOptions options;
  options.fanout = std::move(fanout);
  options.replace = replace;
  options.rule = rule;
  options.with_edge_ids = true;
  return options;
}

struct Variant {
  std::vector<int64_t> fanout;
  bool replace;
  SamplingRule rule;
  int64_t memory;
};

class AgainstBruteForce : public ::testing::TestWithParam<Variant> {
 protected:
  [[nodiscard]] KernelOptions options() const {
    KernelOptions options = options_of(GetParam().fanout, GetParam().replace, GetParam().rule);
    options.sampler_memory_bytes = GetParam().memory;
    return options;
  }
};

TEST_P(AgainstBruteForce, OneNodeType) {
  const TypedGraph graph = one_type(2000, 8);
  NeighborKernel kernel(graph.num_nodes, graph.relations, options());
  SampleArena arena;
  for (uint64_t batch = 0; batch < 5; ++batch) {
    std::vector<int64_t> seeds;
    for (int64_t i = 0; i < 30; ++i)
      seeds.push_back((static_cast<int64_t>(batch) * 331 + i * 61) % 2000);
    const StreamPosition position{.seed = 9, .epoch = 1, .batch = batch};
    EXPECT_EQ(
        run(kernel, graph, options(), {seeds}, position, arena),
        brute_force(graph, options(), {seeds}, position)
    );
  }
}

TEST_P(AgainstBruteForce, TwoNodeTypesAndThreeRelationsByTheSamePath) {
  const TypedGraph graph = two_types();
  NeighborKernel kernel(graph.num_nodes, graph.relations, options());
  SampleArena arena;
  const std::vector<std::vector<int64_t>> seeds{{5, 17, 250, 10, 3}, {0, 199}};
  EXPECT_EQ(
      run(kernel, graph, options(), seeds, {}, arena), brute_force(graph, options(), seeds, {})
  );
}

// Lists that are visible in part, an own fan-out, lanes that are not the relations' places, and
// excluded pairs: of a hub's edges about half, of the others' some.
TEST_P(AgainstBruteForce, CutListsOwnFanoutsLanesAndExcludedPairs) {
  TypedGraph graph = two_types();
  std::vector<std::vector<int64_t>> ends(graph.relations.size());
  std::vector<Pairs> excluded(graph.relations.size());
  std::vector<ExcludedPairs> lookups(graph.relations.size());
  for (size_t r = 0; r < graph.relations.size(); ++r) {
    RelationView& relation = graph.relations[r];
    const RandomGraph& edges = graph.edges[r];
    for (size_t node = 0; node + 1 < edges.indptr.size(); ++node) {
      const int64_t degree = edges.degree(static_cast<int64_t>(node));
      ends[r].push_back(edges.indptr[node] + degree - degree * static_cast<int64_t>(node % 3) / 4);
      for (int64_t e = edges.indptr[node]; e < edges.indptr[node + 1]; ++e) {
        if ((e * 7 + static_cast<int64_t>(r)) % 3 != 0) continue;
        const int64_t source = edges.indices[static_cast<size_t>(e)];
        excluded[r].emplace(source, static_cast<int64_t>(node));
        lookups[r].add(source, static_cast<int64_t>(node));
      }
    }
    lookups[r].build();
    if (r != 1) relation.ends = ends[r].data();
    relation.lane = static_cast<uint32_t>(7 - 2 * r);
  }
  graph.relations[0].fanout.assign(GetParam().fanout.size(), 2);
  excluded[1].clear();
  const std::vector<const ExcludedPairs*> pointers{lookups.data(), nullptr, &lookups[2]};
  const std::vector<std::vector<int64_t>> seeds{{5, 17, 250, 10, 3, 60}, {10, 0, 199, 60}};
  const std::vector<std::span<const int64_t>> spans(seeds.begin(), seeds.end());
  NeighborKernel kernel(graph.num_nodes, graph.relations, options());
  SampleArena arena;
  kernel.sample(spans, {.seed = 3}, arena, pointers);
  EXPECT_EQ(
      read(graph, options(), arena), brute_force(graph, options(), seeds, {.seed = 3}, excluded)
  );
}

TEST_P(AgainstBruteForce, RepeatedSeedsAndNoSeeds) {
  const TypedGraph graph = one_type(100, 8);
  NeighborKernel kernel(graph.num_nodes, graph.relations, options());
  SampleArena arena;
  for (const std::vector<int64_t>& seeds :
       {std::vector<int64_t>{5, 5, 10, 5}, std::vector<int64_t>{}}) {
    EXPECT_EQ(
        run(kernel, graph, options(), {seeds}, {}, arena),
        brute_force(graph, options(), {seeds}, {})
    );
  }
}

std::vector<Variant> variants() {
  std::vector<Variant> all;
  // Narrow, all, one beyond what fits a chunk, one that takes the hubs' draws by table and by
  // shuffle.
  for (const std::vector<int64_t>& fanout :
       {std::vector<int64_t>{15, 10, 5}, {-1, -1}, {3, -1, 2}, {64, 65}, {100, 200}, {1}, {3, 0, 2}
       }) {
    for (const bool replace : {false, true}) {
      for (const SamplingRule rule : {SamplingRule::NewNodes, SamplingRule::AllSeen}) {
        for (const int64_t memory : {int64_t{1} << 30, int64_t{0}})
          all.push_back({fanout, replace, rule, memory});
      }
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(
    Variants,
    AgainstBruteForce,
    ::testing::ValuesIn(variants()),
    [](const auto& each) {
      std::string name;
      for (const int64_t fanout : each.param.fanout)
        name += fanout < 0 ? "All" : "F" + std::to_string(fanout);
      name += each.param.replace ? "Replace" : "Distinct";
      name += each.param.rule == SamplingRule::AllSeen ? "AllSeen" : "NewNodes";
      return name + (each.param.memory == 0 ? "Hash" : "Direct");
    }
);

TEST(NeighborKernel, MatchesAHandMadeExample) {
  // Edges 1->0, 2->0, 2->1, 0->2; node 3 has none.
  const std::vector<int64_t> indptr{0, 2, 3, 4, 4};
  const std::vector<int32_t> indices{1, 2, 2, 0};
  const std::vector<int64_t> edge_ids{40, 41, 42, 43};
  const RelationView relation{
      .indptr = indptr.data(), .indices32 = indices.data(), .edge_ids = edge_ids.data()
  };
  const std::vector<int64_t> seeds{3, 0};
  const std::vector<std::span<const int64_t>> spans{seeds};

  SampleArena arena;
  NeighborKernel new_nodes({4}, {relation}, options_of({5, 5}, false, SamplingRule::NewNodes));
  new_nodes.sample(spans, {}, arena);
  const auto& nodes = arena.nodes[0];
  const auto& edges = arena.edges[0];
  EXPECT_EQ(
      std::vector<int64_t>(nodes.ids.data(), nodes.ids.data() + 4),
      (std::vector<int64_t>{3, 0, 1, 2})
  );
  EXPECT_EQ(nodes.up_to, (std::vector<int64_t>{2, 4, 4}));
  EXPECT_EQ(edges.up_to, (std::vector<int64_t>{0, 2, 4}));
  EXPECT_EQ(
      std::vector<int64_t>(edges.indptr.data(), edges.indptr.data() + 5),
      (std::vector<int64_t>{0, 0, 2, 3, 4})
  );
  EXPECT_EQ(
      std::vector<int32_t>(edges.indices.data(), edges.indices.data() + 4),
      (std::vector<int32_t>{2, 3, 3, 1})
  );
  EXPECT_EQ(
      std::vector<int64_t>(edges.edge_ids.data(), edges.edge_ids.data() + 4),
      (std::vector<int64_t>{40, 41, 42, 43})
  );

  NeighborKernel all_seen({4}, {relation}, options_of({5, 5}, false, SamplingRule::AllSeen));
  all_seen.sample(spans, {}, arena);
  EXPECT_EQ(arena.edges[0].up_to, (std::vector<int64_t>{0, 2, 6}));
  EXPECT_EQ(arena.edges[0].indptr_at, (std::vector<int64_t>{0, 3}));
  const int64_t* second_hop = arena.edges[0].indptr.data() + 3;
  EXPECT_EQ(
      std::vector<int64_t>(second_hop, second_hop + 5), (std::vector<int64_t>{0, 0, 2, 3, 4})
  );
}

TEST(NeighborKernel, SamplesTheSameFromNarrowAndWideIds) {
  TypedGraph graph = one_type(2000, 8);
  const std::vector<int32_t> narrow(graph.edges[0].indices.begin(), graph.edges[0].indices.end());
  const auto options = options_of({10, 5}, false, SamplingRule::NewNodes);
  const std::vector<std::vector<int64_t>> seeds{{1, 10, 60, 110}};
  SampleArena arena;
  NeighborKernel wide_kernel(graph.num_nodes, graph.relations, options);
  const Sample wide = run(wide_kernel, graph, options, seeds, {}, arena);
  graph.relations[0].indices64 = nullptr;
  graph.relations[0].indices32 = narrow.data();
  NeighborKernel narrow_kernel(graph.num_nodes, graph.relations, options);
  EXPECT_EQ(run(narrow_kernel, graph, options, seeds, {}, arena), wide);
}

TEST(NeighborKernel, DrawsAnewInEachEpochBatchAndSeed) {
  const TypedGraph graph = one_type(2000, 8);
  const auto options = options_of({3}, false, SamplingRule::NewNodes);
  NeighborKernel kernel(graph.num_nodes, graph.relations, options);
  SampleArena arena;
  const std::vector<std::vector<int64_t>> seeds{{10, 60, 110, 160}};
  const Sample base = run(kernel, graph, options, seeds, {1, 1, 1}, arena);
  EXPECT_NE(run(kernel, graph, options, seeds, {2, 1, 1}, arena), base);
  EXPECT_NE(run(kernel, graph, options, seeds, {1, 2, 1}, arena), base);
  EXPECT_NE(run(kernel, graph, options, seeds, {1, 1, 2}, arena), base);
  EXPECT_EQ(run(kernel, graph, options, seeds, {1, 1, 1}, arena), base);
}

TEST(NeighborKernel, GivesTheSameBitsOnOneTwoAndEightThreads) {
  const TypedGraph graph = one_type(3000, 10);
  const auto options = options_of({10, 5}, false, SamplingRule::NewNodes);
  constexpr uint64_t kBatches = 40;
  const auto sample_all = [&](uint64_t num_threads) {
    std::vector<Sample> samples(kBatches);
    std::vector<std::thread> threads;
    for (uint64_t thread = 0; thread < num_threads; ++thread) {
      threads.emplace_back([&, thread] {
        NeighborKernel kernel(graph.num_nodes, graph.relations, options);
        SampleArena arena;
        for (uint64_t batch = thread; batch < kBatches; batch += num_threads) {
          std::vector<int64_t> seeds;
          for (uint64_t i = 0; i < 20; ++i)
            seeds.push_back(static_cast<int64_t>((batch * 77 + i * 13) % 3000));
          samples[batch] =
              run(kernel, graph, options, {seeds}, {.seed = 4, .epoch = 0, .batch = batch}, arena);
        }
      });
    }
    for (auto& thread : threads) thread.join();
    return samples;
  };
  const auto one = sample_all(1);
  EXPECT_EQ(sample_all(2), one);
  EXPECT_EQ(sample_all(8), one);
}

// As if the edges behind the ends did not exist.
TEST(NeighborKernel, SamplesTheVisiblePrefixesAsTheGraphThatHasNothingElse) {
  TypedGraph graph = one_type(2000, 8);
  const RandomGraph& whole = graph.edges[0];
  std::vector<int64_t> ends;
  std::vector<int64_t> cut_indptr{0};
  std::vector<int64_t> cut_indices;
  for (int64_t node = 0; node < 2000; ++node) {
    const int64_t first = whole.indptr[static_cast<size_t>(node)];
    const int64_t visible = whole.degree(node) * (node % 4 + 1) / 4;
    ends.push_back(first + visible);
    cut_indices.insert(
        cut_indices.end(), whole.indices.begin() + first, whole.indices.begin() + first + visible
    );
    cut_indptr.push_back(static_cast<int64_t>(cut_indices.size()));
  }
  graph.relations[0].ends = ends.data();
  TypedGraph cut;
  cut.num_nodes = graph.num_nodes;
  cut.relations.push_back({.indptr = cut_indptr.data(), .indices64 = cut_indices.data()});
  for (const SamplingRule rule : {SamplingRule::NewNodes, SamplingRule::AllSeen}) {
    KernelOptions options = options_of({10, 5, 3}, false, rule);
    options.with_edge_ids = false;
    NeighborKernel kernel(graph.num_nodes, graph.relations, options);
    NeighborKernel cut_kernel(cut.num_nodes, cut.relations, options);
    SampleArena arena;
    SampleArena cut_arena;
    const std::vector<std::vector<int64_t>> seeds{{1, 10, 60, 110, 160, 1999}};
    const std::vector<std::span<const int64_t>> spans(seeds.begin(), seeds.end());
    kernel.sample(spans, {}, arena);
    cut_kernel.sample(spans, {}, cut_arena);
    ASSERT_GT(arena.edges[0].up_to.back(), 100);
    ASSERT_EQ(arena.nodes[0].up_to, cut_arena.nodes[0].up_to);
    ASSERT_EQ(arena.edges[0].up_to, cut_arena.edges[0].up_to);
    EXPECT_TRUE(std::equal(
        arena.nodes[0].ids.data(),
        arena.nodes[0].ids.data() + arena.nodes[0].up_to.back(),
        cut_arena.nodes[0].ids.data()
    ));
    EXPECT_TRUE(std::equal(
        arena.edges[0].indices.data(),
        arena.edges[0].indices.data() + arena.edges[0].up_to.back(),
        cut_arena.edges[0].indices.data()
    ));
  }
}

// What a model that reads `relations` sees of a node: its neighbours by relation, and theirs, by
// global ids.
class SeenTree {
 public:
  SeenTree(const TypedGraph& graph, const Sample& sample, SamplingRule rule)
      : graph_(graph), sample_(sample), rule_(rule) {}

  // `reads`: the relation's place in the sampled graph and its name.
  [[nodiscard]] std::string of(
      size_t type, size_t local, size_t hop, const std::map<size_t, std::string>& reads
  ) const {
    std::string text = std::to_string(sample_.nodes[type][local]);
    if (hop == sample_.edges[0].size()) return text;
    for (const auto& [r, name] : reads) {
      const RelationView& relation = graph_.relations[r];
      if (static_cast<size_t>(relation.destination_type) != type) continue;
      // By NewNodes a node's edges are those of the hop after the one that found it.
      const auto& up_to = sample_.up_to[type];
      size_t drawn = hop;
      if (rule_ == SamplingRule::NewNodes) {
        drawn = 0;
        while (static_cast<int64_t>(local) >= up_to[drawn]) ++drawn;
      }
      const HopEdges& edges = sample_.edges[r][drawn];
      const size_t first =
          rule_ == SamplingRule::AllSeen || drawn == 0 ? 0 : static_cast<size_t>(up_to[drawn - 1]);
      size_t begin = 0;
      for (size_t row = 0; row < local - first; ++row)
        begin += static_cast<size_t>(edges.degrees[row]);
      text += " " + name + "(";
      for (size_t e = begin; e < begin + static_cast<size_t>(edges.degrees[local - first]); ++e) {
        text += of(static_cast<size_t>(relation.source_type),
                   static_cast<size_t>(edges.sources[e]),
                   hop + 1,
                   reads) +
                ",";
      }
      text += ")";
    }
    return text;
  }

 private:
  const TypedGraph& graph_;
  const Sample& sample_;
  SamplingRule rule_;
};

TEST(NeighborKernel, ShowsAModelTheSameWithoutTheRelationsThatItDoesNotRead) {
  const TypedGraph whole = two_types();
  TypedGraph pruned = two_types();
  pruned.relations.erase(pruned.relations.begin() + 1);  // users into items
  const std::vector<std::vector<int64_t>> seeds{{5, 17, 250, 10}, {0, 199, 60}};
  for (const auto& [rule, fanout] :
       {std::pair{SamplingRule::NewNodes, std::vector<int64_t>{4, 3}},
        std::pair{SamplingRule::AllSeen, std::vector<int64_t>{4, 3, 2}}}) {
    const KernelOptions options = options_of(fanout, false, rule);
    SampleArena arena;
    NeighborKernel whole_kernel(whole.num_nodes, whole.relations, options);
    const Sample all = run(whole_kernel, whole, options, seeds, {}, arena);
    NeighborKernel pruned_kernel(pruned.num_nodes, pruned.relations, options);
    const Sample some = run(pruned_kernel, pruned, options, seeds, {}, arena);
    EXPECT_LT(some.nodes[0].size(), all.nodes[0].size());
    const SeenTree whole_tree(whole, all, rule);
    const SeenTree pruned_tree(pruned, some, rule);
    for (size_t type = 0; type < seeds.size(); ++type) {
      for (size_t seed = 0; seed < seeds[type].size(); ++seed) {
        EXPECT_EQ(
            pruned_tree.of(type, seed, 0, {{0, "to user"}, {1, "to item"}}),
            whole_tree.of(type, seed, 0, {{0, "to user"}, {2, "to item"}})
        );
      }
    }
  }
}

// Two relations draw 2 of 6 visible neighbours (of 9) for one node: each pair of offsets is equally
// likely, and what one draws says nothing of the other.
TEST(NeighborKernel, DrawsUniformlyAndIndependentlyInEachRelation) {
  std::vector<int64_t> indptr(301, 9);
  indptr[0] = 0;
  std::vector<int64_t> indices(9);
  for (size_t i = 0; i < 9; ++i) indices[i] = static_cast<int64_t>(i + 1);
  std::vector<int64_t> ends(300, 9);
  ends[0] = 6;
  std::vector<RelationView> relations(2);
  for (size_t r = 0; r < 2; ++r) {
    relations[r].indptr = indptr.data();
    relations[r].ends = ends.data();
    relations[r].indices64 = indices.data();
    relations[r].source_type = 1;
    relations[r].lane = static_cast<uint32_t>(r);
  }
  NeighborKernel kernel({300, 300}, relations, options_of({2}, false, SamplingRule::NewNodes));
  SampleArena arena;
  const std::vector<std::vector<int64_t>> seeds{{0}, {}};
  const std::vector<std::span<const int64_t>> spans(seeds.begin(), seeds.end());
  constexpr uint64_t kTrials = 60'000;
  std::vector<std::vector<int64_t>> hits(2, std::vector<int64_t>(6));
  std::vector<int64_t> joint(15 * 15);  // by the pairs' numbers
  for (uint64_t trial = 0; trial < kTrials; ++trial) {
    kernel.sample(spans, {.seed = 11, .batch = trial}, arena);
    std::array<size_t, 2> pair{};
    for (size_t r = 0; r < 2; ++r) {
      std::array<int64_t, 2> drawn{arena.edges[r].edge_ids[0], arena.edges[r].edge_ids[1]};
      ASSERT_LT(std::max(drawn[0], drawn[1]), 6);
      for (const int64_t offset : drawn) ++hits[r][static_cast<size_t>(offset)];
      const auto high = static_cast<size_t>(std::max(drawn[0], drawn[1]));
      pair[r] = high * (high - 1) / 2 + static_cast<size_t>(std::min(drawn[0], drawn[1]));
    }
    ++joint[pair[0] * 15 + pair[1]];
  }
  for (size_t r = 0; r < 2; ++r)
    EXPECT_LT(std::abs(chi_square_deviation(hits[r], kTrials, 2.0 / 6)), 4) << r;
  EXPECT_LT(std::abs(chi_square_deviation(joint, kTrials, 1.0 / 225)), 4);
}

// Whatever is drawn: no excluded pair is among the edges, in any hop, and every other edge that the
// sample without the exclusion drew for a seed still is.
TEST(NeighborKernel, LeaksNoExcludedPair) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const TypedGraph graph = one_type(60, 4, seed);
    const RandomGraph& edges = graph.edges[0];
    CounterRng rng({7, static_cast<uint32_t>(seed)}, 0, 0);
    Pairs pairs;
    ExcludedPairs excluded;
    std::vector<int64_t> seeds;
    for (int64_t i = 0; i < 10; ++i) {
      const auto node = static_cast<int64_t>(rng.below(60));
      seeds.push_back(node);
      if (edges.degree(node) == 0) continue;
      const auto offset =
          static_cast<int64_t>(rng.below(static_cast<uint64_t>(edges.degree(node))));
      const int64_t source =
          edges.indices[static_cast<size_t>(edges.indptr[static_cast<size_t>(node)] + offset)];
      // Both directions, as for the two directions of an undirected edge.
      for (const auto& [from, to] : {std::pair{source, node}, std::pair{node, source}}) {
        pairs.emplace(from, to);
        excluded.add(from, to);
      }
    }
    excluded.build();
    const ExcludedPairs* const pointer = &excluded;
    for (const SamplingRule rule : {SamplingRule::NewNodes, SamplingRule::AllSeen}) {
      const KernelOptions options = options_of({-1, 3}, seed % 2 == 1, rule);
      NeighborKernel kernel(graph.num_nodes, graph.relations, options);
      SampleArena arena;
      const std::span<const int64_t> span(seeds);
      kernel.sample({&span, 1}, {}, arena, {&pointer, 1});
      const Sample sample = read(graph, options, arena);
      for (size_t hop = 0; hop < 2; ++hop) {
        const HopEdges& found = sample.edges[0][hop];
        size_t e = 0;
        const size_t first = rule == SamplingRule::NewNodes && hop > 0
                                 ? static_cast<size_t>(sample.up_to[0][hop - 1])
                                 : 0;
        for (size_t row = 0; row < found.degrees.size(); ++row) {
          const int64_t destination = sample.nodes[0][first + row];
          int64_t allowed = 0;
          for (int64_t at = edges.indptr[static_cast<size_t>(destination)];
               at < edges.indptr[static_cast<size_t>(destination) + 1];
               ++at) {
            allowed +=
                pairs.contains({edges.indices[static_cast<size_t>(at)], destination}) ? 0 : 1;
          }
          if (hop == 0) {
            EXPECT_EQ(found.degrees[row], allowed);
          }
          for (int64_t i = 0; i < found.degrees[row]; ++i, ++e) {
            const int64_t source = sample.nodes[0][static_cast<size_t>(found.sources[e])];
            EXPECT_FALSE(pairs.contains({source, destination})) << source << "->" << destination;
          }
        }
      }
    }
  }
}

TEST(NeighborKernel, StopsAllocatingOnceItHasGrown) {
  const TypedGraph graph = one_type(5000, 10);
  const auto options = options_of({10, 10}, false, SamplingRule::NewNodes);
  NeighborKernel kernel(graph.num_nodes, graph.relations, options);
  SampleArena arena;
  std::vector<int64_t> seeds(200);
  const auto sample = [&](uint64_t batch) {
    for (size_t i = 0; i < seeds.size(); ++i)
      seeds[i] = static_cast<int64_t>((batch * 200 + i) % 5000);
    const std::vector<std::span<const int64_t>> spans{seeds};
    kernel.sample(spans, {.batch = batch}, arena);
  };
  // Every batch has 200 seeds, so two rounds over all nodes meet the largest one.
  for (uint64_t batch = 0; batch < 50; ++batch) sample(batch);
  const int64_t* const ids = arena.nodes[0].ids.data();
  const size_t arena_bytes = arena.bytes();
  const size_t state_bytes = kernel.state_bytes();
  for (uint64_t batch = 0; batch < 50; ++batch) sample(batch);
  EXPECT_EQ(arena.nodes[0].ids.data(), ids);
  EXPECT_EQ(arena.bytes(), arena_bytes);
  EXPECT_EQ(kernel.state_bytes(), state_bytes);
}

}  // namespace
}  // namespace gnn::sampling::core
