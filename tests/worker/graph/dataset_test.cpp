#include "worker/graph/dataset.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace gnn::graph {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

at::Tensor ids(std::vector<int64_t> values) {
  return at::tensor(values, at::kLong);
}

// Three nodes in a row, two features, two classes; node 2 has no label.
Dataset small() {
  Dataset dataset;
  dataset.name = "small";
  dataset.num_classes = 2;
  dataset.node_types.push_back(
      {.name = "node",
       .num_nodes = 3,
       .features = *FeatureStore::create(at::arange(6, at::kFloat).view({3, 2})),
       .labels = ids({0, 1, -1})}
  );
  dataset.edge_types.push_back(
      {.source = "node",
       .relation = "to",
       .destination = "node",
       .source_index = 0,
       .destination_index = 0,
       .graph = *CscGraph::create(ids({0, 0, 1, 2}), ids({0, 1}), 3),
       .features = std::nullopt}
  );
  dataset.split = {.train = ids({0}), .validation = ids({1}), .test = ids({})};
  return dataset;
}

std::string breach(const std::function<void(Dataset&)>& change) {
  Dataset dataset = small();
  change(dataset);
  const Status status = check_dataset(dataset, "here");
  return status ? "" : status.error().message;
}

TEST(CheckDataset, AcceptsAValidDataset) {
  EXPECT_EQ(breach([](Dataset&) {}), "");
  const Dataset dataset = small();
  EXPECT_TRUE(dataset.is_homogeneous());
  EXPECT_EQ(dataset.graph().num_edges(), 2);
  EXPECT_EQ(dataset.features().width(), 2);
}

