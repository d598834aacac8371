#include "worker/loader/link_batch_maker.h"

#include "worker/loader/checks.h"
#include "worker/loader/link_seeds.h"

#include <ATen/Functions.h>

#include <cstddef>
#include <span>
#include <string>
#include <utility>

namespace gnn::loader {
namespace {

using sampling::core::NodePair;

int64_t num_dealt(const LinkItems& links) {
  return links.ids.defined() ? links.ids.numel() : links.pairs.size(0);
}

void check_shapes(const LinkItems& links) {
  const auto is_on_cpu = [](const at::Tensor& tensor, at::ScalarType type, int64_t dimensions) {
    return tensor.scalar_type() == type && tensor.dim() == dimensions && tensor.is_contiguous() &&
           tensor.is_cpu();
  };
  TORCH_CHECK(
      links.pairs.defined() && is_on_cpu(links.pairs, at::kLong, 2) && links.pairs.size(1) == 2,
      "links must be a contiguous int64 [E, 2] on the CPU"
  );
  TORCH_CHECK(
      !links.labels.defined() ||
          (is_on_cpu(links.labels, at::kFloat, 1) && links.labels.numel() == num_dealt(links)),
      "the links' labels must be a contiguous float [M] on the CPU"
  );
  TORCH_CHECK(
      !links.negatives.defined() ||
          (is_on_cpu(links.negatives, at::kLong, 3) && links.negatives.size(2) == 2 &&
           links.negatives.size(0) == num_dealt(links)),
      "the links' negatives must be a contiguous int64 [M, K, 2] on the CPU"
  );
  TORCH_CHECK(
      !links.negatives.defined() || links.sampler == nullptr,
      "links have negatives of their own, or drawn ones"
  );
}

Status check_types(const LinkBatchOptions& options, size_t num_fetchers) {
  const auto is_type = [&](int64_t type) { return type >= 0 && type < options.num_node_types; };
  TORCH_CHECK(
      is_type(options.relations.source_type) && is_type(options.relations.destination_type),
      "the links' ends must be of one of ",
      options.num_node_types,
      " node types"
  );
  if (num_fetchers == 0 || static_cast<int64_t>(num_fetchers) == options.num_node_types) return {};
  return fail(
      ErrorKind::Configuration,
      "batches of links: expected features for " + std::to_string(options.num_node_types) +
          " node types, found " + std::to_string(num_fetchers)
  );
}

}  // namespace

// The ends of a batch's links, its negatives' last.
struct LinkBatchMaker::Ends {
  std::vector<int64_t> sources;
  std::vector<int64_t> destinations;

