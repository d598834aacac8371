#include "worker/loader/node_loader.h"

#include "worker/loader/checks.h"
#include "worker/loader/epoch.h"

#include <utility>

namespace gnn::loader {

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
  return create(
      options,
      NodeBatchMaker::create(std::move(sampler), seeds, std::move(features), std::move(labels))
  );
}

Result<std::unique_ptr<NodeLoader>> NodeLoader::create(
    const NodeLoaderOptions& options, std::shared_ptr<const NodeBatchMaker> maker
) {
  GNN_RETURN_IF_ERROR(check_pipeline(
      {.num_threads = options.num_threads,
       .concurrency = options.concurrency,
       .prefetch = options.prefetch,
       .channel_bytes = options.channel_bytes}
  ));
  sampling::core::ItemSamplerOptions item_options = options.items;
  item_options.num_items = maker->num_items();
  GNN_ASSIGN_OR_RETURN(auto items, sampling::core::ItemSampler::create(item_options));
  return std::unique_ptr<NodeLoader>(new NodeLoader(options, items, std::move(maker)));
}

NodeLoader::NodeLoader(
    const NodeLoaderOptions& options,
    const sampling::core::ItemSampler& items,
    std::shared_ptr<const NodeBatchMaker> maker
)
    : items_(items),
      maker_(std::move(maker)),
      pipeline_(
          {.num_threads = options.num_threads,
           .concurrency = options.concurrency,
           .prefetch = options.prefetch,
           .channel_bytes = options.channel_bytes,
           .device = options.device}
      ) {}

Status NodeLoader::start_epoch(int64_t epoch, int64_t first_batch) {
  return loader::start_epoch(
      pipeline_,
      items_,
      {.epoch = epoch, .first_batch = first_batch},
      [this](const BatchPlace& place, const Executor& executor, const auto& done) {
        maker_->make(place, executor, counted(pipeline_, done));
      }
  );
}

LoaderStats NodeLoader::stats() const {
  return stats_of(pipeline_, maker_->sampler());
}

}  // namespace gnn::loader
