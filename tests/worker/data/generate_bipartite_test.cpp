#include "worker/data/generate_bipartite.h"

#include "tests/worker/data/files.h"
#include "worker/data/counter_random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace gnn::data {
namespace {

using ::testing::HasSubstr;
using testing::to_vector;

class GenerateBipartite : public ::testing::Test {
 protected:
  Result<DatasetArrays> make(double scale, uint64_t seed = 1, double flipped = 0.0) {
    return generate(
        {.shape = Shape::Taobao, .scale = scale, .seed = seed, .flipped_labels = flipped},
        memory_,
        silent_
    );
  }
  MemoryStorage memory_;
  SilentProgressBar silent_;
};

TEST_F(GenerateBipartite, HasTheSizeOfTheOriginal) {
  const auto dataset = make(0.01);
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->name, "taobao-synthetic");
  ASSERT_EQ(dataset->node_tables.size(), 2U);
  EXPECT_EQ(dataset->node_tables[0].name, "user");
  EXPECT_EQ(dataset->node_tables[0].num_nodes, 9'880);
  EXPECT_EQ(dataset->node_tables[1].name, "item");
  EXPECT_EQ(dataset->node_tables[1].num_nodes, 41'620);
  ASSERT_EQ(dataset->edge_tables.size(), 1U);
  const EdgeTable& edges = dataset->edge_tables[0];
  EXPECT_EQ(edges.source + " " + edges.relation + " " + edges.destination, "user to item");
  EXPECT_EQ(edges.indices.num_elements(), 1'001'508);
  std::vector<int64_t> ids = to_vector<int64_t>(edges.edge_ids);
  std::sort(ids.begin(), ids.end());
  for (size_t i = 0; i < ids.size(); ++i) {
    ASSERT_EQ(ids[i], static_cast<int64_t>(i));
  }
}

TEST_F(GenerateBipartite, IsAFunctionOfItsOptions) {
  const auto first = make(0.001);
  const auto again = make(0.001);
  const auto other = make(0.001, 2);
  const auto indices_of = [](const Result<DatasetArrays>& dataset) {
    return to_vector<int32_t>(dataset->edge_tables[0].indices);
  };
  EXPECT_EQ(indices_of(first), indices_of(again));
  EXPECT_NE(indices_of(first), indices_of(other));
}

// Users as active as the original's most active one, 8.4 times the mean. The share of the most
// popular item grows with the size of its community. Equal pairs come from repeats and, for hubs, by
// chance.
TEST_F(GenerateBipartite, HasHeavyTailsAndRepeatedPairs) {
  const auto dataset = make(0.02);
  const auto indptr = to_vector<int64_t>(dataset->edge_tables[0].indptr);
  const auto users = to_vector<int32_t>(dataset->edge_tables[0].indices);
  std::vector<int64_t> user_degrees(static_cast<size_t>(dataset->node_tables[0].num_nodes));
  int64_t largest_item = 0;
  int64_t repeated = 0;
  for (size_t item = 0; item + 1 < indptr.size(); ++item) {
    largest_item = std::max(largest_item, indptr[item + 1] - indptr[item]);
    for (int64_t place = indptr[item]; place < indptr[item + 1]; ++place) {
      const auto at = static_cast<size_t>(place);
      ++user_degrees[static_cast<size_t>(users[at])];
      repeated += place > indptr[item] && users[at] == users[at - 1] ? 1 : 0;
    }
  }
  const auto links = static_cast<double>(users.size());
  const double mean_user = links / static_cast<double>(user_degrees.size());
  const double mean_item = links / static_cast<double>(indptr.size() - 1);
  EXPECT_NEAR(mean_user, 101.4, 0.1);
  EXPECT_NEAR(mean_item, 24.06, 0.05);
  const int64_t largest_user = *std::max_element(user_degrees.begin(), user_degrees.end());
  EXPECT_NEAR(static_cast<double>(largest_user) / mean_user, 8.4, 1.2);
  EXPECT_GT(static_cast<double>(largest_item) / mean_item, 100.0);
  EXPECT_GT(static_cast<double>(repeated) / links, PlantedLinks::kRepeats);
}

// AUC by its definition, from ranks.
double auc(std::vector<std::pair<double, bool>> scored) {
  std::sort(scored.begin(), scored.end());
  double positives_beaten = 0;
  double negatives = 0;
  double positives = 0;
  for (size_t begin = 0, end = 0; begin < scored.size(); begin = end) {
    double of_positives = 0;
    double of_negatives = 0;
    for (; end < scored.size() && scored[end].first == scored[begin].first; ++end) {
      (scored[end].second ? of_positives : of_negatives) += 1;
    }
    positives_beaten += of_positives * (negatives + 0.5 * of_negatives);
    positives += of_positives;
    negatives += of_negatives;
  }
  return positives_beaten / (positives * negatives);
}

// A scorer that knows the planted likelihoods and the links it was shown reaches the ceiling.
TEST_F(GenerateBipartite, CeilingIsWhatTheBestScorerReaches) {
  constexpr PlantedLinks::Sizes kSizes{.users = 1'000, .items = 4'000, .links = 100'000};
  for (const double seen : {0.5, 0.9}) {
    const PlantedLinks links(kSizes, 5);
    const CounterRandom shown(6, 1);
    const CounterRandom others(6, 2);
    std::map<std::pair<int64_t, int64_t>, bool> pairs;  // whether it was shown
    std::vector<std::pair<int64_t, int64_t>> held_out;
    uint64_t link = 0;
    links.for_each_chunk([&](std::span<const int64_t> users, std::span<const int64_t> items) {
      for (size_t i = 0; i < users.size(); ++i) {
        const bool is_shown = shown.uniform(link++) < seen;
        bool& pair_shown = pairs[{users[i], items[i]}];
        pair_shown = pair_shown || is_shown;
        if (!is_shown) held_out.emplace_back(users[i], items[i]);
      }
    });
    std::vector<std::pair<double, bool>> scored;
    for (const auto& [user, item] : held_out) {
      const double score = pairs.at({user, item}) ? 1e9 : links.likelihood(user, item);
      scored.emplace_back(score, true);
    }
    for (uint64_t i = 0; scored.size() < 2 * held_out.size(); ++i) {
      const int64_t user = others.below(2 * i, kSizes.users);
      const int64_t item = others.below(2 * i + 1, kSizes.items);
      if (!pairs.contains({user, item})) {
        scored.emplace_back(links.likelihood(user, item), false);
      }
    }
    // The standard error is below 0.0025.
    const double ceiling = links.auc_ceiling(seen);
    EXPECT_NEAR(auc(scored), ceiling, 0.006) << "seen " << seen;
    EXPECT_GT(ceiling, 0.8);
    EXPECT_LT(ceiling, 0.99);
  }
}

TEST_F(GenerateBipartite, RefusesInvalidOptions) {
  EXPECT_THAT(make(0.0001).error().message, HasSubstr("leaves 99 users, expected at least 256"));
  EXPECT_THAT(make(0.001, 1, 0.1).error().message, HasSubstr("flipped labels: links have none"));
}

}  // namespace
}  // namespace gnn::data
