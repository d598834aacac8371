#include "worker/loader/link_loader.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gnn::loader {
namespace {

using sampling::NeighborSampler;
using sampling::NeighborSamplerOptions;
using sampling::Relation;
using sampling::core::NegativeSampler;
using LinkPair = std::pair<int64_t, int64_t>;

constexpr int64_t kUsers = 300;
constexpr int64_t kItems = 200;
constexpr int64_t kLinks = 1000;

std::vector<int64_t> longs_of(const at::Tensor& tensor) {
  const at::Tensor wide = tensor.to(at::kLong).contiguous();
  return {wide.const_data_ptr<int64_t>(), wide.const_data_ptr<int64_t>() + wide.numel()};
}

// In-neighbour lists of the edges from `sources` to `destinations`.
graph::CscGraph csc(
    const at::Tensor& sources, const at::Tensor& destinations, int64_t num_from, int64_t num_to
) {
  const at::Tensor order = destinations.argsort(/*stable=*/true);
  at::Tensor indptr = at::zeros({num_to + 1}, at::kLong);
  indptr.slice(0, 1).copy_(at::bincount(destinations, {}, num_to).cumsum(0));
  return graph::CscGraph::create(
             indptr, sources.index({order}).to(at::kInt).contiguous(), num_from, order.contiguous()
  )
      .value();
}

// Users 0..299 and items 0..199, links of many users to few items, some of them parallel, and the
// same edges backwards.
struct Shop {
  at::Tensor pairs = make_pairs();
  at::Tensor users = pairs.select(1, 0).contiguous();
  at::Tensor items = pairs.select(1, 1).contiguous();
  at::Tensor user_rows = at::arange(kUsers * 3, at::kFloat).reshape({kUsers, 3});
  at::Tensor item_rows = at::arange(kItems * 2, at::kFloat).reshape({kItems, 2});

  static at::Tensor make_pairs() {
    std::vector<int64_t> flat;
    for (int64_t k = 0; k < kLinks; ++k) {
      flat.push_back(k * k % 299 + k % 2);
      flat.push_back(k % 10 < 5 ? k * 7 % 20 : k * 31 % kItems);
    }
    return at::tensor(flat, at::kLong).view({kLinks, 2});
  }

  [[nodiscard]] std::shared_ptr<sampling::Sampler> sampler(std::vector<int64_t> fanout) const {
    NeighborSamplerOptions options;
    options.fanout = std::move(fanout);
    std::vector<Relation> relations{
        {.graph = csc(users, items, kUsers, kItems), .source_type = 0, .destination_type = 1},
        {.graph = csc(items, users, kItems, kUsers), .source_type = 1, .destination_type = 0}
    };
    return std::make_shared<sampling::LocalSampler>(
        NeighborSampler::create(options, {kUsers, kItems}, std::move(relations)).value()
    );
  }

  [[nodiscard]] std::vector<std::shared_ptr<FeatureFetcher>> fetchers() const {
    std::vector<std::shared_ptr<FeatureFetcher>> all;
    for (const at::Tensor& rows : {user_rows, item_rows}) {
      all.push_back(std::make_shared<LocalFeatureFetcher>(LocalFeatureFetcher::create(rows).value())
      );
    }
    return all;
  }

  [[nodiscard]] LinkItems drawn(double amount = 1) const {
    LinkItems links;
    links.pairs = pairs;
    links.sampler = std::make_shared<const NegativeSampler>(
        NegativeSampler::create({.shape = {kUsers, kItems}, .amount = amount}).value()
    );
    return links;
  }

