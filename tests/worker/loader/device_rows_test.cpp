#include "worker/loader/device_rows.h"

#include "tests/support/must.h"
#include "tests/worker/loader/emulated_row_device.h"
#include "tests/worker/sampling/random_graph.h"
#include "worker/loader/link_loader.h"
#include "worker/loader/node_loader.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace gnn::loader {
namespace {

using testing::must;

constexpr int64_t kNodes = 300;

graph::CscGraph make_graph() {
  const sampling::RandomGraph edges(kNodes, kNodes, 8, 1);
  return must(graph::CscGraph::create(
      at::tensor(edges.indptr, at::kLong), at::tensor(edges.indices, at::kLong), kNodes
  ));
}

at::Tensor random_rows(int64_t rows, int64_t width, at::ScalarType type = at::kFloat) {
  at::manual_seed(5);
  return at::randn({rows, width}).to(type);
}

// Every `step`th node from the last one down.
at::Tensor some_ids(int64_t step) {
  return at::arange(0, kNodes, step, at::kLong).flip(0).contiguous();
}

std::shared_ptr<FeatureFetcher> on_host(const at::Tensor& rows, RowType type) {
  return std::make_shared<LocalFeatureFetcher>(
      must(LocalFeatureFetcher::create(rows, HostMemory::Pageable, type))
  );
}

std::shared_ptr<const DeviceRows> on_device(
    const DeviceRowsOptions& options, bool ids_lie_there = false
) {
  SilentProgressBar progress;
  return must(
      DeviceRows::create(std::make_shared<EmulatedRowDevice>(ids_lie_there), options, progress)
  );
}

// What a device may hold: nothing, the first rows, any rows, all.
std::vector<at::Tensor> hot_lists() {
  return {
      at::Tensor(),
      at::arange(kNodes / 5, at::kLong),
      some_ids(5),
      at::arange(kNodes, at::kLong),
      some_ids(1)
  };
}

void expect_same(const at::Tensor& found, const at::Tensor& expected) {
  ASSERT_EQ(found.scalar_type(), expected.scalar_type());
  ASSERT_EQ(found.sizes(), expected.sizes());
  // By bits: a NaN is the same as itself.
  const auto bytes = [](const at::Tensor& rows) {
    return std::vector<char>(
        static_cast<const char*>(rows.const_data_ptr()),
        static_cast<const char*>(rows.const_data_ptr()) + rows.nbytes()
    );
  };
  EXPECT_TRUE(bytes(found) == bytes(expected));
}

std::vector<MiniBatch> read_epoch(
    const graph::CscGraph& graph, std::shared_ptr<FeatureFetcher> features, int64_t threads
) {
  NodeLoaderOptions options;
  options.sampling.fanout = {4, 3};
  options.items.batch_size = 32;
  options.items.shuffle = true;
  options.num_threads = threads;
  const auto loader = must(NodeLoader::create(
      options, graph, at::arange(0, kNodes, 3, at::kLong), std::move(features), at::arange(kNodes)
  ));
  must(loader->start_epoch(0, 0));
  std::vector<MiniBatch> batches;
  while (auto batch = must(loader->next())) batches.push_back(std::move(*batch));
  return batches;
}

TEST(DeviceRows, GiveTheLoaderTheHostsBatchesWhereverRowsAndIdsLie) {
  const graph::CscGraph graph = make_graph();
  const at::Tensor rows = random_rows(kNodes, 6);
  for (const RowType type : {RowType::AsStored, RowType::BFloat16}) {
    const auto expected = read_epoch(graph, on_host(rows, type), 1);
    for (const at::Tensor& hot : hot_lists()) {
      for (const bool ids_lie_there : {false, true}) {
        const auto fetcher = std::make_shared<DeviceFeatureFetcher>(on_device(
            {.rows = rows, .num_nodes = kNodes, .type = type, .hot_ids = hot}, ids_lie_there
        ));
        const auto found = read_epoch(graph, fetcher, 3);
        ASSERT_EQ(found.size(), expected.size());
        for (size_t i = 0; i < found.size(); ++i) {
          EXPECT_TRUE(found[i].seeds.equal(expected[i].seeds));
          EXPECT_TRUE(found[i].y.equal(expected[i].y));
          expect_same(found[i].x, expected[i].x);
        }
      }
    }
  }
}

TEST(DeviceRows, GiveLinkLoadersTheHostsBatches) {
  const graph::CscGraph graph = make_graph();
  const at::Tensor rows = random_rows(kNodes, 3);
  const auto batches = [&](std::shared_ptr<FeatureFetcher> features) {
    LinkLoaderOptions options;
    options.items.batch_size = 20;
    sampling::NeighborSamplerOptions sampling;
    sampling.fanout = {3, 2};
    const at::Tensor pairs =
        at::stack({at::arange(0, 60), at::arange(200, 260)}, 1).to(at::kLong).contiguous();
    const auto loader = must(LinkLoader::create(
        options,
        {.pairs = pairs},
        std::make_shared<sampling::LocalSampler>(
            must(sampling::NeighborSampler::create(sampling, graph))
        ),
        {std::move(features)}
    ));
    must(loader->start_epoch(0, 0));
    std::vector<at::Tensor> read;
    while (auto batch = must(loader->next())) read.push_back(batch->x.front());
    return read;
  };
  const auto expected = batches(on_host(rows, RowType::AsStored));
  const auto found = batches(std::make_shared<DeviceFeatureFetcher>(
      on_device({.rows = rows, .num_nodes = kNodes, .hot_ids = some_ids(4)})
  ));
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) expect_same(found[i], expected[i]);
}