TEST(CheckDataset, NamesTheFirstProblem) {
  const auto with_features = [](at::Tensor rows) {
    return
        [rows](Dataset& dataset) { dataset.node_types[0].features = *FeatureStore::create(rows); };
  };
  at::Tensor nan = at::zeros({3, 2});
  nan[1][1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(
      breach(with_features(nan)),
      HasSubstr("here: node type node: features[1, 1] is not a finite number")
  );
  EXPECT_THAT(
      breach(with_features(nan.to(at::kHalf))), HasSubstr("features[1, 1] is not a finite number")
  );
  EXPECT_THAT(
      breach(with_features(at::zeros({4, 2}))), HasSubstr("expected 3 feature rows, found 4")
  );
  EXPECT_THAT(
      breach([](Dataset& d) { d.node_types[0].labels = ids({0, 1}); }),
      HasSubstr("expected int64 labels [3]")
  );
  EXPECT_THAT(
      breach([](Dataset& d) { d.node_types[0].num_nodes = 0; }),
      HasSubstr("expected at least one node, found 0")
  );
  EXPECT_THAT(
      breach([](Dataset& d) { d.node_types.clear(); }), HasSubstr("at least one node type")
  );
  EXPECT_THAT(
      breach([](Dataset& d) { d.edge_types[0].source_index = 1; }),
      HasSubstr("names a node type that does not exist")
  );
  EXPECT_THAT(
      breach([](Dataset& d) { d.edge_types[0].source = "user"; }),
      HasSubstr("its node types are node and node")
  );
  EXPECT_THAT(
      breach([](Dataset& d) { d.edge_types[0].graph = *CscGraph::create(ids({0, 0}), ids({}), 3); }
      ),
      HasSubstr("joins 3 to 1 nodes, expected 3 and 3")
  );
}

TEST(CheckDataset, ChecksGraphCollections) {
  const auto with = [](at::Tensor offsets, at::Tensor labels) {
    return [offsets, labels](Dataset& dataset) {
      dataset.edge_types[0].graph = *CscGraph::create(ids({0, 1, 2, 2}), ids({1, 0}), 3);
      dataset.graphs = GraphCollection{.node_offsets = offsets, .labels = labels};
    };
  };
  EXPECT_EQ(breach(with(ids({0, 2, 3}), ids({0, 1}))), "");
  EXPECT_THAT(breach(with(ids({0, 1, 3}), ids({0, 1}))), HasSubstr("edge 0 joins two graphs"));
  EXPECT_THAT(
      breach(with(ids({0, 0, 3}), ids({0, 1}))), HasSubstr("graph 0: expected at least one node")
  );
  EXPECT_THAT(
      breach(with(ids({0, 2}), ids({0}))), HasSubstr("must run from 0 to the number of nodes")
  );
  EXPECT_THAT(breach(with(ids({0, 3}), ids({0, 1}))), HasSubstr("node offsets [G + 1]"));
}

// Of three shares, those that find something wrong.
std::vector<int64_t> shares_that_refuse(const std::function<void(Dataset&)>& change) {
  Dataset dataset = small();
  change(dataset);
  SilentProgressBar silent;
  std::vector<int64_t> shares;
  for (int64_t index = 0; index < 3; ++index) {
    if (!check_contents(dataset, "here", {.index = index, .count = 3}, silent)) {
      shares.push_back(index);
    }
  }
  return shares;
}

TEST(CheckContents, FindsEachFaultInOneShare) {
  EXPECT_THAT(shares_that_refuse([](Dataset&) {}), IsEmpty());
  for (int64_t row = 0; row < 3; ++row) {
    const auto spoil = [row](Dataset& dataset) {
      at::Tensor rows = at::zeros({3, 2});
      rows[row][0] = std::numeric_limits<float>::infinity();
      dataset.node_types[0].features = *FeatureStore::create(rows);
    };
    EXPECT_THAT(shares_that_refuse(spoil), ElementsAre(row));
    const auto spoil_edge = [row](Dataset& dataset) {
      at::Tensor rows = at::zeros({3, 2});
      rows[row][1] = std::numeric_limits<float>::quiet_NaN();
      dataset.edge_types[0].graph = *CscGraph::create(ids({0, 1, 2, 3}), ids({0, 1, 2}), 3);
      dataset.edge_types[0].features = *FeatureStore::create(rows);
    };
    EXPECT_THAT(shares_that_refuse(spoil_edge), ElementsAre(row));
    const auto leave = [row](Dataset& dataset) {
      at::Tensor sources = at::arange(3, at::kLong);
      sources[row] = 3;
      dataset.edge_types[0].graph =
          *CscGraph::create_unchecked(ids({0, 1, 2, 3}), std::move(sources), 3);
    };
    EXPECT_THAT(shares_that_refuse(leave), ElementsAre(row));
    const auto join = [row](Dataset& dataset) {
      at::Tensor sources = at::arange(3, at::kLong);
      sources[row] = (row + 1) % 3;
      dataset.edge_types[0].graph = *CscGraph::create(ids({0, 1, 2, 3}), std::move(sources), 3);
      dataset.graphs = GraphCollection{.node_offsets = ids({0, 1, 2, 3}), .labels = ids({0, 0, 0})};
    };
    EXPECT_THAT(shares_that_refuse(join), ElementsAre(row));
  }
}

TEST(CheckContents, TakesListsThatAreWrongInAnotherShare) {
  const auto damage = [](Dataset& dataset) {
    dataset.edge_types[0].graph =
        *CscGraph::create_unchecked(ids({0, -900000, 900000, 3}), ids({0, 1, 2}), 3);
    dataset.graphs = GraphCollection{.node_offsets = ids({0, 1, 2, 3}), .labels = ids({0, 0, 0})};
  };
  EXPECT_THAT(shares_that_refuse(damage), Contains(0));
}

TEST(FeatureStore, GathersRowsOfAnyType) {
  for (const at::ScalarType type :
       {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble, at::kLong, at::kByte}) {
    const at::Tensor rows = at::arange(12, at::kFloat).view({4, 3}).to(type);
    const auto store = FeatureStore::create(rows);
    ASSERT_TRUE(store);
    EXPECT_EQ(store->dtype(), type);
    EXPECT_EQ(store->row(2) - store->row(0), 2 * store->row_bytes());
    EXPECT_TRUE(at::equal(store->gather(ids({3, 0, 3})), rows.index_select(0, ids({3, 0, 3}))));
    EXPECT_EQ(store->gather(ids({})).size(0), 0);
  }
  const auto store = FeatureStore::create(at::zeros({4, 3}));
  EXPECT_THROW(static_cast<void>(store->gather(ids({4}))), c10::Error);
  EXPECT_THROW(static_cast<void>(store->gather(ids({-1}))), c10::Error);
  EXPECT_THAT(
      FeatureStore::create(at::zeros({4})).error().message,
      HasSubstr("expected a dense [rows, width] matrix")
  );
  EXPECT_FALSE(FeatureStore::create({}));
}

}  // namespace
}  // namespace gnn::graph