  [[nodiscard]] std::unique_ptr<LinkLoader> loader(
      const LinkLoaderOptions& options, const LinkItems& links
  ) const {
    return LinkLoader::create(options, links, sampler({5, 3}), fetchers()).value();
  }
};

LinkLoaderOptions link_options(int64_t num_threads = 1, int64_t prefetch = 2) {
  LinkLoaderOptions options;
  options.items.batch_size = 64;
  options.items.shuffle = true;
  options.items.seed = 3;
  options.batches.num_node_types = 2;
  options.batches.relations = {
      .source_type = 0, .destination_type = 1, .forward = 0, .backward = 1
  };
  options.num_threads = num_threads;
  options.prefetch = prefetch;
  return options;
}

std::vector<LinkMiniBatch> read_links(LinkLoader& loader, int64_t epoch, int64_t first_batch = 0) {
  EXPECT_TRUE(loader.start_epoch(epoch, first_batch));
  std::vector<LinkMiniBatch> batches;
  while (true) {
    auto batch = loader.next();
    EXPECT_TRUE(batch) << batch.error().message;
    if (!batch || !batch->has_value()) return batches;
    batches.push_back(std::move(**batch));
  }
}

// The links of a batch by global ids, its negatives last.
std::vector<LinkPair> links_of(
    const LinkMiniBatch& batch, size_t source_type, size_t destination_type
) {
  const auto sources =
      longs_of(batch.subgraph.node_ids[source_type].index_select(0, batch.source_rows));
  const auto destinations =
      longs_of(batch.subgraph.node_ids[destination_type].index_select(0, batch.destination_rows));
  std::vector<LinkPair> links;
  for (size_t i = 0; i < sources.size(); ++i) links.emplace_back(sources[i], destinations[i]);
  return links;
}

std::vector<LinkPair> rows_of(const at::Tensor& pairs) {
  const std::vector<int64_t> flat = longs_of(pairs);
  std::vector<LinkPair> rows;
  for (size_t i = 0; i < flat.size(); i += 2) rows.emplace_back(flat[i], flat[i + 1]);
  return rows;
}

void expect_same_links(const std::vector<LinkMiniBatch>& a, const std::vector<LinkMiniBatch>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].batch_index, b[i].batch_index);
    EXPECT_EQ(a[i].positives, b[i].positives);
    EXPECT_TRUE(a[i].source_rows.equal(b[i].source_rows));
    EXPECT_TRUE(a[i].destination_rows.equal(b[i].destination_rows));
    EXPECT_TRUE(a[i].labels.equal(b[i].labels));
    for (size_t type = 0; type < 2; ++type) {
      EXPECT_TRUE(a[i].x[type].equal(b[i].x[type]));
      EXPECT_TRUE(a[i].subgraph.node_ids[type].equal(b[i].subgraph.node_ids[type]));
      EXPECT_TRUE(a[i].subgraph.blocks[0][type].indices.equal(b[i].subgraph.blocks[0][type].indices)
      );
    }
  }
}

TEST(LinkLoader, GivesEveryLinkOnceWithItsNegativesLabelsAndFeatures) {
  const Shop shop;
  const auto loader = shop.loader(link_options(), shop.drawn(1.5));
  const auto batches = read_links(*loader, 0);
  EXPECT_EQ(static_cast<int64_t>(batches.size()), loader->num_batches());
  std::vector<LinkPair> positives;
  for (const LinkMiniBatch& batch : batches) {
    const auto links = links_of(batch, 0, 1);
    const auto count = static_cast<size_t>(batch.positives);
    EXPECT_EQ(links.size(), count + (3 * count + 1) / 2);
    positives.insert(positives.end(), links.begin(), links.begin() + batch.positives);
    std::vector<int64_t> labels(links.size());
    std::fill_n(labels.begin(), count, 1);
    EXPECT_EQ(longs_of(batch.labels), labels);
    EXPECT_EQ(batch.labels.scalar_type(), at::kFloat);
    // Seeds come first and are what the rows refer to.
    const auto& nodes = batch.subgraph.node_ids;
    for (size_t type = 0; type < 2; ++type) {
      const at::Tensor& rows = type == 0 ? batch.source_rows : batch.destination_rows;
      const int64_t num_seeds = batch.subgraph.nodes_per_hop[type][0];
      EXPECT_EQ(rows.max().item<int64_t>(), num_seeds - 1);
      const auto seeds = longs_of(nodes[type].slice(0, 0, num_seeds));
      EXPECT_TRUE(std::is_sorted(seeds.begin(), seeds.end()));
      EXPECT_EQ(std::adjacent_find(seeds.begin(), seeds.end()), seeds.end());
      EXPECT_EQ(batch.subgraph.blocks.back()[1 - type].num_destinations, num_seeds);
    }
    EXPECT_TRUE(batch.x[0].equal(shop.user_rows.index_select(0, nodes[0])));
    EXPECT_TRUE(batch.x[1].equal(shop.item_rows.index_select(0, nodes[1])));
  }
  std::vector<LinkPair> all = rows_of(shop.pairs);
  std::sort(all.begin(), all.end());
  std::sort(positives.begin(), positives.end());
  EXPECT_EQ(positives, all);
  EXPECT_GT(loader->stats().sampled_edges, 0);
  EXPECT_EQ(loader->stats().batches, loader->num_batches());
}

