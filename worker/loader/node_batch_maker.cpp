#include "worker/loader/node_batch_maker.h"

#include <ATen/Functions.h>

#include <algorithm>
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

void for_each_tensor(MiniBatch& batch, VisitTensor visit) {
  visit(batch.seeds);
  visit(batch.x);
  visit(batch.y);
  for_each_tensor(batch.subgraph, visit);
}

void add(LoaderStats& stats, const MiniBatch& batch) {
  ++stats.batches;
  stats.sampled_edges += batch.subgraph.num_edges();
  if (batch.x.defined()) stats.gathered_bytes += static_cast<int64_t>(batch.x.nbytes());
  stats.sample_seconds += batch.cost.sample_seconds;
  stats.fetch_seconds += batch.cost.fetch_seconds;
}

NodeBatchMaker::NodeBatchMaker(
    std::shared_ptr<sampling::Sampler> sampler,
    at::Tensor seeds,
    std::shared_ptr<FeatureFetcher> features,
    std::shared_ptr<FeatureFetcher> labels
)
    : sampler_(std::move(sampler)),
      seeds_(std::move(seeds)),
      features_(std::move(features)),
      labels_(std::move(labels)) {}

std::shared_ptr<const NodeBatchMaker> NodeBatchMaker::create(
    std::shared_ptr<sampling::Sampler> sampler,
    at::Tensor seeds,
    std::shared_ptr<FeatureFetcher> features,
    std::shared_ptr<FeatureFetcher> labels
) {
  return std::shared_ptr<const NodeBatchMaker>(new NodeBatchMaker(
      std::move(sampler), std::move(seeds), std::move(features), std::move(labels)
  ));
}

void NodeBatchMaker::make(const BatchPlace& place, const Executor& executor, const Done& done)
    const {
  const auto making = std::make_shared<Making>(executor, done);
  making->batch.batch_index = place.index;
  making->batch.seeds = pick(seeds_, place.items);
  sampler_->start(
      {.seeds = {making->batch.seeds}, .position = place.position},
      making->executor,
      [self = shared_from_this(), making](Result<sampling::SampledSubgraph> sampled) {
        if (!sampled) return making->done(tl::unexpected(std::move(sampled).error()));
        making->batch.subgraph = std::move(*sampled);
        making->batch.cost.sample_seconds = making->lap();
        self->fetch(making);
      }
  );
}

void NodeBatchMaker::fetch(const std::shared_ptr<Making>& making) const {
  // Features may come from elsewhere: the labels are gathered meanwhile.
  fetch_all(
      {features_, labels_},
      {making->batch.subgraph.node_ids.front(), making->batch.seeds},
      making->executor,
      [making](Result<std::vector<at::Tensor>> rows) {
        if (!rows) return making->done(tl::unexpected(std::move(rows).error()));
        making->batch.x = std::move(rows->front());
        making->batch.y = std::move(rows->back());
        making->batch.cost.fetch_seconds = making->lap();
        making->done(std::move(making->batch));
      }
  );
}

}  // namespace gnn::loader