TEST(DeviceRows, AreTheHostsForRowsOfAnyWidthAndType) {
  const at::Tensor ids = at::tensor({299, 0, 17, 17, 60, 59, 5, 4, 1}, at::kLong);
  for (const int64_t width : {1, 2, 5, 8, 33}) {
    for (const at::ScalarType stored : {at::kFloat, at::kHalf, at::kByte}) {
      const at::Tensor rows = random_rows(kNodes, width, stored);
      for (const RowType type : {RowType::AsStored, RowType::BFloat16}) {
        const at::Tensor expected = must(on_host(rows, type)->submit(ids).get());
        for (const at::Tensor& hot : hot_lists()) {
          SCOPED_TRACE(::testing::Message() << width << " columns of " << stored);
          const auto found =
              on_device({.rows = rows, .num_nodes = kNodes, .type = type, .hot_ids = hot});
          expect_same(must(found->gather(ids)), expected);
        }
      }
    }
  }
}

TEST(DeviceRows, RoundNumbersThatAreNoneAsTheHostDoes) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  at::Tensor rows = random_rows(kNodes, 4);
  rows[3] = at::tensor({std::nanf(""), kInfinity, -kInfinity, 3.4e38F});
  const at::Tensor ids = at::tensor({3, 4}, at::kLong);
  const auto found = on_device({.rows = rows, .num_nodes = kNodes, .type = RowType::BFloat16});
  expect_same(must(found->gather(ids)), must(on_host(rows, RowType::BFloat16)->submit(ids).get()));
}

TEST(DeviceRows, OfNoIdsAreNone) {
  const at::Tensor none = at::empty({0}, at::kLong);
  for (const int64_t width : {0, 5}) {
    const auto rows = on_device({.rows = random_rows(kNodes, width), .num_nodes = kNodes});
    EXPECT_EQ(must(rows->gather(none)).sizes(), (std::vector<int64_t>{0, width}));
  }
}

// A part's own rows, others' in a cache, and some that have arrived from elsewhere.
TEST(DeviceRows, TakeOwnCachedAndArrivedRowsEachFromItsPlace) {
  const at::Tensor all = random_rows(kNodes, 6);
  const at::Tensor cached = at::tensor({2, 40, 290}, at::kLong);
  const at::Tensor ids = at::tensor({100, 290, 7, 199, 150, 2, 40, 299}, at::kLong);
  const std::vector<int64_t> places = {2, 7};
  const at::Tensor arrived = all.index_select(0, at::tensor({7, 299}, at::kLong));
  for (const at::Tensor& hot :
       {at::Tensor(), at::arange(100, 120, at::kLong), at::arange(100, 200, at::kLong)}) {
    const auto rows = on_device(
        {.rows = all.narrow(0, 100, 100).contiguous(),
         .first = 100,
         .num_nodes = kNodes,
         .hot_ids = hot,
         .cached_ids = cached,
         .cached_rows = all.index_select(0, cached)}
    );
    expect_same(
        must(rows->gather(ids, {.rows = arrived, .places = places})), all.index_select(0, ids)
    );
  }
}

TEST(DeviceRows, NameTheFirstIdThatIsNoNodeAsTheHostDoes) {
  const at::Tensor rows = random_rows(kNodes, 40);
  for (const auto& ids :
       {at::tensor(std::vector<int64_t>{1, kNodes, -1}),
        at::tensor(std::vector<int64_t>{5, 6, 7, -1, kNodes})}) {
    const auto expected = on_host(rows, RowType::AsStored)->submit(ids).get();
    ASSERT_FALSE(expected);
    for (const bool ids_lie_there : {false, true}) {
      const auto device = on_device({.rows = rows, .num_nodes = kNodes}, ids_lie_there);
      const auto found = device->gather(ids);
      ASSERT_FALSE(found);
      EXPECT_EQ(found.error().kind, ErrorKind::Data);
      EXPECT_EQ(found.error().message, expected.error().message);
      EXPECT_TRUE(device->gather(at::tensor({1, 2}, at::kLong)));
    }
  }
}

TEST(DeviceRows, LieOnceWhereTheyAreToLie) {
  const at::Tensor rows = random_rows(kNodes, 5);
  SilentProgressBar progress;
  const auto bytes = [&](const at::Tensor& hot, RowType type) {
    const auto device = std::make_shared<EmulatedRowDevice>();
    const auto made = must(DeviceRows::create(
        device, {.rows = rows, .num_nodes = kNodes, .type = type, .hot_ids = hot}, progress
    ));
    return std::pair(device->allocated_bytes(), device->pinned_bytes());
  };
  using Bytes = std::pair<size_t, size_t>;
  EXPECT_EQ(bytes({}, RowType::AsStored), Bytes(0, rows.nbytes()));
  EXPECT_EQ(bytes(at::arange(kNodes), RowType::AsStored), Bytes(rows.nbytes(), 0));
  EXPECT_EQ(bytes(at::arange(kNodes), RowType::BFloat16), Bytes(rows.nbytes() / 2, 0));
  EXPECT_EQ(bytes(at::arange(9), RowType::AsStored), Bytes(9 * 20, rows.nbytes()));
  EXPECT_EQ(bytes(some_ids(100), RowType::AsStored), Bytes(3 * 20 + kNodes * 4, rows.nbytes()));
}

}  // namespace
}  // namespace gnn::loader
