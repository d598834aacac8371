#include "worker/loader/graph_loader.h"

#include "worker/loader/checks.h"

#include <chrono>
#include <utility>
#include <vector>

namespace gnn::loader {

void for_each_tensor(GraphMiniBatch& batch, VisitTensor visit) {
  for_each_tensor(batch.graphs.block, visit);
  visit(batch.graphs.node_offsets);
  visit(batch.graphs.labels);
  visit(batch.x);
}

Result<std::unique_ptr<GraphLoader>> GraphLoader::create(
    const GraphLoaderOptions& options, graph::Dataset dataset, at::Tensor graph_ids
) {
  if (!dataset.graphs || !dataset.target().features) {
    return fail(ErrorKind::Data, dataset.name + ": expected a set of graphs with node features");
  }
  GNN_RETURN_IF_ERROR(
      check_pipeline({.num_threads = options.num_threads, .prefetch = options.prefetch})
  );
  GNN_RETURN_IF_ERROR(check_ids(graph_ids, "graph_ids", dataset.graphs->num_graphs()));
  sampling::core::ItemSamplerOptions item_options = options.items;
  item_options.num_items = graph_ids.numel();
  GNN_ASSIGN_OR_RETURN(const auto items, sampling::core::ItemSampler::create(item_options));
  GNN_ASSIGN_OR_RETURN(
      LocalFeatureFetcher features,
      LocalFeatureFetcher::create(
          dataset.features().rows(), memory_before(options.device), options.row_type
      )
  );
  return std::unique_ptr<GraphLoader>(
      new GraphLoader(options, items, std::move(dataset), std::move(graph_ids), std::move(features))
  );
}

GraphLoader::GraphLoader(
    const GraphLoaderOptions& options,
    const sampling::core::ItemSampler& items,
    graph::Dataset dataset,
    at::Tensor graph_ids,
    LocalFeatureFetcher features
)
    : items_(items),
      dataset_(std::move(dataset)),
      graph_ids_(std::move(graph_ids)),
      features_(std::move(features)),
      pipeline_(
          {.num_threads = options.num_threads,
           .prefetch = options.prefetch,
           .device = options.device}
      ) {}

Status GraphLoader::start_epoch(int64_t epoch, int64_t first_batch) {
  return loader::start_epoch(
      pipeline_,
      items_,
      {.epoch = epoch, .first_batch = first_batch},
      [this](const BatchPlace& place, const Executor& /*executor*/, const auto& done) {
        done(make(place));
      }
  );
}

Result<GraphMiniBatch> GraphLoader::make(const BatchPlace& place) {
  using Seconds = std::chrono::duration<double>;
  const auto start = std::chrono::steady_clock::now();
  const int64_t* const all = graph_ids_.const_data_ptr<int64_t>();
  std::vector<int64_t> graphs;
  for (const int64_t item : place.items) graphs.push_back(all[item]);
  GraphMiniBatch batch{
      .graphs = batch_graphs(dataset_, graphs), .x = {}, .batch_index = place.index
  };
  const auto joined = std::chrono::steady_clock::now();
  GNN_ASSIGN_OR_RETURN(batch.x, features_.fetch(batch.graphs.node_ids));
  const auto fetched = std::chrono::steady_clock::now();
  pipeline_.add([&](LoaderStats& stats) {
    ++stats.batches;
    stats.gathered_bytes += static_cast<int64_t>(batch.x.nbytes());
    stats.sample_seconds += Seconds(joined - start).count();
    stats.fetch_seconds += Seconds(fetched - joined).count();
  });
  return batch;
}

}  // namespace gnn::loader
