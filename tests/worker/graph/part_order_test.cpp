#include "worker/graph/part_order.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gnn::graph {
namespace {

at::Tensor ids_of(const std::vector<int64_t>& values) {
  return at::tensor(values, at::kLong);
}

at::Tensor parts_of(const std::vector<int64_t>& values) {
  return at::tensor(values, at::kLong).to(at::kByte);
}

// Into node 0: edges 3, 0, 4, 1; into node 2: edge 2; none into node 1.
CscGraph lists(at::ScalarType type) {
  return CscGraph::create(
             ids_of({0, 4, 4, 5}), ids_of({5, 6, 7, 8, 9}).to(type), 10, ids_of({3, 0, 4, 1, 2})
  )
      .value();
}

TEST(OrderByPart, MakesTheFirstPartsAPrefixOfEachList) {
  for (const at::ScalarType type : {at::kInt, at::kLong}) {
    const CscGraph graph = lists(type);
    // By edge id 0..4.
    const PartOrder order = order_by_part(graph, parts_of({2, 0, 3, 0, 1}), 4).value();
    EXPECT_EQ(order.graph.indices().scalar_type(), type);
    EXPECT_TRUE(order.graph.indptr().equal(graph.indptr()));
    EXPECT_TRUE(order.graph.edge_ids().equal(ids_of({3, 1, 4, 0, 2})));
    EXPECT_TRUE(order.graph.indices().equal(ids_of({5, 8, 7, 6, 9}).to(type)));
    ASSERT_EQ(order.ends.size(), 3U);
    EXPECT_TRUE(order.ends[0].equal(ids_of({2, 4, 4})));
    EXPECT_TRUE(order.ends[1].equal(ids_of({3, 4, 4})));
    EXPECT_TRUE(order.ends[2].equal(ids_of({4, 4, 4})));
    // The given graph stays as it is.
    EXPECT_TRUE(graph.edge_ids().equal(ids_of({3, 0, 4, 1, 2})));
  }
}

TEST(OrderByPart, TakesPositionsForTheIdsOfAGraphWithoutThem) {
  const CscGraph graph = CscGraph::create(ids_of({0, 3}), ids_of({0, 1, 2}), 3).value();
  const PartOrder order = order_by_part(graph, parts_of({1, 0, 1}), 2).value();
  EXPECT_TRUE(order.graph.edge_ids().equal(ids_of({1, 0, 2})));
  EXPECT_TRUE(order.graph.indices().equal(ids_of({1, 0, 2})));
  EXPECT_TRUE(order.ends[0].equal(ids_of({1})));
}

// A relation and its reverse share edge ids, and so what each part may see.
TEST(OrderByPart, CutsARelationAndItsReverseAlike) {
  at::manual_seed(1);
  const int64_t num_edges = 500;
  const at::Tensor parts = at::randint(0, 4, {num_edges}, at::kLong).to(at::kByte);
  const at::Tensor sources = at::randint(0, 30, {num_edges}, at::kLong);
  const at::Tensor destinations = at::randint(0, 20, {num_edges}, at::kLong);
  const auto csc = [&](const at::Tensor& from,
                       const at::Tensor& to,
                       int64_t num_from,
                       int64_t num_to) {
    const at::Tensor order = to.argsort(/*stable=*/true);
    at::Tensor indptr = at::zeros({num_to + 1}, at::kLong);
    indptr.slice(0, 1).copy_(at::bincount(to, {}, num_to).cumsum(0));
    return CscGraph::create(indptr, from.index({order}).contiguous(), num_from, order.contiguous())
        .value();
  };
  const auto visible = [&](const PartOrder& order, size_t part) {
    std::vector<int64_t> ids;
    const auto indptr = order.graph.indptr();
    for (int64_t node = 0; node < order.graph.num_destinations(); ++node) {
      for (int64_t e = indptr[node].item<int64_t>(); e < order.ends[part][node].item<int64_t>();
           ++e)
        ids.push_back(order.graph.edge_ids()[e].item<int64_t>());
    }
    std::sort(ids.begin(), ids.end());
    return ids;
  };
  const PartOrder there = order_by_part(csc(sources, destinations, 30, 20), parts, 4).value();
  const PartOrder back = order_by_part(csc(destinations, sources, 20, 30), parts, 4).value();
  for (size_t part = 0; part < 3; ++part) {
    std::vector<int64_t> expected;
    for (int64_t id = 0; id < num_edges; ++id) {
      if (parts[id].item<int64_t>() <= static_cast<int64_t>(part)) expected.push_back(id);
    }
    EXPECT_EQ(visible(there, part), expected);
    EXPECT_EQ(visible(back, part), expected);
  }
  // Each list holds what it held.
  for (int64_t e = 0; e < num_edges; ++e) {
    const auto id = there.graph.edge_ids()[e].item<int64_t>();
    EXPECT_EQ(there.graph.indices()[e].item<int64_t>(), sources[id].item<int64_t>());
  }
}

TEST(OrderByPart, NamesTheFirstEdgeOutOfRange) {
  EXPECT_EQ(
      order_by_part(lists(at::kInt), parts_of({0, 0, 0, 0}), 1).error().message,
      "edge_ids[2]: expected an edge id in [0, 4), found 4"
  );
  EXPECT_EQ(
      order_by_part(lists(at::kInt), parts_of({0, 2, 0, 1, 0}), 2).error().message,
      "edge 1: expected a part in [0, 2), found 2"
  );
  EXPECT_THROW((void)order_by_part(lists(at::kInt), ids_of({0}), 2), c10::Error);
}

TEST(OrderByPart, OrdersAGraphWithoutEdges) {
  const CscGraph graph = CscGraph::create(ids_of({0, 0}), at::empty({0}, at::kInt), 1).value();
  const PartOrder order = order_by_part(graph, at::empty({0}, at::kByte), 3).value();
  EXPECT_TRUE(order.ends[1].equal(ids_of({0})));
}

}  // namespace
}  // namespace gnn::graph
