#include "worker/tasks/link_split.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gnn::tasks {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using Pair = std::pair<int64_t, int64_t>;

std::vector<int64_t> values(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.to(at::kLong).contiguous();
  return {dense.const_data_ptr<int64_t>(), dense.const_data_ptr<int64_t>() + dense.numel()};
}

std::vector<Pair> rows(const at::Tensor& pairs) {
  const std::vector<int64_t> flat = values(pairs);
  std::vector<Pair> result;
  for (size_t i = 0; i < flat.size(); i += 2) result.emplace_back(flat[i], flat[i + 1]);
  return result;
}

at::Tensor tensor_of(const std::vector<Pair>& pairs) {
  std::vector<int64_t> flat;
  for (const auto& [source, destination] : pairs) flat.insert(flat.end(), {source, destination});
  return at::tensor(flat, at::kLong).view({-1, 2});
}

// Edge k joins source 7k mod 9 and destination 5k mod 11.
Links bipartite(int64_t num_links) {
  std::vector<Pair> pairs;
  for (int64_t k = 0; k < num_links; ++k) pairs.emplace_back(7 * k % 9, 5 * k % 11);
  return {.pairs = tensor_of(pairs), .num_sources = 9, .num_destinations = 11};
}

// An undirected ring of eight nodes with three chords and a loop.
Links ring() {
  std::vector<Pair> pairs;
  for (int64_t k = 0; k < 8; ++k) pairs.emplace_back(k, (k + 1) % 8);
  for (const Pair& chord : {Pair{0, 4}, Pair{2, 6}, Pair{1, 5}}) pairs.push_back(chord);
  pairs.emplace_back(3, 3);
  for (auto& [source, destination] : pairs) {
    if (source > destination) std::swap(source, destination);
  }
  return {
      .pairs = tensor_of(pairs),
      .num_sources = 8,
      .num_destinations = 8,
      .same_type = true,
      .undirected = true
  };
}

std::vector<Pair> ends_of(const Links& links, const at::Tensor& ids) {
  return rows(links.pairs.index_select(0, ids));
}

// Recorded with PyTorch 2.11.0 and PyG 2.8.1: torch.manual_seed(12345), then RandomLinkSplit(
// num_val=0.1, num_test=0.25, disjoint_train_ratio=0.3, neg_sampling_ratio=1.5,
// add_negative_train_samples=False, edge_types=..., rev_edge_types=...).
TEST(LinkSplit, IsThatOfPyGForTheSameSeed) {
  const LinkSplit split = split_links(
                              bipartite(37),
                              {.validation = 0.1,
                               .test = 0.25,
                               .disjoint_train = 0.3,
                               .negative_ratio = 1.5,
                               .seed = 12345}
  )
                              .value();
  const std::vector<int64_t> supervision{24, 34, 12, 36, 31, 14, 3};
  const std::vector<int64_t> messages{
      15, 32, 19, 4, 28, 13, 30, 9, 27, 17, 0, 22, 5, 16, 23, 33, 20, 1
  };
  const std::vector<int64_t> validation{35, 18, 10};
  const std::vector<int64_t> test{8, 6, 11, 2, 25, 21, 7, 29, 26};
  EXPECT_EQ(values(split.train), supervision);
  std::vector<int64_t> train = supervision;
  train.insert(train.end(), messages.begin(), messages.end());
  EXPECT_EQ(values(split.train_links), train);
  EXPECT_EQ(values(split.validation), validation);
  EXPECT_EQ(values(split.test), test);
  EXPECT_EQ(split.validation_negatives.size(0), 4);
  EXPECT_EQ(split.test_negatives.size(0), 13);
  const std::vector<int64_t> parts = values(split.parts);
  for (const int64_t id : messages) EXPECT_EQ(parts[static_cast<size_t>(id)], 0);
  for (const int64_t id : supervision) EXPECT_EQ(parts[static_cast<size_t>(id)], 1);
  for (const int64_t id : validation) EXPECT_EQ(parts[static_cast<size_t>(id)], 2);
  for (const int64_t id : test) EXPECT_EQ(parts[static_cast<size_t>(id)], 3);
}

