#include "worker/data/generate.h"

#include "tests/worker/data/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace gnn::data {
namespace {

using ::testing::HasSubstr;
using testing::to_vector;

class Generate : public ::testing::Test {
 protected:
  Result<DatasetArrays> make(Shape shape, double scale, uint64_t seed = 1, double flipped = 0.0) {
    return generate(
        {.shape = shape, .scale = scale, .seed = seed, .flipped_labels = flipped}, memory_, silent_
    );
  }
  MemoryStorage memory_;
  SilentProgressBar silent_;
};

TEST_F(Generate, HasTheShapeOfTheOriginal) {
  const auto dataset = make(Shape::Arxiv, 0.05);
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->node_tables[0].num_nodes, 8467);
  EXPECT_EQ(dataset->node_tables[0].features.shape(), (std::vector<int64_t>{8467, 128}));
  EXPECT_EQ(dataset->num_classes, 40);
  EXPECT_EQ(dataset->edge_tables[0].indices.num_elements(), 2 * 57890);
  EXPECT_EQ(dataset->train.num_elements(), 4546);
  EXPECT_EQ(dataset->validation.num_elements(), 1489);
  EXPECT_EQ(
      dataset->train.num_elements() + dataset->validation.num_elements() +
          dataset->test.num_elements(),
      8467
  );
}

TEST_F(Generate, MakesPapersDirectedWithFewLabels) {
  const auto dataset = make(Shape::Papers100M, 0.0003);
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->node_tables[0].num_nodes, 33318);
  EXPECT_EQ(dataset->edge_tables[0].indices.num_elements(), 484706);
  EXPECT_EQ(dataset->num_classes, 172);
  const auto labels = to_vector<int64_t>(dataset->node_tables[0].labels);
  size_t in_split = 0;
  for (const Array& part : {dataset->train, dataset->validation, dataset->test}) {
    for (const int64_t id : to_vector<int64_t>(part)) {
      ++in_split;
      EXPECT_GE(labels[static_cast<size_t>(id)], 0) << id;
    }
  }
  EXPECT_EQ(dataset->train.num_elements(), 362);
  EXPECT_EQ(
      std::count_if(labels.begin(), labels.end(), [](int64_t c) { return c >= 0; }),
      static_cast<std::ptrdiff_t>(in_split)
  );
  EXPECT_EQ(in_split, 362U + 37U + 64U);
  // Most edges stay in their class: of a labelled node, its labelled neighbours' show it.
  const auto indptr = to_vector<int64_t>(dataset->edge_tables[0].indptr);
  const auto indices = to_vector<int32_t>(dataset->edge_tables[0].indices);
  int64_t same = 0;
  int64_t both = 0;
  for (size_t node = 0; node + 1 < indptr.size(); ++node) {
    for (int64_t edge = indptr[node]; labels[node] >= 0 && edge < indptr[node + 1]; ++edge) {
      const int64_t other = labels[static_cast<size_t>(indices[static_cast<size_t>(edge)])];
      both += other >= 0 ? 1 : 0;
      same += other == labels[node] ? 1 : 0;
    }
  }
  EXPECT_GT(both, 50);
  EXPECT_NEAR(static_cast<double>(same) / static_cast<double>(both), 0.8, 0.2);
}

TEST_F(Generate, IsAFunctionOfItsOptions) {
  const auto first = make(Shape::Products, 0.001);
  const auto again = make(Shape::Products, 0.001);
  const auto other = make(Shape::Products, 0.001, 2);
  EXPECT_EQ(
      to_vector<int32_t>(first->edge_tables[0].indices),
      to_vector<int32_t>(again->edge_tables[0].indices)
  );
  EXPECT_EQ(
      to_vector<float>(first->node_tables[0].features),
      to_vector<float>(again->node_tables[0].features)
  );
  EXPECT_EQ(to_vector<int64_t>(first->train), to_vector<int64_t>(again->train));
  EXPECT_NE(
      to_vector<int32_t>(first->edge_tables[0].indices),
      to_vector<int32_t>(other->edge_tables[0].indices)
  );
}

