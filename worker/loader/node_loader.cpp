#include "worker/loader/node_loader.h"

#include "common/stopwatch.h"
#include "worker/loader/checks.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <span>
#include <string>
#include <utility>

namespace gnn::loader {
namespace {

at::Tensor pick(const at::Tensor& ids, std::span<const int64_t> places) {
  at::Tensor picked = at::empty({static_cast<int64_t>(places.size())}, at::kLong);
  const int64_t* const all = ids.const_data_ptr<int64_t>();
  std::transform(
      places.begin(),
      places.end(),
      picked.mutable_data_ptr<int64_t>(),
      [all](int64_t place) { return all[place]; }
  );
  return picked;
}

}  // namespace

void move_tensors(MiniBatch& batch, const DeviceCopy& copy) {
  copy.move(batch.seeds);
  copy.move(batch.x);
  copy.move(batch.y);
  copy.move(batch.subgraph);
}

Result<std::unique_ptr<NodeLoader>> NodeLoader::create(
    const NodeLoaderOptions& options,
    const graph::CscGraph& graph,
    const at::Tensor& seeds,
    std::shared_ptr<FeatureFetcher> features,
    const at::Tensor& labels
) {
  GNN_RETURN_IF_ERROR(check_ids(seeds, "seeds", graph.num_destinations()));
  GNN_ASSIGN_OR_RETURN(auto sampler, sampling::NeighborSampler::create(options.sampling, graph));
  return create(
      options,
      std::make_shared<sampling::LocalSampler>(std::move(sampler)),
      seeds,
      std::move(features),
      labels
  );
}

Result<std::unique_ptr<NodeLoader>> NodeLoader::create(
    const NodeLoaderOptions& options,
    std::shared_ptr<sampling::Sampler> sampler,
    const at::Tensor& seeds,
    std::shared_ptr<FeatureFetcher> features,
    const at::Tensor& labels
) {
  GNN_RETURN_IF_ERROR(
      check_pipeline({.num_threads = options.num_threads, .prefetch = options.prefetch})
  );
  std::shared_ptr<LocalFeatureFetcher> label_rows;
  if (labels.defined()) {
    GNN_RETURN_IF_ERROR(check_ids(seeds, "seeds", labels.size(0)));
    GNN_ASSIGN_OR_RETURN(auto rows, LocalFeatureFetcher::create(labels));
    label_rows = std::make_shared<LocalFeatureFetcher>(std::move(rows));
  }
  sampling::core::ItemSamplerOptions item_options = options.items;
  item_options.num_items = seeds.numel();
  GNN_ASSIGN_OR_RETURN(auto items, sampling::core::ItemSampler::create(item_options));
  return std::unique_ptr<NodeLoader>(new NodeLoader(
      options, items, std::move(sampler), seeds, std::move(features), std::move(label_rows)
  ));
}

NodeLoader::NodeLoader(
    const NodeLoaderOptions& options,
    const sampling::core::ItemSampler& items,
    std::shared_ptr<sampling::Sampler> sampler,
    at::Tensor seeds,
    std::shared_ptr<FeatureFetcher> features,
    std::shared_ptr<LocalFeatureFetcher> labels
)
    : items_(items),
      sampler_(std::move(sampler)),
      seeds_(std::move(seeds)),
      features_(std::move(features)),
      labels_(std::move(labels)),
      pipeline_(
          {.num_threads = options.num_threads,
           .prefetch = options.prefetch,
           .device = options.device}
      ) {}

Status NodeLoader::start_epoch(int64_t epoch, int64_t first_batch) {
  return loader::start_epoch(
      pipeline_,
      items_,
      {.epoch = epoch, .first_batch = first_batch},
      [this](const BatchPlace& place) { return make(place); }
  );
}

LoaderStats NodeLoader::stats() const {
  return stats_of(pipeline_, *sampler_);
}

Result<MiniBatch> NodeLoader::make(const BatchPlace& place) {
  MiniBatch batch;
  batch.batch_index = place.index;
  batch.seeds = pick(seeds_, place.items);
  GNN_RETURN_IF_ERROR(sample(batch, place.position));
  GNN_RETURN_IF_ERROR(fetch(batch));
  return batch;
}

Status NodeLoader::sample(MiniBatch& batch, const sampling::core::StreamPosition& position) {
  const auto start = std::chrono::steady_clock::now();
  GNN_ASSIGN_OR_RETURN(batch.subgraph, sampler_->submit({{batch.seeds}, position}).get());
  const double seconds = seconds_since(start);
  pipeline_.add([&](LoaderStats& stats) {
    stats.sample_seconds += seconds;
    stats.sampled_edges += batch.subgraph.num_edges();
  });
  return {};
}

Status NodeLoader::fetch(MiniBatch& batch) {
  const auto start = std::chrono::steady_clock::now();
  // Features may come from elsewhere: the labels are gathered meanwhile.
  std::future<Result<at::Tensor>> rows;
  if (features_ != nullptr) rows = features_->submit(batch.subgraph.node_ids.front());
  if (labels_ != nullptr) {
    GNN_ASSIGN_OR_RETURN(batch.y, labels_->fetch(batch.seeds));
  }
  if (features_ != nullptr) {
    GNN_ASSIGN_OR_RETURN(batch.x, rows.get());
  }
  const double seconds = seconds_since(start);
  pipeline_.add([&](LoaderStats& stats) {
    ++stats.batches;
    if (batch.x.defined()) stats.gathered_bytes += static_cast<int64_t>(batch.x.nbytes());
    stats.fetch_seconds += seconds;
  });
  return {};
}

}  // namespace gnn::loader