  void add(const int64_t* pair) {
    sources.push_back(pair[0]);
    destinations.push_back(pair[1]);
  }
};

void for_each_tensor(LinkMiniBatch& batch, VisitTensor visit) {
  for (at::Tensor& rows : batch.x) visit(rows);
  visit(batch.source_rows);
  visit(batch.destination_rows);
  visit(batch.labels);
  for_each_tensor(batch.subgraph, visit);
}

void add(LoaderStats& stats, const LinkMiniBatch& batch) {
  ++stats.batches;
  stats.sampled_edges += batch.subgraph.num_edges();
  stats.false_negatives += batch.false_negatives;
  for (const at::Tensor& rows : batch.x) {
    if (rows.defined()) stats.gathered_bytes += static_cast<int64_t>(rows.nbytes());
  }
  stats.sample_seconds += batch.cost.sample_seconds;
  stats.fetch_seconds += batch.cost.fetch_seconds;
}

Result<std::shared_ptr<const LinkBatchMaker>> LinkBatchMaker::create(
    const LinkBatchOptions& options,
    LinkItems links,
    std::shared_ptr<sampling::Sampler> sampler,
    std::vector<std::shared_ptr<FeatureFetcher>> features
) {
  check_shapes(links);
  GNN_RETURN_IF_ERROR(check_types(options, features.size()));
  if (links.ids.defined()) GNN_RETURN_IF_ERROR(check_ids(links.ids, "links", links.pairs.size(0)));
  return std::shared_ptr<const LinkBatchMaker>(
      new LinkBatchMaker(options, std::move(links), std::move(sampler), std::move(features))
  );
}

LinkBatchMaker::LinkBatchMaker(
    const LinkBatchOptions& options,
    LinkItems links,
    std::shared_ptr<sampling::Sampler> sampler,
    std::vector<std::shared_ptr<FeatureFetcher>> features
)
    : options_(options),
      links_(std::move(links)),
      sampler_(std::move(sampler)),
      features_(std::move(features)) {}

int64_t LinkBatchMaker::num_items() const {
  return num_dealt(links_);
}

void LinkBatchMaker::make(const BatchPlace& place, const Executor& executor, const Done& done)
    const {
  const auto making = std::make_shared<Making>(executor, done);
  LinkMiniBatch& batch = making->batch;
  batch.batch_index = place.index;
  const Ends ends = ends_of(place, batch);
  sampling::SampleRequest request{.seeds = seeds_of(ends, batch), .position = place.position};
  if (options_.exclude_seed_edges) request.excluded = excluded(ends, batch);
  sampler_->start(
      std::move(request),
      making->executor,
      [self = shared_from_this(), making](Result<sampling::SampledSubgraph> sampled) {
        if (!sampled) return making->done(tl::unexpected(std::move(sampled).error()));
        making->batch.subgraph = std::move(*sampled);
        making->batch.cost.sample_seconds = making->lap();
        self->fetch(making);
      }
  );
}

LinkBatchMaker::Ends LinkBatchMaker::ends_of(const BatchPlace& place, LinkMiniBatch& batch) const {
  const std::span<const int64_t> items = place.items;
  batch.positives = static_cast<int64_t>(items.size());
  const auto* const pairs = links_.pairs.const_data_ptr<int64_t>();
  const auto* const ids = links_.ids.defined() ? links_.ids.const_data_ptr<int64_t>() : nullptr;
  Ends ends;
  for (const int64_t item : items) ends.add(pairs + 2 * (ids == nullptr ? item : ids[item]));
  if (links_.sampler != nullptr) {
    const auto drawn = links_.sampler->draw(place.position, batch.positives);
    batch.false_negatives = drawn.links;
    for (const NodePair& pair : drawn.pairs) {
      ends.sources.push_back(pair.source);
      ends.destinations.push_back(pair.destination);
    }
  } else if (links_.negatives.defined()) {
    const auto* const negatives = links_.negatives.const_data_ptr<int64_t>();
    const int64_t each = links_.negatives.size(1);
    for (const int64_t item : items) {
      for (int64_t i = 0; i < each; ++i) ends.add(negatives + 2 * (item * each + i));
    }
  }
  batch.labels = at::zeros({static_cast<int64_t>(ends.sources.size())}, at::kFloat);
  auto* const labels = batch.labels.mutable_data_ptr<float>();
  const auto* const given =
      links_.labels.defined() ? links_.labels.const_data_ptr<float>() : nullptr;
  for (size_t i = 0; i < items.size(); ++i) labels[i] = given == nullptr ? 1.0F : given[items[i]];
  return ends;
}

std::vector<at::Tensor> LinkBatchMaker::seeds_of(const Ends& ends, LinkMiniBatch& batch) const {
  std::vector<at::Tensor> seeds(static_cast<size_t>(options_.num_node_types));
  const auto source_type = static_cast<size_t>(options_.relations.source_type);
  const auto destination_type = static_cast<size_t>(options_.relations.destination_type);
  if (source_type == destination_type) {
    std::vector<int64_t> both = ends.sources;
    both.insert(both.end(), ends.destinations.begin(), ends.destinations.end());
    LinkSeeds all = index_ends(both);
    const auto count = static_cast<int64_t>(ends.sources.size());
    seeds[source_type] = std::move(all.ids);
    batch.source_rows = all.rows.slice(0, 0, count);
    batch.destination_rows = all.rows.slice(0, count);
    return seeds;
  }
  LinkSeeds sources = index_ends(ends.sources);
  LinkSeeds destinations = index_ends(ends.destinations);
  seeds[source_type] = std::move(sources.ids);
  seeds[destination_type] = std::move(destinations.ids);
  batch.source_rows = std::move(sources.rows);
  batch.destination_rows = std::move(destinations.rows);
  return seeds;
}

std::vector<sampling::ExcludedEdges> LinkBatchMaker::excluded(
    const Ends& ends, const LinkMiniBatch& batch
) const {
  const auto first = [&](const std::vector<int64_t>& all) {
    return at::tensor(at::ArrayRef<int64_t>(all.data(), static_cast<size_t>(batch.positives)));
  };
  const at::Tensor sources = first(ends.sources);
  const at::Tensor destinations = first(ends.destinations);
  std::vector<sampling::ExcludedEdges> edges;
  if (options_.relations.forward >= 0)
    edges.push_back({options_.relations.forward, sources, destinations});
  if (options_.relations.backward >= 0)
    edges.push_back({options_.relations.backward, destinations, sources});
  return edges;
}

void LinkBatchMaker::fetch(const std::shared_ptr<Making>& making) const {
  fetch_all(
      features_,
      making->batch.subgraph.node_ids,
      making->executor,
      [making, num_types = options_.num_node_types](Result<std::vector<at::Tensor>> rows) {
        if (!rows) return making->done(tl::unexpected(std::move(rows).error()));
        making->batch.x = std::move(*rows);
        making->batch.x.resize(static_cast<size_t>(num_types));
        making->batch.cost.fetch_seconds = making->lap();
        making->done(std::move(making->batch));
      }
  );
}

}  // namespace gnn::loader