TEST_F(Generate, IsUndirectedSimpleAndHeavyTailed) {
  const auto dataset = make(Shape::Arxiv, 0.1);
  const auto indptr = to_vector<int64_t>(dataset->edge_tables[0].indptr);
  const auto indices = to_vector<int32_t>(dataset->edge_tables[0].indices);
  const auto labels = to_vector<int64_t>(dataset->node_tables[0].labels);
  int64_t largest = 0;
  int64_t same_class = 0;
  int64_t isolated = 0;
  for (size_t node = 0; node + 1 < indptr.size(); ++node) {
    largest = std::max(largest, indptr[node + 1] - indptr[node]);
    isolated += indptr[node + 1] == indptr[node] ? 1 : 0;
    for (int64_t edge = indptr[node]; edge < indptr[node + 1]; ++edge) {
      const auto source = static_cast<size_t>(indices[static_cast<size_t>(edge)]);
      ASSERT_NE(source, node);
      ASSERT_TRUE(
          edge == indptr[node] ||
          indices[static_cast<size_t>(edge) - 1] < indices[static_cast<size_t>(edge)]
      );
      const auto from = indices.begin() + indptr[source];
      const auto to = indices.begin() + indptr[source + 1];
      ASSERT_TRUE(std::binary_search(from, to, static_cast<int32_t>(node)));
      same_class += labels[source] == labels[node] ? 1 : 0;
    }
  }
  const auto edges = static_cast<double>(indices.size());
  const double mean = edges / static_cast<double>(labels.size());
  EXPECT_NEAR(mean, 13.67, 0.02);
  EXPECT_GT(static_cast<double>(largest), 15 * mean);
  EXPECT_LT(static_cast<double>(isolated), 0.02 * static_cast<double>(labels.size()));
  EXPECT_NEAR(static_cast<double>(same_class) / edges, kHomophily, 0.05);
}

TEST_F(Generate, FlipsTheStatedFractionOfLabels) {
  const auto clean = make(Shape::Arxiv, 0.2);
  const auto noisy = make(Shape::Arxiv, 0.2, 1, 0.3);
  const auto before = to_vector<int64_t>(clean->node_tables[0].labels);
  const auto after = to_vector<int64_t>(noisy->node_tables[0].labels);
  int64_t same = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    same += before[i] == after[i] ? 1 : 0;
  }
  // 33,869 nodes: three standard errors are 0.0074.
  const double share = static_cast<double>(same) / static_cast<double>(before.size());
  EXPECT_NEAR(share, accuracy_ceiling(0.3, 40), 0.0075);
  EXPECT_DOUBLE_EQ(accuracy_ceiling(0.3, 40), 1.0 - 0.3 * 39.0 / 40.0);
}

TEST_F(Generate, FeaturesAreTheCommunityMeanPlusUnitNoise) {
  const auto dataset = make(Shape::Arxiv, 0.1);
  const auto features = to_vector<float>(dataset->node_tables[0].features);
  const auto labels = to_vector<int64_t>(dataset->node_tables[0].labels);
  double sum = 0;
  double squares = 0;
  int64_t rows = 0;
  for (size_t node = 0; node < labels.size(); ++node) {
    if (labels[node] == 0) {
      sum += static_cast<double>(features[node * 128]);
      squares +=
          static_cast<double>(features[node * 128]) * static_cast<double>(features[node * 128]);
      ++rows;
    }
  }
  const double mean = sum / static_cast<double>(rows);
  EXPECT_NEAR(std::abs(mean), static_cast<double>(kSignal) / std::sqrt(128.0), 0.15);
  EXPECT_NEAR(squares / static_cast<double>(rows) - mean * mean, 1.0, 0.2);
}

TEST_F(Generate, MatchesPyGsFakeDataset) {
  const auto dataset = make(Shape::FakeDataset, 0.1);
  ASSERT_TRUE(dataset) << dataset.error().message;
  const int64_t nodes = dataset->node_tables[0].num_nodes;
  EXPECT_GE(nodes, 7500);
  EXPECT_LE(nodes, 12500);
  EXPECT_EQ(dataset->num_classes, 10);
  EXPECT_EQ(dataset->node_tables[0].features.size(1), 64);
  EXPECT_NEAR(
      static_cast<double>(dataset->edge_tables[0].indices.num_elements()) /
          static_cast<double>(nodes),
      20.0,
      0.1
  );
  EXPECT_NEAR(
      static_cast<double>(dataset->train.num_elements()) / static_cast<double>(nodes), 0.6, 0.001
  );
}

TEST_F(Generate, RefusesInvalidOptions) {
  EXPECT_THAT(
      make(Shape::Arxiv, 0.0001).error().message, HasSubstr("leaves 17 nodes of ogbn-arxiv")
  );
  EXPECT_FALSE(make(Shape::Arxiv, 0.0));
  EXPECT_FALSE(make(Shape::Arxiv, NAN));
  EXPECT_FALSE(make(Shape::Arxiv, 0.1, 1, 1.5));
  EXPECT_THAT(
      parse_shape("mag").error().message,
      HasSubstr("ogbn-arxiv, ogbn-products, reddit, fake-dataset")
  );
}

}  // namespace
}  // namespace gnn::data
