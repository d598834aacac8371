#include "worker/graph/link_checks.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
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

}  // namespace
}  // namespace gnn::graph
