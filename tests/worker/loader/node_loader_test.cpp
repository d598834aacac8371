#include "worker/loader/node_loader.h"

#include "common/guarded.h"
#include "tests/worker/sampling/random_graph.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gnn::loader {
namespace {

constexpr int64_t kNodes = 2000;

std::shared_ptr<LocalFeatureFetcher> local_fetcher(const at::Tensor& rows) {
  auto fetcher = LocalFeatureFetcher::create(rows);
  GNN_ASSERT(fetcher.has_value(), "the tests' rows are contiguous and on the CPU");
  return std::make_shared<LocalFeatureFetcher>(std::move(*fetcher));
}

struct Fixture {
  graph::CscGraph graph = make_graph();
  at::Tensor features = at::arange(kNodes * 6, at::kFloat).reshape({kNodes, 6});
  at::Tensor labels = at::arange(kNodes, at::kLong) % 7;
  at::Tensor seeds = at::arange(0, kNodes, 3, at::kLong);

  static graph::CscGraph make_graph() {
    const sampling::RandomGraph edges(kNodes, kNodes, 8, 1);
    return graph::CscGraph::create(
               at::tensor(edges.indptr, at::kLong),
               at::tensor(edges.indices, at::kLong).to(at::kInt),
               kNodes
    )
        .value();
  }

  [[nodiscard]] std::shared_ptr<FeatureFetcher> fetcher() const { return local_fetcher(features); }

  [[nodiscard]] std::unique_ptr<NodeLoader> loader(const NodeLoaderOptions& options) const {
    return NodeLoader::create(options, graph, seeds, fetcher(), labels).value();
  }
};

NodeLoaderOptions options_of(int64_t num_threads, int64_t prefetch = 2) {
  NodeLoaderOptions options;
  options.sampling.fanout = {5, 3};
  options.items.batch_size = 64;
  options.items.shuffle = true;
  options.items.seed = 3;
  options.num_threads = num_threads;
  options.prefetch = prefetch;
  return options;
}

std::vector<MiniBatch> read_epoch(NodeLoader& loader, int64_t epoch, int64_t first_batch = 0) {
  EXPECT_TRUE(loader.start_epoch(epoch, first_batch));
  std::vector<MiniBatch> batches;
  while (true) {
    auto batch = loader.next();
    EXPECT_TRUE(batch) << batch.error().message;
    if (!batch || !batch->has_value()) return batches;
    batches.push_back(std::move(**batch));
  }
}

void expect_same(const std::vector<MiniBatch>& a, const std::vector<MiniBatch>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].batch_index, b[i].batch_index);
    EXPECT_TRUE(a[i].seeds.equal(b[i].seeds));
    EXPECT_TRUE(a[i].x.equal(b[i].x));
    EXPECT_TRUE(a[i].y.equal(b[i].y));
    for (size_t layer = 0; layer < 2; ++layer) {
      EXPECT_TRUE(
          a[i].subgraph.blocks[layer][0].indices.equal(b[i].subgraph.blocks[layer][0].indices)
      );
    }
  }
}

TEST(NodeLoader, GivesEverySeedOnceWithItsFeaturesAndLabels) {
  const Fixture data;
  const auto loader = data.loader(options_of(2));
  const auto batches = read_epoch(*loader, 0);
  EXPECT_EQ(static_cast<int64_t>(batches.size()), loader->num_batches());
  std::vector<at::Tensor> seeds;
  for (size_t i = 0; i < batches.size(); ++i) {
    const MiniBatch& batch = batches[i];
    EXPECT_EQ(batch.batch_index, static_cast<int64_t>(i));
    seeds.push_back(batch.seeds);
    const at::Tensor& nodes = batch.subgraph.node_ids[0];
    EXPECT_TRUE(nodes.slice(0, 0, batch.seeds.numel()).equal(batch.seeds));
    EXPECT_TRUE(batch.x.equal(data.features.index_select(0, nodes)));
    EXPECT_TRUE(batch.y.equal(data.labels.index_select(0, batch.seeds)));
    EXPECT_EQ(batch.x.size(0), batch.subgraph.blocks[0][0].num_sources);
  }
  EXPECT_TRUE(std::get<0>(at::cat(seeds).sort()).equal(data.seeds));
}