// The same with torch.manual_seed(7) and RandomLinkSplit(num_val=0.2, num_test=0.3,
// is_undirected=True).
TEST(LinkSplit, SplitsUndirectedLinksAsPyGDoes) {
  const Links links = ring();
  const LinkSplit split = split_links(links, {.validation = 0.2, .test = 0.3, .seed = 7}).value();
  EXPECT_THAT(
      ends_of(links, split.train),
      ElementsAreArray({Pair{3, 4}, {4, 5}, {0, 1}, {5, 6}, {0, 7}, {2, 6}, {3, 3}})
  );
  EXPECT_THAT(ends_of(links, split.validation), ElementsAreArray({Pair{6, 7}, {0, 4}}));
  EXPECT_THAT(ends_of(links, split.test), ElementsAreArray({Pair{1, 2}, {1, 5}, {2, 3}}));
  for (const auto& [source, destination] : rows(split.test_negatives))
    EXPECT_LT(source, destination);
}

// As torch.randperm(n, generator=torch.Generator().manual_seed(seed)) of PyTorch 2.11.0.
TEST(LinkSplit, PermutesAsPyTorch) {
  const auto order = [](int64_t num_links, uint64_t seed) {
    Links links{.pairs = {}, .num_sources = 1, .num_destinations = 1};
    links.pairs = at::zeros({num_links, 2}, at::kLong);
    return values(split_links(links, {.seed = seed}).value().train);
  };
  EXPECT_EQ(order(23, 0), (std::vector<int64_t>{19, 8,  16, 3,  15, 20, 22, 14, 4,  7, 6, 13,
                                                9,  10, 1,  12, 5,  17, 11, 2,  18, 0, 21}));
  EXPECT_EQ(order(23, 12345), (std::vector<int64_t>{19, 16, 5, 1, 22, 12, 13, 21, 14, 0, 8, 2,
                                                    17, 18, 4, 7, 11, 20, 10, 15, 9,  3, 6}));
  const std::vector<int64_t> large = order(100'000, 7);
  EXPECT_THAT(
      std::vector<int64_t>(large.begin(), large.begin() + 5),
      ElementsAreArray({41615, 23657, 92717, 16389, 28607})
  );
  EXPECT_THAT(
      std::vector<int64_t>(large.end() - 3, large.end()), ElementsAreArray({52301, 18202, 73623})
  );
}

TEST(LinkSplit, CountsAsPython) {
  Links links = bipartite(50);
  const LinkSplit split = split_links(links, {.validation = 0.07, .test = 0.58}).value();
  EXPECT_EQ(split.validation.numel(), 3);  // int(0.07 * 50), 3.5000000000000004
  EXPECT_EQ(split.test.numel(), 28);       // int(0.58 * 50), 28.999999999999996
  EXPECT_EQ(split.train.numel(), 19);
}

TEST(LinkSplit, DrawsNegativesThatAreFreeInAllPartsAndDistinct) {
  for (const bool same_type : {false, true}) {
    Links links = bipartite(40);
    if (same_type) {
      links.num_sources = 11;
      links.same_type = true;
    }
    const std::vector<Pair> edges = rows(links.pairs);
    std::set<Pair> taken(edges.begin(), edges.end());
    const LinkSplitOptions options{.validation = 0.3, .test = 0.3, .negative_ratio = 1, .seed = 5};
    const LinkSplit split = split_links(links, options).value();
    EXPECT_EQ(split.validation_negatives.size(0), 12);
    EXPECT_EQ(split.test_negatives.size(0), 12);
    for (const at::Tensor& negatives : {split.validation_negatives, split.test_negatives}) {
      for (const Pair& pair : rows(negatives)) {
        EXPECT_TRUE(taken.insert(pair).second) << pair.first << " " << pair.second;
        if (same_type) {
          EXPECT_NE(pair.first, pair.second);
        }
      }
    }
    const LinkSplit again = split_links(links, options).value();
    EXPECT_TRUE(again.validation_negatives.equal(split.validation_negatives));
    EXPECT_TRUE(again.test_negatives.equal(split.test_negatives));
    LinkSplitOptions other = options;
    other.seed = 6;
    EXPECT_FALSE(split_links(links, other)->validation_negatives.equal(split.validation_negatives));
  }
}

TEST(LinkSplit, NamesNegativesThatDoNotExist) {
  std::vector<Pair> pairs;
  for (int64_t source = 0; source < 4; ++source) {
    for (int64_t destination = 0; destination < 5; ++destination)
      pairs.emplace_back(source, destination);
  }
  const Links complete{.pairs = tensor_of(pairs), .num_sources = 4, .num_destinations = 5};
  const auto error = split_links(complete, {.validation = 0.1, .test = 0.1}).error();
  EXPECT_EQ(error.kind, ErrorKind::Data);
  EXPECT_EQ(
      error.message,
      "dataset.split.negativeRatio: needs 4 pairs of nodes without a link, but the graph has only "
      "0; lower it, or validation and test"
  );
  EXPECT_TRUE(split_links(complete, {.validation = 0.1, .test = 0.1, .negative_ratio = 0}));
}

TEST(LinkSplit, NamesThePartThatWouldBeEmpty) {
  EXPECT_THAT(
      split_links(bipartite(2), {.validation = 0.5, .test = 0.5}).error().message,
      HasSubstr("leave none of 2 links to train on")
  );
  EXPECT_THAT(
      split_links(bipartite(2), {.disjoint_train = 1}).error().message,
      HasSubstr("dataset.split.disjointTrain")
  );
  EXPECT_EQ(
      split_links(bipartite(20), {.test = 0.2, .negative_ratio = 0.2}).error().message,
      "dataset.split.negativeRatio: leaves no negative for the 4 test links; raise it"
  );
  EXPECT_THAT(
      split_links({.pairs = tensor_of({{0, 9}}), .num_sources = 1, .num_destinations = 9}, {})
          .error()
          .message,
      HasSubstr("link 0: expected a pair of nodes below 1 and 9")
  );
}

TEST(RankingNegatives, AreFreeInAllPartsAndOfTheLinkAlone) {
  const Links links = bipartite(40);
  const LinkSplit split = split_links(links, {.validation = 0.2, .test = 0.2}).value();
  const at::Tensor negatives =
      ranking_negatives(links, {.ids = split.test, .count = 4, .seed = 2}).value();
  EXPECT_EQ(negatives.sizes(), (std::vector<int64_t>{8, 4, 2}));
  const std::vector<Pair> edges = rows(links.pairs);
  const std::set<Pair> taken(edges.begin(), edges.end());
  for (int64_t i = 0; i < 8; ++i) {
    const int64_t source = links.pairs[split.test[i].item<int64_t>()][0].item<int64_t>();
    const std::vector<Pair> drawn = rows(negatives[i]);
    EXPECT_EQ(std::set<Pair>(drawn.begin(), drawn.end()).size(), 4U);
    for (const Pair& pair : drawn) {
      EXPECT_EQ(pair.first, source);
      EXPECT_FALSE(taken.contains(pair));
    }
  }
  const at::Tensor one = split.test.slice(0, 3, 4).contiguous();
  EXPECT_TRUE(
      ranking_negatives(links, {.ids = one, .count = 4, .seed = 2}).value()[0].equal(negatives[3])
  );
  EXPECT_THAT(
      ranking_negatives(links, {.ids = one, .count = 12}).error().message,
      HasSubstr("training.evaluation.negatives: needs 12 destinations")
  );
}

TEST(RankingNegatives, PutUndirectedPairsInOrder) {
  const Links links = ring();
  const LinkSplit split = split_links(links, {.test = 0.3, .seed = 7}).value();
  const at::Tensor negatives = ranking_negatives(links, {.ids = split.test, .count = 3}).value();
  const std::vector<Pair> edges = rows(links.pairs);
  for (const Pair& pair : rows(negatives)) {
    EXPECT_LT(pair.first, pair.second);
    EXPECT_EQ(std::count(edges.begin(), edges.end(), pair), 0);
  }
}

}  // namespace
}  // namespace gnn::tasks
