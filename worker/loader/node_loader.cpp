#include "worker/loader/node_loader.h"

#include "worker/loader/checks.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>
#include <vector>

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
  std::shared_ptr<FeatureFetcher> label_rows;
  if (labels.defined()) {
    GNN_RETURN_IF_ERROR(check_ids(seeds, "seeds", labels.size(0)));
    GNN_ASSIGN_OR_RETURN(auto rows, LocalFeatureFetcher::create(labels));
    label_rows = std::make_shared<LocalFeatureFetcher>(std::move(rows));
  }
  return create(
      options,
      std::make_shared<sampling::LocalSampler>(std::move(sampler)),
      seeds,
      std::move(features),
      std::move(label_rows)
  );
}

Result<std::unique_ptr<NodeLoader>> NodeLoader::create(
    const NodeLoaderOptions& options,
    std::shared_ptr<sampling::Sampler> sampler,
    const at::Tensor& seeds,
    std::shared_ptr<FeatureFetcher> features,
    std::shared_ptr<FeatureFetcher> labels
) {
  GNN_RETURN_IF_ERROR(check_pipeline(
      {.num_threads = options.num_threads,
       .concurrency = options.concurrency,
       .prefetch = options.prefetch}
  ));
  sampling::core::ItemSamplerOptions item_options = options.items;
  item_options.num_items = seeds.numel();
  GNN_ASSIGN_OR_RETURN(auto items, sampling::core::ItemSampler::create(item_options));
  return std::unique_ptr<NodeLoader>(new NodeLoader(
      options, items, std::move(sampler), seeds, std::move(features), std::move(labels)
  ));
}

NodeLoader::NodeLoader(
    const NodeLoaderOptions& options,
    const sampling::core::ItemSampler& items,
    std::shared_ptr<sampling::Sampler> sampler,
    at::Tensor seeds,
    std::shared_ptr<FeatureFetcher> features,
    std::shared_ptr<FeatureFetcher> labels
)
    : items_(items),
      sampler_(std::move(sampler)),
      seeds_(std::move(seeds)),
      features_(std::move(features)),
      labels_(std::move(labels)),
      pipeline_(
          {.num_threads = options.num_threads,
           .concurrency = options.concurrency,
           .prefetch = options.prefetch,
           .device = options.device}
      ) {}

Status NodeLoader::start_epoch(int64_t epoch, int64_t first_batch) {
  return loader::start_epoch(
      pipeline_,
      items_,
      {.epoch = epoch, .first_batch = first_batch},
      [this](const BatchPlace& place, const Executor& executor, const auto& done) {
        const auto making = std::make_shared<Making>(executor, done);
        making->batch.batch_index = place.index;
        making->batch.seeds = pick(seeds_, place.items);
        sample(making, place.position);
      }
  );
}

LoaderStats NodeLoader::stats() const {
  return stats_of(pipeline_, *sampler_);
}

void NodeLoader::sample(
    const std::shared_ptr<Making>& making, const sampling::core::StreamPosition& position
) {
  sampler_->start(
      {.seeds = {making->batch.seeds}, .position = position},
      making->executor,
      [this, making](Result<sampling::SampledSubgraph> sampled) {
        if (!sampled) return making->done(tl::unexpected(std::move(sampled).error()));
        making->batch.subgraph = std::move(*sampled);
        const double seconds = making->lap();
        pipeline_.add([&](LoaderStats& stats) {
          stats.sample_seconds += seconds;
          stats.sampled_edges += making->batch.subgraph.num_edges();
        });
        fetch(making);
      }
  );
}

void NodeLoader::fetch(const std::shared_ptr<Making>& making) {
  // Features may come from elsewhere: the labels are gathered meanwhile.
  fetch_all(
      {features_, labels_},
      {making->batch.subgraph.node_ids.front(), making->batch.seeds},
      making->executor,
      [this, making](Result<std::vector<at::Tensor>> rows) {
        if (!rows) return making->done(tl::unexpected(std::move(rows).error()));
        making->batch.x = std::move(rows->front());
        making->batch.y = std::move(rows->back());
        const double seconds = making->lap();
        pipeline_.add([&](LoaderStats& stats) {
          ++stats.batches;
          if (making->batch.x.defined())
            stats.gathered_bytes += static_cast<int64_t>(making->batch.x.nbytes());
          stats.fetch_seconds += seconds;
        });
        making->done(std::move(making->batch));
      }
  );
}

}  // namespace gnn::loader
