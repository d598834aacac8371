#include "worker/graph/link_checks.h"

#include "tests/worker/data/files.h"
#include "worker/data/mapped_file.h"
#include "worker/data/mapped_pages.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <sys/resource.h>
#include <utility>
#include <vector>

namespace gnn::graph {
namespace {

using ::testing::HasSubstr;

at::Tensor link_ids(const std::vector<int64_t>& values) {
  return at::tensor(values, at::kLong);
}

at::Tensor link_pairs(const std::vector<int64_t>& values) {
  return link_ids(values).view({-1, 2});
}

// In-neighbour lists of one node type, without a check.
CscGraph link_lists(
    const std::vector<int64_t>& indptr,
    const std::vector<int64_t>& indices,
    int64_t num_sources,
    const std::vector<int64_t>& edge_ids
) {
  return *CscGraph::create_unchecked(
      link_ids(indptr), link_ids(indices), num_sources, link_ids(edge_ids)
  );
}

// Users 0 to 2 buy items 0 and 1: links 2-0, 0-1, 1-0, 2-1, and their reverse.
Dataset shop_links() {
  Dataset dataset;
  dataset.name = "shop";
  dataset.node_types.push_back(
      {.name = "user", .num_nodes = 3, .features = std::nullopt, .labels = {}}
  );
  dataset.node_types.push_back(
      {.name = "item", .num_nodes = 2, .features = std::nullopt, .labels = {}}
  );
  dataset.edge_types.push_back(
      {.source = "user",
       .relation = "buys",
       .destination = "item",
       .source_index = 0,
       .destination_index = 1,
       .graph = link_lists({0, 2, 4}, {1, 2, 0, 2}, 3, {2, 0, 1, 3}),
       .features = std::nullopt}
  );
  dataset.edge_types.push_back(
      {.source = "item",
       .relation = "rev_buys",
       .destination = "user",
       .source_index = 1,
       .destination_index = 0,
       .graph = link_lists({0, 1, 2, 4}, {1, 0, 0, 1}, 2, {1, 2, 0, 3}),
       .features = std::nullopt}
  );
  dataset.links = LinkData{
      .edge_type = 0, .reverse_edge_type = 1, .pairs = link_pairs({2, 0, 0, 1, 1, 0, 2, 1})
  };
  return dataset;
}

// Nodes 0 to 2: links 0-1, 1-2 and 2-2, undirected.
Dataset path_links() {
  Dataset dataset;
  dataset.name = "path";
  dataset.node_types.push_back(
      {.name = "node", .num_nodes = 3, .features = std::nullopt, .labels = {}}
  );
  dataset.edge_types.push_back(
      {.source = "node",
       .relation = "to",
       .destination = "node",
       .source_index = 0,
       .destination_index = 0,
       .graph = link_lists({0, 1, 3, 5}, {1, 0, 2, 1, 2}, 3, {0, 0, 1, 1, 2}),
       .features = std::nullopt}
  );
  dataset.links =
      LinkData{.edge_type = 0, .reverse_edge_type = 0, .pairs = link_pairs({0, 1, 1, 2, 2, 2})};
  return dataset;
}

using LinkChange = std::function<void(Dataset&)>;

// What check_form() or the first of `shares` shares of check_contents() finds.
std::string link_breach(Dataset dataset, const LinkChange& change, int64_t shares = 1) {
  change(dataset);
  Status status = check_form(dataset, "here");
  SilentProgressBar silent;
  for (int64_t share = 0; share < shares && status; ++share) {
    status = check_contents(dataset, "here", {.index = share, .count = shares}, silent);
  }
  return status ? "" : status.error().message;
}

CscGraph& graph_of(Dataset& dataset, size_t type) {
  return dataset.edge_types[type].graph;
}

TEST(CheckLinks, AcceptsLinksAsTheyAre) {
  EXPECT_EQ(link_breach(shop_links(), [](Dataset&) {}), "");
  EXPECT_EQ(link_breach(path_links(), [](Dataset&) {}), "");
  EXPECT_EQ(link_breach(shop_links(), [](Dataset& d) { d.links->reverse_edge_type.reset(); }), "");
  // Ids that are places need no tensor.
  EXPECT_EQ(
      link_breach(
          shop_links(),
          [](Dataset& d) {
            graph_of(d, 0) = *CscGraph::create(link_ids({0, 2, 4}), link_ids({1, 2, 0, 2}), 3);
            d.links->pairs = link_pairs({1, 0, 2, 0, 0, 1, 2, 1});
            d.links->reverse_edge_type.reset();
          }
      ),
      ""
  );
}

TEST(CheckLinks, NamesTheFirstProblemOfTheForm) {
  EXPECT_THAT(
      link_breach(shop_links(), [](Dataset& d) { d.links->edge_type = 2; }),
      HasSubstr("here: links are of an edge type that does not exist")
  );
  EXPECT_THAT(
      link_breach(
          shop_links(), [](Dataset& d) { d.links->pairs = link_pairs({2, 0, 0, 1, 1, 0}); }
      ),
      HasSubstr("edge type (user, buys, item): expected 4 links, one for each edge, found 3")
  );
  EXPECT_THAT(
      link_breach(shop_links(), [](Dataset& d) { d.links->pairs = link_ids({2, 0}); }),
      HasSubstr("links: expected int64 pairs [E, 2] of at least one edge")
  );
  EXPECT_THAT(
      link_breach(
          shop_links(),
          [](Dataset& d) { graph_of(d, 1) = link_lists({0, 1, 2, 3}, {1, 0, 0}, 2, {1, 2, 0}); }
      ),
      HasSubstr("(item, rev_buys, user): expected 4 edges as the links it reverses, found 3")
  );
  EXPECT_THAT(
      link_breach(shop_links(), [](Dataset& d) { d.links->reverse_edge_type = 0; }),
      HasSubstr("(user, buys, item): not from destination to source of")
  );
  EXPECT_THAT(
      link_breach(shop_links(), [](Dataset& d) { d.edge_types.push_back(d.edge_types[0]); }),
      HasSubstr("edge type (user, buys, item) appears twice")
  );
}

TEST(CheckLinks, NamesTheFirstProblemOfTheContents) {
  EXPECT_THAT(
      link_breach(
          shop_links(), [](Dataset& d) { d.links->pairs = link_pairs({2, 0, 0, 1, 1, 0, 3, 1}); }
      ),
      HasSubstr("link 3: expected nodes in [0, 3) and [0, 2), found (3, 1)")
  );
  EXPECT_THAT(
      link_breach(
          shop_links(), [](Dataset& d) { d.links->pairs = link_pairs({2, 0, 0, 1, 0, 0, 2, 1}); }
      ),
      HasSubstr("(user, buys, item): entry 0: its edge id 2 is of the link (0, 0), expected (1, 0)")
  );
  EXPECT_THAT(
      link_breach(
          shop_links(),
          [](Dataset& d) { graph_of(d, 0) = link_lists({0, 2, 4}, {1, 2, 0, 2}, 3, {2, 0, 1, 4}); }
      ),
      HasSubstr("entry 3: expected an edge id in [0, 4), found 4")
  );
  EXPECT_THAT(
      link_breach(
          shop_links(),
          [](Dataset& d) {
            graph_of(d, 1) = link_lists({0, 1, 2, 4}, {1, 0, 0, 1}, 2, {1, 2, 3, 0});
          }
      ),
      HasSubstr("(item, rev_buys, user): entry 2: its edge id 3 is of the link (2, 1)")
  );
}

TEST(CheckLinks, FindsAnIdThatIsThereTwice) {
  // User 0 bought item 1 twice; both entries say that they are the first time.
  const auto twice = [](const std::vector<int64_t>& edge_ids) {
    return [edge_ids](Dataset& d) {
      d.links->pairs = link_pairs({0, 1, 0, 1});
      d.links->reverse_edge_type.reset();
      graph_of(d, 0) = link_lists({0, 0, 2}, {0, 0}, 3, edge_ids);
    };
  };
  EXPECT_EQ(link_breach(shop_links(), twice({0, 1})), "");
  EXPECT_THAT(
      link_breach(shop_links(), twice({0, 0})), HasSubstr("entry 1: expected ascending sources")
  );
}

TEST(CheckLinks, UndirectedLinksAreThereFromBothEnds) {
  EXPECT_THAT(
      link_breach(
          path_links(),
          [](Dataset& d) {
            graph_of(d, 0) = link_lists({0, 1, 2, 4}, {1, 0, 1, 2}, 3, {0, 0, 1, 2});
          }
      ),
      HasSubstr("(node, to, node): expected 5 list entries for its undirected links, found 4")
  );
  EXPECT_THAT(
      link_breach(
          path_links(), [](Dataset& d) { d.links->pairs = link_pairs({1, 0, 1, 2, 2, 2}); }
      ),
      HasSubstr("its edge id 0 is of the link (1, 0), expected (0, 1)")
  );
}

TEST(CheckLinks, SharesTogetherFindWhatOneShareFinds) {
  const LinkChange wrong = [](Dataset& d) {
    d.links->pairs = link_pairs({2, 0, 0, 1, 1, 0, 0, 1});
  };
  for (int64_t shares = 1; shares < 6; ++shares) {
    EXPECT_EQ(link_breach(shop_links(), [](Dataset&) {}, shares), "");
    EXPECT_EQ(link_breach(path_links(), [](Dataset&) {}, shares), "");
    EXPECT_THAT(
        link_breach(shop_links(), wrong, shares), HasSubstr("its edge id 3 is of the link (0, 1)")
    );
  }
}

TEST(CheckDataset, ChecksAllMatricesOfANodeType) {
  const auto with = [](const std::string& name, at::Tensor rows) {
    return [name, rows](Dataset& d) {
      NodeTypeData& items = d.node_types[1];
      items.features = *FeatureStore::create(at::zeros({2, 1}));
      items.features_name = "text";
      items.more_features.push_back({.name = name, .rows = *FeatureStore::create(rows)});
    };
  };
  EXPECT_EQ(link_breach(shop_links(), with("image", at::zeros({2, 3}))), "");
  EXPECT_THAT(
      link_breach(shop_links(), with("text", at::zeros({2, 3}))),
      HasSubstr("node type item: two feature matrices are called 'text'")
  );
  EXPECT_THAT(
      link_breach(shop_links(), with("image", at::zeros({3, 3}))),
      HasSubstr("node type item, features 'image': expected 2 feature rows, found 3")
  );
  EXPECT_THAT(
      link_breach(shop_links(), with("image", at::full({2, 3}, INFINITY))),
      HasSubstr("node type item: image[0, 0] is not a finite number")
  );
}

// Links of one destination, whose ids jump about in the pairs' file.
TEST(CheckLinks, OpensNoWindowOfAFileForEachLink) {
  constexpr int64_t kLinks = int64_t{1} << 18;
  constexpr int64_t kStep = 99'991;  // prime, so that all ids come
  const data::testing::TemporaryFolder folder;
  const auto file = data::create_mapped_file(folder.path("pairs"), kLinks * 16).value();
  auto* const pairs = static_cast<int64_t*>(file.address.get());
  const at::Tensor ids = at::empty({kLinks}, at::kLong);
  for (int64_t source = 0; source < kLinks; ++source) {
    const int64_t id = source * kStep % kLinks;
    ids.mutable_data_ptr<int64_t>()[source] = id;
    pairs[2 * id] = source;
    pairs[2 * id + 1] = 0;
  }
  Dataset dataset = shop_links();
  dataset.node_types[0].num_nodes = kLinks;
  dataset.node_types[1].num_nodes = 1;
  dataset.edge_types.pop_back();
  dataset.edge_types[0].graph = *CscGraph::create_unchecked(
      link_ids({0, kLinks}), at::arange(kLinks, at::kLong), kLinks, ids
  );
  dataset.links->reverse_edge_type.reset();
  dataset.links->pairs = at::from_blob(pairs, {kLinks, 2}, at::kLong);
  const auto faults_of = [&dataset] {
    rusage before{};
    ::getrusage(RUSAGE_THREAD, &before);
    SilentProgressBar silent;
    EXPECT_TRUE(check_links(dataset, "here", {}, silent, {}));
    rusage after{};
    ::getrusage(RUSAGE_THREAD, &after);
    return after.ru_minflt - before.ru_minflt;
  };
  const data::MappedPagesLimit limit(int64_t{1} << 20);
  EXPECT_LT(faults_of(), kLinks / 16);
  // The last pass counts, too.
  pairs[2 * (kLinks - 1)] += 1;
  EXPECT_NE(link_breach(dataset, [](Dataset&) {}), "");
}

}  // namespace
}  // namespace gnn::graph
