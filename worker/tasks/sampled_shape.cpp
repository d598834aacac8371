#include "worker/tasks/sampled_shape.h"

#include "worker/sampling/core/negatives.h"
#include "worker/sampling/sample_parts.h"
#include "worker/tasks/sampler_options.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

namespace gnn::tasks {
namespace {

const graph::EdgeTypeData& type_at(const SampledData& data, size_t relation) {
  return data.dataset.edge_types[static_cast<size_t>(data.edge_types[relation])];
}

// Links of a batch, with their negatives: those of an evaluation by AUC or Hits are items themselves.
int64_t pairs_of(const SampledData& data, Use use) {
  const int64_t items = data.training.batch_size;
  if (use == Use::Training) {
    const api::Negatives negatives = data.sampling.negatives.value_or(api::Negatives{});
    return items + sampling::core::NegativeSampler::count_for(negatives.amount.value(), items);
  }
  const api::Evaluation& evaluation = data.training.evaluation;
  return evaluation.metric == api::Metric::MRR ? items * (1 + evaluation.negatives.value_or(1))
                                               : items;
}

// A training batch's links, in both directions.
std::vector<int64_t> excluded_of(const SampledData& data, Use use) {
  const auto& links = data.dataset.links;
  if (!links || use != Use::Training || !data.sampling.exclude_seed_edges) return {};
  std::vector<int64_t> excluded;
  for (const int64_t type : data.edge_types) {
    const int64_t directions =
        (type == links->edge_type ? 1 : 0) + (type == links->reverse_edge_type ? 1 : 0);
    excluded.push_back(directions * data.training.batch_size);
  }
  return excluded;
}

bool takes_all(const std::vector<int64_t>& fanout) {
  return std::find(fanout.begin(), fanout.end(), -1) != fanout.end();
}

std::vector<sampling::device::ListLengths> lists_of(
    const SampledData& data, const std::vector<int64_t>& fanout
) {
  std::vector<sampling::device::ListLengths> lists(data.edge_types.size());
  for (size_t i = 0; i < lists.size(); ++i) {
    const graph::EdgeTypeData& type = type_at(data, i);
    const std::vector<int64_t> own = own_fanout(data.sampling, type);
    if (!takes_all(own.empty() ? fanout : own)) continue;
    const at::Tensor& indptr = type.graph.indptr();
    lists[i] = sampling::device::ListLengths(
        std::span(indptr.const_data_ptr<int64_t>(), static_cast<size_t>(indptr.numel()))
    );
  }
  return lists;
}

}  // namespace

std::vector<int64_t> own_fanout(const api::Sampling& sampling, const graph::EdgeTypeData& type) {
  std::vector<int64_t> fanout;
  for (const api::EdgeTypeFanout& own : sampling.fanout_by_edge_type) {
    const api::EdgeType& name = own.edge_type;
    if (name.source == type.source && name.relation == type.relation &&
        name.destination == type.destination)
      fanout = own.fanout;
  }
  return fanout;
}

std::vector<int64_t> seeds_of(const SampledData& data, Use use) {
  const graph::Dataset& dataset = data.dataset;
  std::vector<int64_t> seeds(dataset.node_types.size());
  if (dataset.links) {
    const auto& links = dataset.edge_types[static_cast<size_t>(dataset.links->edge_type)];
    for (const int64_t end : {links.source_index, links.destination_index})
      seeds[static_cast<size_t>(end)] += pairs_of(data, use);
  } else {
    seeds[static_cast<size_t>(dataset.target_node_type)] = data.training.batch_size;
  }
  for (size_t type = 0; type < seeds.size(); ++type)
    seeds[type] = std::min(seeds[type], dataset.node_types[type].num_nodes);
  return seeds;
}

sampling::device::LargestBatch largest_batch(const SampledData& data, api::Part part, Use use) {
  return {
      .seeds = seeds_of(data, use),
      .excluded = excluded_of(data, use),
      .lists = lists_of(data, sampler_options(data.sampling, data.training, part).fanout),
      .in_steps = data.in_steps
  };
}

sampling::device::SamplerSpec sampler_spec(const SampledData& data, api::Part part, Use use) {
  sampling::device::SamplerSpec spec{
      .num_nodes = {},
      .relations = {},
      .options = sampling::kernel_options(sampler_options(data.sampling, data.training, part)),
      .largest = largest_batch(data, part, use)
  };
  for (const graph::NodeTypeData& type : data.dataset.node_types)
    spec.num_nodes.push_back(type.num_nodes);
  for (size_t i = 0; i < data.edge_types.size(); ++i) {
    const graph::EdgeTypeData& type = type_at(data, i);
    sampling::core::RelationView relation;
    relation.source_type = static_cast<int>(type.source_index);
    relation.destination_type = static_cast<int>(type.destination_index);
    relation.fanout = own_fanout(data.sampling, type);
    spec.relations.push_back(std::move(relation));
  }
  return spec;
}

}  // namespace gnn::tasks