TEST(NodeLoader, GivesTheSameBatchesForAnyNumberOfThreads) {
  const Fixture data;
  const auto expected = read_epoch(*data.loader(options_of(0)), 5);
  for (const int64_t num_threads : {1, 2, 8}) {
    expect_same(read_epoch(*data.loader(options_of(num_threads, 1)), 5), expected);
    expect_same(read_epoch(*data.loader(options_of(num_threads, 5)), 5), expected);
    for (const int64_t bytes : {1, 200'000}) {
      NodeLoaderOptions options = options_of(num_threads, 5);
      options.channel_bytes = bytes;
      expect_same(read_epoch(*data.loader(options), 5), expected);
    }
  }
}

TEST(NodeLoader, ResumesAnEpochAtABatch) {
  const Fixture data;
  const auto loader = data.loader(options_of(2));
  auto whole = read_epoch(*loader, 1);
  whole.erase(whole.begin(), whole.begin() + 4);
  expect_same(read_epoch(*loader, 1, 4), whole);
  EXPECT_TRUE(read_epoch(*loader, 1, loader->num_batches()).empty());
  EXPECT_FALSE(loader->start_epoch(1, loader->num_batches() + 1));
}

// The draws of a batch belong to its place in the global order: two ranks give what one gives,
// batch for batch.
TEST(NodeLoader, SamplesABatchAlikeOnAnyRank) {
  Fixture data;
  data.seeds = data.seeds.slice(0, 0, 640);  // slices fall on batch borders
  const auto alone = read_epoch(*data.loader(options_of(1)), 2);
  std::vector<MiniBatch> together;
  for (const int64_t rank : {0, 1}) {
    NodeLoaderOptions options = options_of(1);
    options.items.world_size = 2;
    options.items.rank = rank;
    for (MiniBatch& batch : read_epoch(*data.loader(options), 2)) {
      batch.batch_index = static_cast<int64_t>(together.size());
      together.push_back(std::move(batch));
    }
  }
  expect_same(together, alone);
}

TEST(NodeLoader, StartsTheNextEpochWhileOneIsUnderWay) {
  const Fixture data;
  const auto loader = data.loader(options_of(2));
  const auto expected = read_epoch(*data.loader(options_of(0)), 1);
  for (int round = 0; round < 5; ++round) {
    ASSERT_TRUE(loader->start_epoch(0));
    ASSERT_TRUE(loader->next());
    expect_same(read_epoch(*loader, 1), expected);
  }
}

TEST(NodeLoader, StopWakesTheReaderAndAnEpochCanStartAfterIt) {
  const Fixture data;
  const auto loader = data.loader(options_of(2));
  ASSERT_TRUE(loader->start_epoch(0));
  loader->stop();
  EXPECT_EQ(loader->next().error().kind, ErrorKind::Cancelled);
  EXPECT_EQ(static_cast<int64_t>(read_epoch(*loader, 0).size()), loader->num_batches());
}

// A sampler on the other side of a connection that breaks.
class BrokenSampler final : public sampling::Sampler {
 public:
  void start(sampling::SampleRequest request, const Executor& /*executor*/, Done done) override {
    if (request.position.batch >= 128)
      return done(fail(ErrorKind::PeerLost, "sampling server 2 closed the connection"));
    sampling::SampledSubgraph sample;
    sample.node_ids = request.seeds;
    sample.edges_per_hop = {{0}};
    done(std::move(sample));
  }
};

// A sampler on the other side of a connection: it answers when it is told to.
class DistantSampler final : public sampling::Sampler {
 public:
  struct Asked {
    sampling::SampleRequest request;
    Executor executor;
    Done done;

    // The answer comes on a thread of the connection.
    void answer() const {
      executor([request = request, done = done] {
        sampling::SampledSubgraph sample;
        sample.node_ids = request.seeds;
        sample.edges_per_hop = {{1}};
        done(std::move(sample));
      });
    }
  };

  void start(sampling::SampleRequest request, const Executor& executor, Done done) override {
    asked_.lock()->push_back({std::move(request), executor, std::move(done)});
    asked_.notify_all();
  }

  // Waits until `count` batches have been asked for, in all.
  std::vector<Asked> wait_for(size_t count) {
    auto asked = asked_.lock();
    asked.wait([count](const std::vector<Asked>& all) { return all.size() >= count; });
    return *asked;
  }

 private:
  Guarded<std::vector<Asked>> asked_;
};

TEST(NodeLoader, KeepsMoreBatchesUnderWayThanItHasThreadsAndGivesThemUpAtTheEndOfAnEpoch) {
  const Fixture data;
  const auto sampler = std::make_shared<DistantSampler>();
  NodeLoaderOptions options = options_of(1, 1);
  options.concurrency = 3;
  const auto loader =
      NodeLoader::create(options, sampler, data.seeds, data.fetcher(), local_fetcher(data.labels))
          .value();
  ASSERT_TRUE(loader->start_epoch(0));
  const auto asked = sampler->wait_for(3);
  asked[2].answer();
  asked[0].answer();
  EXPECT_EQ(loader->next().value()->batch_index, 0);
  // The places of the two that are made are taken by the next two, and by no more.
  EXPECT_EQ(sampler->wait_for(5).size(), 5U);
  asked[1].answer();
  EXPECT_EQ(loader->next().value()->batch_index, 1);
  const auto third = loader->next().value();
  EXPECT_EQ(third->batch_index, 2);
  EXPECT_TRUE(third->y.equal(data.labels.index_select(0, third->seeds)));

  for (const int64_t num_threads : {1, 2}) {
    const auto left = std::make_shared<DistantSampler>();
    std::vector<DistantSampler::Asked> unanswered;
    {
      options = options_of(num_threads);
      options.concurrency = 2;
      const auto stopped =
          NodeLoader::create(options, left, data.seeds, data.fetcher(), nullptr).value();
      ASSERT_TRUE(stopped->start_epoch(0));
      unanswered = left->wait_for(static_cast<size_t>(2 * num_threads));
      stopped->stop();
      EXPECT_EQ(stopped->next().error().kind, ErrorKind::Cancelled);
    }
    for (const DistantSampler::Asked& each : unanswered) each.answer();  // nobody is there any more
  }
}

TEST(NodeLoader, BeginsNoBatchInPlaceOfOneThatTheChannelHasNoRoomFor) {
  const Fixture data;
  const auto sampler = std::make_shared<DistantSampler>();
  NodeLoaderOptions options = options_of(1, 50);
  options.concurrency = 2;
  // Two of them: 64 seeds and node ids of 8 bytes each, and rows of six floats.
  options.channel_bytes = 2 * 64 * (8 + 8 + 6 * 4);
  const auto loader =
      NodeLoader::create(options, sampler, data.seeds, data.fetcher(), nullptr).value();
  ASSERT_TRUE(loader->start_epoch(0));
  for (const size_t i : {1, 0}) sampler->wait_for(2)[i].answer();
  for (const size_t i : {2, 3}) sampler->wait_for(i + 1)[i].answer();  // these two wait for room
  for (int64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(loader->next().value()->batch_index, i);
    // Each that is taken makes room for one, in whose place another is begun.
    const auto next = static_cast<size_t>(i) + 4;
    const auto asked = sampler->wait_for(next + 1);
    EXPECT_EQ(asked.size(), next + 1);
    asked[next].answer();
  }
  options.channel_bytes = 0;
  EXPECT_EQ(
      NodeLoader::create(options, sampler, data.seeds, data.fetcher(), nullptr).error().kind,
      ErrorKind::Configuration
  );
}

// To any other device than the CPU batches come by the pipeline's copier.
TEST(NodeLoader, CountsCopiedBatchesInTheChannel) {
  const Fixture data;
  const auto sampler = std::make_shared<DistantSampler>();
  NodeLoaderOptions options = options_of(1, 50);
  options.concurrency = 2;
  options.channel_bytes = 1;
  options.device = at::Device(at::kMeta);
  const auto loader =
      NodeLoader::create(options, sampler, data.seeds, data.fetcher(), nullptr).value();
  ASSERT_TRUE(loader->start_epoch(0));
  for (const size_t i : {0, 1, 2}) sampler->wait_for(i + 1)[i].answer();  // the last two wait
  for (int64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(loader->next().value()->batch_index, i);
    const auto next = static_cast<size_t>(i) + 3;
    const auto asked = sampler->wait_for(next + 1);
    EXPECT_EQ(asked.size(), next + 1);
    asked[next].answer();
  }
}

TEST(NodeLoader, HandsASamplersErrorToTheReaderInItsPlace) {
  const Fixture data;
  for (const int64_t num_threads : {0, 3}) {
    const auto loader = NodeLoader::create(
                            options_of(num_threads),
                            std::make_shared<BrokenSampler>(),
                            data.seeds,
                            data.fetcher(),
                            local_fetcher(data.labels)
    )
                            .value();
    ASSERT_TRUE(loader->start_epoch(0));
    ASSERT_TRUE(loader->next());
    ASSERT_TRUE(loader->next());
    const auto broken = loader->next();
    ASSERT_FALSE(broken);
    EXPECT_EQ(broken.error().kind, ErrorKind::PeerLost);
    EXPECT_EQ(broken.error().message, "sampling server 2 closed the connection");
  }
}

TEST(NodeLoader, HandsAFetchersErrorToTheReader) {
  const Fixture data;
  const auto few_rows = local_fetcher(data.features.slice(0, 0, 10));
  const auto loader =
      NodeLoader::create(options_of(2), data.graph, data.seeds, few_rows, data.labels).value();
  ASSERT_TRUE(loader->start_epoch(0));
  const auto batch = loader->next();
  ASSERT_FALSE(batch);
  EXPECT_EQ(batch.error().kind, ErrorKind::Data);
  EXPECT_NE(batch.error().message.find("expected an id in [0, 10)"), std::string::npos);
}

// The meta device stands for any other than the CPU: shapes and order without a GPU.
TEST(NodeLoader, DeliversOnTheChosenDeviceInOrder) {
  const Fixture data;
  NodeLoaderOptions options = options_of(2);
  options.device = at::Device(at::kMeta);
  const auto loader = data.loader(options);
  const auto expected = read_epoch(*data.loader(options_of(0)), 0);
  const auto batches = read_epoch(*loader, 0);
  ASSERT_EQ(batches.size(), expected.size());
  for (size_t i = 0; i < batches.size(); ++i) {
    EXPECT_TRUE(batches[i].x.is_meta());
    EXPECT_TRUE(batches[i].subgraph.blocks[1][0].indptr.is_meta());
    EXPECT_EQ(batches[i].x.sizes(), expected[i].x.sizes());
  }
  ASSERT_TRUE(loader->start_epoch(1));
  ASSERT_TRUE(loader->next());
  loader->stop();
}

// Where the sampler's tensors are on the device already.
TEST(Pin, LeavesTensorsOfADevice) {
  at::Tensor there = at::empty({3}, at::device(at::kMeta));
  pin(there);
  EXPECT_EQ(there.device(), at::Device(at::kMeta));
}

TEST(NodeLoader, MeasuresItsStages) {
  const Fixture data;
  const auto loader = data.loader(options_of(2));
  int64_t edges = 0;
  int64_t bytes = 0;
  for (const MiniBatch& batch : read_epoch(*loader, 0)) {
    edges += batch.subgraph.edges_per_hop[0][0] + batch.subgraph.edges_per_hop[0][1];
    bytes += static_cast<int64_t>(batch.x.nbytes());
  }
  const LoaderStats stats = loader->stats();
  EXPECT_EQ(stats.batches, loader->num_batches());
  EXPECT_EQ(stats.sampled_edges, edges);
  EXPECT_EQ(stats.gathered_bytes, bytes);
  EXPECT_GT(stats.sample_seconds, 0);
  EXPECT_GT(stats.fetch_seconds, 0);
  EXPECT_EQ(stats.copy_seconds, 0);
  ASSERT_TRUE(loader->start_epoch(1));
  EXPECT_LT(loader->stats().batches, loader->num_batches());
}

TEST(NodeLoader, WorksWithoutFeaturesAndLabels) {
  const Fixture data;
  const auto loader =
      NodeLoader::create(options_of(1), data.graph, data.seeds, nullptr, at::Tensor()).value();
  const auto batches = read_epoch(*loader, 0);
  EXPECT_FALSE(batches[0].x.defined());
  EXPECT_FALSE(batches[0].y.defined());
}

TEST(NodeLoader, GivesOneSmallBatchWhenTheBatchSizeExceedsTheSet) {
  const Fixture data;
  NodeLoaderOptions options = options_of(1);
  options.items.batch_size = 100000;
  const auto batches = read_epoch(*data.loader(options), 0);
  ASSERT_EQ(batches.size(), 1U);
  EXPECT_EQ(batches[0].seeds.numel(), data.seeds.numel());
}

TEST(NodeLoader, RefusesBadInputBeforeTheFirstStep) {
  const Fixture data;
  const auto bad_seeds = at::tensor(std::vector<int64_t>{0, kNodes}, at::kLong);
  const auto no_loader =
      NodeLoader::create(options_of(1), data.graph, bad_seeds, data.fetcher(), data.labels);
  ASSERT_FALSE(no_loader);
  EXPECT_EQ(no_loader.error().message, "seeds[1]: expected an id in [0, 2000), found 2000");
  NodeLoaderOptions options = options_of(-1);
  EXPECT_EQ(
      NodeLoader::create(options, data.graph, data.seeds, nullptr, {}).error().kind,
      ErrorKind::Configuration
  );
  const auto few_labels = data.labels.slice(0, 0, 5);
  EXPECT_FALSE(NodeLoader::create(options_of(1), data.graph, data.seeds, nullptr, few_labels));
  EXPECT_FALSE(LocalFeatureFetcher::create(data.features.t()));
  EXPECT_FALSE(LocalFeatureFetcher::create(at::Tensor()));
}

TEST(LocalFeatureFetcher, RoundsFloat32RowsToBFloat16AndLeavesOthers) {
  at::Tensor rows = at::randn({5, 37});
  rows[0] =
      at::tensor({0.F, -0.F, 1e-40F, 16'777'217.F, 3e38F, 3.4e38F, NAN, INFINITY, 1.00390625F})
          .repeat({5})
          .narrow(0, 0, 37);
  // NaNs whose bits would be rounded to those of an infinity and of -0.
  rows.view(at::kInt)[1][0] = 0x7f800001;
  rows.view(at::kInt)[1][36] = 0x7fffffff;
  const at::Tensor ids = at::tensor(std::vector<int64_t>{4, 0, 1, 2, 0}, at::kLong);
  const auto gather = [&](const at::Tensor& from) {
    const auto fetcher =
        LocalFeatureFetcher::create(from, HostMemory::Pageable, RowType::BFloat16).value();
    return fetcher.fetch(ids).value();
  };
  const at::Tensor found = gather(rows);
  const at::Tensor expected = rows.to(at::kBFloat16).index_select(0, ids);
  ASSERT_EQ(found.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(found.isnan(), expected.isnan()));
  EXPECT_TRUE(at::equal(found.nan_to_num(7), expected.nan_to_num(7)));
  EXPECT_EQ(gather(rows.to(at::kHalf)).scalar_type(), at::kHalf);
}

TEST(LocalFeatureFetcher, GathersRowsOfAnyTypeAndShape) {
  const auto rows = at::tensor(std::vector<int64_t>{4, 0, 4, 2}, at::kLong);
  for (const at::ScalarType type :
       {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble, at::kByte, at::kLong}) {
    for (const auto& shape :
         {std::vector<int64_t>{5}, std::vector<int64_t>{5, 3}, std::vector<int64_t>{5, 2, 4}}) {
      const at::Tensor values = at::arange(40, at::kFloat).resize_(shape).to(type);
      const auto fetcher = local_fetcher(values);
      const at::Tensor gathered = fetcher->fetch(rows).value();
      EXPECT_EQ(gathered.scalar_type(), type);
      EXPECT_TRUE(gathered.equal(values.index_select(0, rows)));
    }
  }
}

}  // namespace
}  // namespace gnn::loader
