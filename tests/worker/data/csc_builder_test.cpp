#include "worker/data/csc_builder.h"

#include "tests/worker/data/files.h"
#include "tests/worker/data/storage_fake.h"
#include "worker/data/counter_random.h"
#include "worker/data/transforms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace gnn::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::to_vector;

using Pairs = std::vector<std::pair<int64_t, int64_t>>;

ArrayEdges edges_of(const Pairs& pairs) {
  MemoryStorage memory;
  Array sources = *memory.scratch(DType::Int64, {static_cast<int64_t>(pairs.size())});
  Array destinations = *memory.scratch(DType::Int64, {static_cast<int64_t>(pairs.size())});
  for (size_t i = 0; i < pairs.size(); ++i) {
    sources.mutable_view<int64_t>()[i] = pairs[i].first;
    destinations.mutable_view<int64_t>()[i] = pairs[i].second;
  }
  return {sources, destinations, static_cast<int64_t>(pairs.size()), "edges.csv: line ", 1};
}

Result<CscArrays> build(const Pairs& pairs, CscOptions options) {
  MemoryStorage memory;
  SilentProgressBar silent;
  return build_csc(edges_of(pairs), options, memory, "e", silent);
}

// The edges of a graph as (source, destination), sorted.
Pairs pairs_of(const CscArrays& csc) {
  Pairs pairs;
  const auto indptr = csc.indptr.view<int64_t>();
  const auto indices = csc.indices.view<int32_t>();
  for (size_t node = 0; node + 1 < indptr.size(); ++node) {
    for (int64_t edge = indptr[node]; edge < indptr[node + 1]; ++edge) {
      pairs.emplace_back(indices[static_cast<size_t>(edge)], static_cast<int64_t>(node));
    }
  }
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

// What PyG's functions of the same names make of an edge list, written the slow way.
Pairs reference(Pairs pairs, const CscOptions& options) {
  if (options.self_loops == SelfLoops::Remove || options.self_loops == SelfLoops::AddRemaining) {
    std::erase_if(pairs, [](const auto& pair) { return pair.first == pair.second; });
  }
  if (options.to_undirected) {
    const Pairs forward = pairs;
    for (const auto& [source, destination] : forward) {
      pairs.emplace_back(destination, source);
    }
  }
  if (options.self_loops == SelfLoops::Add || options.self_loops == SelfLoops::AddRemaining) {
    for (int64_t node = 0; node < options.num_destinations; ++node) {
      pairs.emplace_back(node, node);
    }
  }
  std::sort(pairs.begin(), pairs.end());
  if (options.to_undirected || options.coalesce) {
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  }
  return pairs;
}

TEST(BuildCsc, SortsByDestinationAndThenSource) {
  const auto csc =
      build({{2, 0}, {1, 0}, {0, 2}, {1, 0}}, {.num_sources = 3, .num_destinations = 3});
  ASSERT_TRUE(csc) << csc.error().message;
  EXPECT_THAT(to_vector<int64_t>(csc->indptr), ElementsAre(0, 3, 3, 4));
  EXPECT_THAT(to_vector<int32_t>(csc->indices), ElementsAre(1, 1, 2, 0));
  EXPECT_FALSE(csc->edge_ids.defined());
}

TEST(BuildCsc, KeepsEdgeIdsAndTheFirstOfDuplicates) {
  CscOptions options{.num_sources = 3, .num_destinations = 3, .edge_ids = true};
  const Pairs pairs{{2, 0}, {1, 0}, {0, 2}, {1, 0}};
  EXPECT_THAT(to_vector<int64_t>(build(pairs, options)->edge_ids), ElementsAre(1, 3, 0, 2));
  options.coalesce = true;
  const auto csc = build(pairs, options);
  EXPECT_THAT(to_vector<int64_t>(csc->indptr), ElementsAre(0, 2, 2, 3));
  EXPECT_THAT(to_vector<int64_t>(csc->edge_ids), ElementsAre(1, 0, 2));
  options.to_undirected = true;
  EXPECT_THAT(to_vector<int64_t>(build({{0, 1}}, options)->edge_ids), ElementsAre(0, 0));
}

TEST(BuildCsc, HandlesBipartiteGraphsAndIsolatedNodes) {
  const auto csc = build({{4, 0}}, {.num_sources = 5, .num_destinations = 3});
  EXPECT_THAT(to_vector<int64_t>(csc->indptr), ElementsAre(0, 1, 1, 1));
  const auto none = build({}, {.num_sources = 2, .num_destinations = 2});
  EXPECT_THAT(to_vector<int64_t>(none->indptr), ElementsAre(0, 0, 0));
  EXPECT_EQ(none->indices.num_elements(), 0);
}

TEST(BuildCsc, MatchesTheSlowDefinitionOnRandomGraphs) {
  const CounterRandom random(3, 0);
  uint64_t at = 0;
  for (int round = 0; round < 200; ++round) {
    const int64_t nodes = 1 + random.below(at++, 12);
    Pairs pairs;
    for (int64_t i = random.below(at++, 40); i > 0; --i) {
      const int64_t source = random.below(at++, nodes);
      pairs.emplace_back(source, random.below(at++, nodes));
    }
    CscOptions options{.num_sources = nodes, .num_destinations = nodes};
    options.to_undirected = random.below(at++, 2) == 1;
    options.coalesce = random.below(at++, 2) == 1;
    options.self_loops = static_cast<SelfLoops>(random.below(at++, 4));
    const auto csc = build(pairs, options);
    ASSERT_TRUE(csc) << csc.error().message;
    ASSERT_EQ(pairs_of(*csc), reference(pairs, options)) << "round " << round;
  }
}

TEST(BuildCsc, NamesTheEdgeOutOfRange) {
  const CscOptions options{.num_sources = 3, .num_destinations = 3};
  const auto high = build({{0, 1}, {1, 3}}, options);
  ASSERT_FALSE(high);
  EXPECT_EQ(high.error().kind, ErrorKind::Data);
  EXPECT_THAT(
      high.error().message, HasSubstr("edges.csv: line 2: expected node ids in [0, 3), found 1,3")
  );
  EXPECT_FALSE(build({{-1, 0}}, options));
  EXPECT_THAT(build({}, {}).error().message, HasSubstr("at least one node"));
}

TEST(BuildCsc, DropsPairsEvenlyDownToMaxPairs) {
  Pairs pairs;
  for (int64_t i = 0; i < 20; ++i) {
    for (int64_t j = 0; j < i; ++j) {
      pairs.emplace_back(i, j);
    }
  }
  for (const int64_t wanted : {1, 7, 100, 189, 190, 500}) {
    const auto csc = build(
        pairs,
        {.num_sources = 20, .num_destinations = 20, .to_undirected = true, .max_pairs = wanted}
    );
    const Pairs left = pairs_of(*csc);
    EXPECT_EQ(static_cast<int64_t>(left.size()), 2 * std::min<int64_t>(wanted, 190));
    const std::set<std::pair<int64_t, int64_t>> all(left.begin(), left.end());
    for (const auto& [source, destination] : left) {
      EXPECT_TRUE(all.contains({destination, source}));
      EXPECT_NE(source, destination);
    }
  }
}

class Transform : public ::testing::Test {
 protected:
  DatasetArrays dataset(
      const Pairs& pairs, int64_t nodes, const std::vector<float>& features, int64_t width
  ) {
    DatasetArrays arrays;
    const auto csc = build(pairs, {.num_sources = nodes, .num_destinations = nodes});
    Array rows = *memory_.create("f", DType::Float32, {nodes, width});
    std::copy(features.begin(), features.end(), rows.mutable_view<float>().begin());
    arrays.node_tables.push_back(
        {.name = "node", .num_nodes = nodes, .features = rows, .labels = {}}
    );
    arrays.edge_tables.push_back(
        {.source = "node",
         .relation = "to",
         .destination = "node",
         .indptr = csc->indptr,
         .indices = csc->indices,
         .edge_ids = {},
         .features = {}}
    );
    arrays.target_node_type = "node";
    return arrays;
  }
  MemoryStorage memory_;
  SilentProgressBar silent_;
};

TEST_F(Transform, NormalizesRowsAsPyGDoes) {
  const DatasetArrays arrays = dataset({}, 3, {1, 3, 0, 0, 0.25F, 0.25F}, 2);
  const auto result = transform(arrays, {.normalize_rows = true}, memory_, silent_);
  ASSERT_TRUE(result) << result.error().message;
  // PyG: x - x.min(), then / x.sum(-1).clamp(min=1).
  EXPECT_THAT(
      to_vector<float>(result->node_tables[0].features),
      ElementsAre(0.25F, 0.75F, 0.0F, 0.0F, 0.25F, 0.25F)
  );
  // The data set given stays as it was.
  EXPECT_THAT(
      to_vector<float>(arrays.node_tables[0].features), ElementsAre(1, 3, 0, 0, 0.25F, 0.25F)
  );
  const auto negative =
      transform(dataset({}, 1, {-1, 3}, 2), {.normalize_rows = true}, memory_, silent_);
  EXPECT_THAT(to_vector<float>(negative->node_tables[0].features), ElementsAre(0.0F, 1.0F));
}

TEST_F(Transform, MakesDegreeOneHotAndConstantFeatures) {
  const DatasetArrays arrays = dataset({{0, 1}, {2, 1}, {1, 0}}, 3, {0, 0, 0}, 1);
  const auto degrees =
      transform(arrays, {.features = FeatureSource::DegreeOneHot}, memory_, silent_);
  EXPECT_EQ(degrees->node_tables[0].features.shape(), (std::vector<int64_t>{3, 3}));
  EXPECT_THAT(
      to_vector<float>(degrees->node_tables[0].features), ElementsAre(0, 1, 0, 0, 0, 1, 1, 0, 0)
  );
  const auto constant = transform(arrays, {.features = FeatureSource::Constant}, memory_, silent_);
  EXPECT_THAT(to_vector<float>(constant->node_tables[0].features), ElementsAre(1, 1, 1));
}

TEST_F(Transform, MakesEdgesUndirectedWithSelfLoops) {
  const auto result = transform(
      dataset({{0, 1}, {1, 2}}, 3, {0, 0, 0}, 1),
      {.to_undirected = true, .self_loops = SelfLoops::AddRemaining},
      memory_,
      silent_
  );
  EXPECT_THAT(to_vector<int64_t>(result->edge_tables[0].indptr), ElementsAre(0, 2, 5, 7));
  EXPECT_THAT(to_vector<int32_t>(result->edge_tables[0].indices), ElementsAre(0, 1, 0, 1, 2, 1, 2));
}

// Memory for a few edges at a time.
class LittleMemory final : public testing::StorageFake {
 public:
  explicit LittleMemory(int64_t memory_bytes) : memory_bytes_(memory_bytes) {}
  [[nodiscard]] int64_t memory_bytes() const override { return memory_bytes_; }

 private:
  int64_t memory_bytes_;
};

class BuildCscInParts : public ::testing::TestWithParam<CscOptions> {};

TEST_P(BuildCscInParts, GivesTheSameLists) {
  Pairs pairs;
  for (uint64_t i = 0; i < 500; ++i) {
    // Some nodes without edges, one with a tenth of all, and duplicates.
    const int64_t source = CounterRandom(1, 0).below(i, 40);
    const int64_t destination = CounterRandom(1, 1).below(i, 30);
    pairs.emplace_back(source, i % 10 == 0 ? 7 : destination);
  }
  CscOptions options = GetParam();
  options.num_sources = 40;
  options.num_destinations = 40;
  const auto whole = build(pairs, options);
  ASSERT_TRUE(whole) << whole.error().message;
  SilentProgressBar silent;
  for (const int64_t memory_bytes : {1, 64, 1000}) {
    LittleMemory storage(memory_bytes);
    const auto parts = build_csc(edges_of(pairs), options, storage, "e", silent);
    ASSERT_TRUE(parts) << parts.error().message;
    EXPECT_EQ(to_vector<int64_t>(parts->indptr), to_vector<int64_t>(whole->indptr));
    EXPECT_EQ(to_vector<int32_t>(parts->indices), to_vector<int32_t>(whole->indices));
    if (whole->edge_ids.defined()) {
      EXPECT_EQ(to_vector<int64_t>(parts->edge_ids), to_vector<int64_t>(whole->edge_ids));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Options,
    BuildCscInParts,
    ::testing::Values(
        CscOptions{},
        CscOptions{.coalesce = true},
        CscOptions{.to_undirected = true},
        CscOptions{.to_undirected = true, .edge_ids = true},
        CscOptions{.coalesce = true, .edge_ids = true},
        CscOptions{.edge_ids = true},
        CscOptions{.self_loops = SelfLoops::Remove},
        CscOptions{.self_loops = SelfLoops::Remove, .link_ids = LinkIds::WithinType},
        CscOptions{.to_undirected = true, .link_ids = LinkIds::WithinType},
        CscOptions{.to_undirected = true, .self_loops = SelfLoops::Remove, .max_pairs = 200},
        CscOptions{.to_undirected = true, .self_loops = SelfLoops::AddRemaining}
    )
);

// Counts how often its edges are read.
class CountedEdges final : public EdgeSource {
 public:
  explicit CountedEdges(const Pairs& pairs) : edges_(edges_of(pairs)) {}

  [[nodiscard]] int64_t num_edges() const override { return edges_.num_edges(); }
  void for_each_chunk(const Chunk& chunk) const override {
    ++passes_;
    edges_.for_each_chunk(chunk);
  }
  [[nodiscard]] int64_t passes() const { return passes_; }

 private:
  ArrayEdges edges_;
  mutable int64_t passes_ = 0;
};

TEST(BuildCsc, ReadsEdgesOnceHoweverLittleMemoryThereIs) {
  const CountedEdges edges({{0, 0}, {1, 0}, {2, 1}, {0, 2}, {1, 2}, {2, 2}, {0, 3}});
  SilentProgressBar silent;
  LittleMemory storage(3 * sizeof(int32_t));
  ASSERT_TRUE(build_csc(edges, {.num_sources = 4, .num_destinations = 4}, storage, "e", silent));
  EXPECT_EQ(edges.passes(), 1);
}

}  // namespace
}  // namespace gnn::data
