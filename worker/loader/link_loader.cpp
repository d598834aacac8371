#include "worker/loader/link_loader.h"

#include "worker/loader/epoch.h"

#include <utility>

namespace gnn::loader {

Result<std::unique_ptr<LinkLoader>> LinkLoader::create(
    const LinkLoaderOptions& options,
    LinkItems links,
    std::shared_ptr<sampling::Sampler> sampler,
    std::vector<std::shared_ptr<FeatureFetcher>> features
) {
  GNN_ASSIGN_OR_RETURN(
      auto maker,
      LinkBatchMaker::create(
          options.batches, std::move(links), std::move(sampler), std::move(features)
      )
  );
  return create(options, std::move(maker));
}

Result<std::unique_ptr<LinkLoader>> LinkLoader::create(
    const LinkLoaderOptions& options, std::shared_ptr<const LinkBatchMaker> maker
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
  return std::unique_ptr<LinkLoader>(new LinkLoader(options, items, std::move(maker)));
}

LinkLoader::LinkLoader(
    const LinkLoaderOptions& options,
    const sampling::core::ItemSampler& items,
    std::shared_ptr<const LinkBatchMaker> maker
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

Status LinkLoader::start_epoch(int64_t epoch, int64_t first_batch) {
  return loader::start_epoch(
      pipeline_,
      items_,
      {.epoch = epoch, .first_batch = first_batch},
      [this](const BatchPlace& place, const Executor& executor, const auto& done) {
        maker_->make(place, executor, counted(pipeline_, done));
      }
  );
}

LoaderStats LinkLoader::stats() const {
  return stats_of(pipeline_, maker_->sampler());
}

}  // namespace gnn::loader