TEST(LinkLoader, GivesTheSameBatchesForAnyNumberOfThreads) {
  const Shop shop;
  const auto expected = read_links(*shop.loader(link_options(0), shop.drawn()), 5);
  for (const int64_t num_threads : {1, 3}) {
    expect_same_links(
        read_links(*shop.loader(link_options(num_threads, 1), shop.drawn()), 5), expected
    );
    expect_same_links(
        read_links(*shop.loader(link_options(num_threads, 5), shop.drawn()), 5), expected
    );
  }
}

TEST(LinkLoader, ResumesAnEpochAtABatch) {
  const Shop shop;
  const auto loader = shop.loader(link_options(2), shop.drawn());
  auto whole = read_links(*loader, 1);
  whole.erase(whole.begin(), whole.begin() + 4);
  expect_same_links(read_links(*loader, 1, 4), whole);
  EXPECT_TRUE(read_links(*loader, 1, loader->num_batches()).empty());
  EXPECT_FALSE(loader->start_epoch(0, loader->num_batches() + 1));
}

TEST(LinkLoader, DrawsOtherNegativesInEachEpoch) {
  const Shop shop;
  LinkLoaderOptions options = link_options();
  options.items.shuffle = false;
  const auto loader = shop.loader(options, shop.drawn());
  const auto first = links_of(read_links(*loader, 0)[0], 0, 1);
  const auto second = links_of(read_links(*loader, 1)[0], 0, 1);
  ASSERT_EQ(first.size(), 128U);
  EXPECT_TRUE(std::equal(first.begin(), first.begin() + 64, second.begin()));
  EXPECT_FALSE(std::equal(first.begin() + 64, first.end(), second.begin() + 64));
}

// 1000 links in batches of 64 on 3 ranks: 6, 5 and 5 batches, the last of them smaller.
TEST(LinkLoader, DealsEveryLinkToOneRankAndNoBatchTwice) {
  const Shop shop;
  std::vector<LinkPair> positives;
  std::set<std::vector<LinkPair>> negatives;
  std::vector<int64_t> batches;
  for (int64_t rank = 0; rank < 3; ++rank) {
    LinkLoaderOptions options = link_options();
    options.items.rank = rank;
    options.items.world_size = 3;
    const auto loader = shop.loader(options, shop.drawn());
    batches.push_back(loader->num_batches());
    EXPECT_EQ(loader->max_batches(), 6);
    for (const LinkMiniBatch& batch : read_links(*loader, 2)) {
      const auto links = links_of(batch, 0, 1);
      positives.insert(positives.end(), links.begin(), links.begin() + batch.positives);
      negatives.emplace(links.begin() + batch.positives, links.end());
    }
  }
  EXPECT_EQ(batches, (std::vector<int64_t>{6, 5, 5}));
  EXPECT_EQ(negatives.size(), 16U) << "no two batches draw alike";
  std::vector<LinkPair> all = rows_of(shop.pairs);
  std::sort(all.begin(), all.end());
  std::sort(positives.begin(), positives.end());
  EXPECT_EQ(positives, all);
}

TEST(LinkLoader, DealsTheGivenIdsWithTheirLabelsAndOwnNegatives) {
  const Shop shop;
  LinkItems links;
  links.pairs = shop.pairs;
  links.ids = at::tensor({30, 10, 20}, at::kLong);
  links.labels = at::tensor({1.0F, 0.0F, 0.0F}, at::kFloat);
  links.negatives = at::arange(12, at::kLong).view({3, 2, 2});
  LinkLoaderOptions options = link_options();
  options.items.shuffle = false;
  options.items.batch_size = 2;
  const auto batches = read_links(*shop.loader(options, links), 0);
  ASSERT_EQ(batches.size(), 2U);
  const std::vector<LinkPair> pairs = rows_of(shop.pairs);
  EXPECT_EQ(
      links_of(batches[0], 0, 1),
      (std::vector<LinkPair>{pairs[30], pairs[10], {0, 1}, {2, 3}, {4, 5}, {6, 7}})
  );
  EXPECT_EQ(longs_of(batches[0].labels), (std::vector<int64_t>{1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(links_of(batches[1], 0, 1), (std::vector<LinkPair>{pairs[20], {8, 9}, {10, 11}}));
  EXPECT_EQ(longs_of(batches[1].labels), (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(batches[1].positives, 1);
}

std::set<LinkPair> edges_of(const LinkMiniBatch& batch, size_t relation, size_t from, size_t to) {
  std::set<LinkPair> edges;
  for (const auto& layer : batch.subgraph.blocks) {
    const auto indptr = longs_of(layer[relation].indptr);
    const auto indices = longs_of(layer[relation].indices);
    const auto sources = longs_of(batch.subgraph.node_ids[from]);
    const auto destinations = longs_of(batch.subgraph.node_ids[to]);
    for (size_t row = 0; row + 1 < indptr.size(); ++row) {
      for (int64_t e = indptr[row]; e < indptr[row + 1]; ++e) {
        edges.emplace(
            sources[static_cast<size_t>(indices[static_cast<size_t>(e)])], destinations[row]
        );
      }
    }
  }
  return edges;
}

TEST(LinkLoader, KeepsTheBatchsLinksOutOfItsMessagesInBothDirections) {
  const Shop shop;
  for (const bool exclude : {false, true}) {
    LinkLoaderOptions options = link_options();
    options.batches.exclude_seed_edges = exclude;
    int64_t leaks = 0;
    for (const LinkMiniBatch& batch : read_links(*shop.loader(options, shop.drawn()), 0)) {
      const std::set<LinkPair> forward = edges_of(batch, 0, 0, 1);
      const std::set<LinkPair> backward = edges_of(batch, 1, 1, 0);
      const auto links = links_of(batch, 0, 1);
      for (int64_t i = 0; i < batch.positives; ++i) {
        const auto [user, item] = links[static_cast<size_t>(i)];
        leaks += forward.contains({user, item}) ? 1 : 0;
        leaks += backward.contains({item, user}) ? 1 : 0;
      }
      EXPECT_GT(forward.size() + backward.size(), 100U);
    }
    if (exclude) {
      EXPECT_EQ(leaks, 0);
    } else {
      EXPECT_GT(leaks, 500);  // the test can see what it says is not there
    }
  }
}

// One node type: sources and destinations share the seeds, and a link's edges of both directions
// lie in one relation.
TEST(LinkLoader, SharesTheSeedsOfBothEndsInAPlainGraph) {
  std::vector<int64_t> flat;
  for (int64_t k = 0; k < 400; ++k) flat.insert(flat.end(), {k % 50, (k * k + 1) % 50});
  LinkItems links;
  links.pairs = at::tensor(flat, at::kLong).view({400, 2});
  links.sampler =
      std::make_shared<const NegativeSampler>(NegativeSampler::create({.shape = {50, 50}}).value());
  const at::Tensor from = at::cat({links.pairs.select(1, 0), links.pairs.select(1, 1)});
  const at::Tensor to = at::cat({links.pairs.select(1, 1), links.pairs.select(1, 0)});
  NeighborSamplerOptions sampling;
  sampling.fanout = {4, 4};
  LinkLoaderOptions options = link_options();
  options.batches.num_node_types = 1;
  options.items.batch_size = 8;
  options.batches.relations = {
      .source_type = 0, .destination_type = 0, .forward = 0, .backward = 0
  };
  options.batches.exclude_seed_edges = true;
  const auto loader = LinkLoader::create(
                          options,
                          links,
                          std::make_shared<sampling::LocalSampler>(
                              NeighborSampler::create(sampling, csc(from, to, 50, 50)).value()
                          ),
                          {}
  )
                          .value();
  const std::vector<LinkPair> pairs = rows_of(links.pairs);
  const std::set<LinkPair> known(pairs.begin(), pairs.end());
  for (const LinkMiniBatch& batch : read_links(*loader, 0)) {
    EXPECT_FALSE(batch.x[0].defined());
    const auto found = links_of(batch, 0, 0);
    const std::set<LinkPair> edges = edges_of(batch, 0, 0, 0);
    for (int64_t i = 0; i < batch.positives; ++i) {
      const auto [source, destination] = found[static_cast<size_t>(i)];
      EXPECT_TRUE(known.contains({source, destination}));
      EXPECT_FALSE(edges.contains({source, destination}));
      EXPECT_FALSE(edges.contains({destination, source}));
    }
  }
}

TEST(LinkLoader, CountsFalseNegativesThatCannotBeAvoided) {
  const std::vector<int64_t> everything{0, 0, 0, 1, 1, 0, 1, 1};
  const Shop shop;
  LinkItems links = shop.drawn();
  const sampling::core::PairSetShape shape{.num_sources = 2, .num_destinations = 2};
  links.sampler = std::make_shared<const NegativeSampler>(
      NegativeSampler::create({.shape = shape,
                               .avoided = std::make_shared<const sampling::core::PairSet>(
                                   sampling::core::PairSet::create(shape, everything).value()
                               )})
          .value()
  );
  const auto loader = shop.loader(link_options(), links);
  (void)read_links(*loader, 0);
  EXPECT_EQ(loader->stats().false_negatives, kLinks);
}

TEST(LinkLoader, NamesWhatIsWrong) {
  const Shop shop;
  const auto error_of = [&](const LinkLoaderOptions& options, const LinkItems& links) {
    return LinkLoader::create(options, links, shop.sampler({5}), shop.fetchers()).error();
  };
  LinkItems links = shop.drawn();
  links.ids = at::tensor({3, 1000}, at::kLong);
  EXPECT_EQ(
      error_of(link_options(), links).message, "links[1]: expected an id in [0, 1000), found 1000"
  );
  LinkLoaderOptions options = link_options();
  options.batches.num_node_types = 3;
  EXPECT_EQ(
      error_of(options, shop.drawn()).message,
      "batches of links: expected features for 3 node types, found 2"
  );
  options = link_options();
  options.items.batch_size = 0;
  EXPECT_EQ(error_of(options, shop.drawn()).kind, ErrorKind::Configuration);
  options = link_options(-1);
  EXPECT_EQ(error_of(options, shop.drawn()).kind, ErrorKind::Configuration);
  links = shop.drawn();
  links.negatives = at::zeros({1000, 1, 2}, at::kLong);
  EXPECT_THROW((void)error_of(link_options(), links), c10::Error);
}

TEST(LinkLoader, DeliversTheErrorOfABatch) {
  const Shop shop;
  LinkItems links = shop.drawn();
  links.pairs = links.pairs.clone();
  links.pairs[500][1] = kItems;
  const auto loader = shop.loader(link_options(), links);
  ASSERT_TRUE(loader->start_epoch(0));
  Error error;
  while (true) {
    auto batch = loader->next();
    if (batch) continue;
    error = batch.error();
    break;
  }
  EXPECT_EQ(error.kind, ErrorKind::Data);
  EXPECT_NE(error.message.find("expected a node in [0, 200), found 200"), std::string::npos);
}

}  // namespace
}  // namespace gnn::loader
