#include "worker/tasks/link_batches.h"

#include "worker/data/dataset_arrays.h"
#include "worker/sampling/async_sampler.h"
#include "worker/sampling/core/pair_set.h"
#include "worker/tasks/device_sampling.h"
#include "worker/tasks/row_type.h"
#include "worker/tasks/sampled_shape.h"
#include "worker/tasks/sampler_options.h"
#include "worker/tasks/values.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace gnn::tasks {
namespace {

using sampling::core::NegativeSampler;
using sampling::core::PairDomain;
using sampling::core::PairSet;
using sampling::core::PairSetShape;

// How often each node is an end of the links `ids`: as their source, and as their destination.
std::array<at::Tensor, 2> degrees_of_ends(const Links& links, const at::Tensor& ids) {
  const auto degrees_at = [&](int64_t side, int64_t nodes) {
    return at::bincount(links.pairs.select(1, side).index_select(0, ids), {}, nodes);
  };
  std::array<at::Tensor, 2> degrees{
      degrees_at(0, links.num_sources), degrees_at(1, links.num_destinations)
  };
  // An undirected link has no first end.
  if (links.undirected) degrees[0] = degrees[1] = degrees[0] + degrees[1];
  return degrees;
}

PairSetShape shape_of(const Links& links) {
  return {
      .num_sources = links.num_sources,
      .num_destinations = links.num_destinations,
      .domain = links.undirected  ? PairDomain::Ascending
                : links.same_type ? PairDomain::NoLoops
                                  : PairDomain::All
  };
}

bool is_edge_type(const graph::EdgeTypeData& type, const api::EdgeType& name) {
  return type.source == name.source && type.relation == name.relation &&
         type.destination == name.destination;
}

bool is_ranked(const api::Training& training) {
  return training.evaluation.metric == api::Metric::MRR;
}

// A fan-out that nothing reads would be a typing error without effect.
Status check_edge_types(
    const std::vector<api::EdgeTypeFanout>& fanouts,
    const graph::Dataset& dataset,
    const std::vector<int64_t>& reads
) {
  std::string names;
  for (const int64_t type : reads)
    names += ", " + graph::text_of(dataset.edge_types[static_cast<size_t>(type)]);
  for (size_t i = 0; i < fanouts.size(); ++i) {
    const api::EdgeType& wanted = fanouts[i].edge_type;
    const bool read = std::ranges::any_of(reads, [&](int64_t type) {
      return is_edge_type(dataset.edge_types[static_cast<size_t>(type)], wanted);
    });
    if (read) continue;
    return fail(
        ErrorKind::Configuration,
        "spec.sampling.fanoutByEdgeType[" + std::to_string(i) +
            "]: expected an edge type that the model reads" + names + ", found " +
            data::text_of({wanted.source, wanted.relation, wanted.destination})
    );
  }
  return {};
}

}  // namespace

sampling::core::ItemSamplerOptions link_item_options(
    const api::Training& training, const Ranks& ranks, api::Part part, Use use
) {
  sampling::core::ItemSamplerOptions options = item_options(training, ranks, part, use);
  // A part of the batches has links and negatives in the ratio of all.
  if (use == Use::Evaluation) options.shuffle = true;
  return options;
}

// A link belongs to the owner of its destination.
Result<sampling::core::ItemSamplerOptions> link_items(
    const SplitDataset& data,
    const api::Training& training,
    const Ranks& ranks,
    api::Part part,
    Use use
) {
  const graph::LinkData& links = *data.dataset.links;
  at::Tensor pairs = links.pairs.index_select(0, ids_of(data.split, part));
  if (use == Use::Evaluation && !is_ranked(training))
    pairs = at::cat({pairs, negatives_of(data.split, part)});
  const auto& type = data.dataset.edge_types[static_cast<size_t>(links.edge_type)];
  return deal(
      link_item_options(training, ranks, part, use),
      sharding_of(training),
      data.dataset,
      {.node_type = type.destination_index, .ids = pairs.select(1, 1)},
      ranks.per_node
  );
}

LinkBatches::LinkBatches(SplitDataset data, LinkReads reads, const LinkBatchesOptions& options)
    : data_(std::move(data)), reads_(std::move(reads)), options_(options) {}

Result<std::shared_ptr<const LinkBatches>> LinkBatches::create(
    SplitDataset data,
    LinkReads reads,
    const comm::RankGroups& groups,
    const LinkBatchesOptions& options
) {
  std::shared_ptr<LinkBatches> made(new LinkBatches(std::move(data), std::move(reads), options));
  const SplitDataset& split = made->data_;
  GNN_RETURN_IF_ERROR(
      check_edge_types(options.sampling.fanout_by_edge_type, split.dataset, made->reads_.edge_types)
  );
  if (options.partitioned) {
    GNN_RETURN_IF_ERROR(made->open_parts(groups));  // with graph_
  } else {
    GNN_ASSIGN_OR_RETURN(
        made->graph_, make_link_graph(split.dataset, made->reads_.edge_types, split.split)
    );
  }
  GNN_RETURN_IF_ERROR(made->make_features(groups));
  return std::shared_ptr<const LinkBatches>(std::move(made));
}

Status LinkBatches::open_parts(const comm::RankGroups& groups) {
  GNN_ASSIGN_OR_RETURN(
      parts_,
      PartInputs::open(
          data_.dataset,
          *options_.partitioned,
          [this](const shards::Part& part) { return part_samplers(part); },
          training_links(),
          groups
      )
  );
  return {};
}

TrainingItems LinkBatches::training_links() const {
  const graph::Dataset& dataset = data_.dataset;
  const auto& links = dataset.edge_types[static_cast<size_t>(dataset.links->edge_type)];
  const api::Negatives negatives = options_.sampling.negatives.value_or(api::Negatives{});
  LinkDraws draws{.source_type = links.source_index, .negatives = negatives.amount.value()};
  if (negatives.weights == api::NegativeWeights::Degree) {
    const auto degrees = degrees_of_ends(links_of(dataset), data_.split.train_links);
    for (size_t end = 0; end < degrees.size(); ++end) {
      draws.weights.at(end) =
          degrees.at(end).to(at::kDouble).pow(sampling::core::kDegreeExponent).contiguous();
    }
  }
  return {
      .ids = dataset.links->pairs.index_select(0, data_.split.train),
      .node_type = links.destination_index,
      .links = std::move(draws),
      .batch_size = options_.training.batch_size,
      // Which was done with all links, and a split leaves some of them out.
      .as_partitioned = false
  };
}

// A sampler for each part of the split, since each sees other links; in the order of api::Part.
Result<std::vector<shards::SamplerSpec>> LinkBatches::part_samplers(const shards::Part& part) {
  graph::Dataset dataset = data_.dataset;
  if (options_.partitioned->has_own_lists_alone()) {
    GNN_ASSIGN_OR_RETURN(dataset, with_own_lists(dataset, part));
  }
  GNN_ASSIGN_OR_RETURN(graph_, make_link_graph(dataset, reads_.edge_types, data_.split));
  const auto listed = [&](int64_t node_type) {
    return options_.partitioned->has_own_lists_alone()
               ? part.own(node_type)
               : data::IdRange{0, part.num_nodes()[static_cast<size_t>(node_type)]};
  };
  std::vector<shards::SamplerSpec> specs;
  for (const auto of : {api::Part::Train, api::Part::Validation, api::Part::Test}) {
    shards::SamplerSpec spec{.options = sampling_of(of), .relations = {}};
    for (sampling::Relation& relation : relations_of(of)) {
      spec.relations.push_back(
          {.lists = shards::PartLists::of(relation.graph, listed(relation.destination_type)),
           .source_type = relation.source_type,
           .destination_type = relation.destination_type,
           .ends = std::move(relation.ends),
           .lane = relation.lane,
           .fanout = std::move(relation.fanout)}
      );
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

// Training batches are drawn from the lists that training may see.
Status LinkBatches::make_device_features(const comm::RankGroups& groups) {
  shards::SamplerSpec sampler{.options = sampling_of(api::Part::Train), .relations = {}};
  for (sampling::Relation& relation : relations_of(api::Part::Train)) {
    const data::IdRange listed{0, relation.graph.num_destinations()};
    sampler.relations.push_back(
        {.lists = shards::PartLists::of(relation.graph, listed),
         .source_type = relation.source_type,
         .destination_type = relation.destination_type,
         .ends = std::move(relation.ends),
         .lane = relation.lane,
         .fanout = std::move(relation.fanout)}
    );
  }
  GNN_ASSIGN_OR_RETURN(
      features_,
      device_fetchers(
          data_.dataset,
          reads_.features,
          {.sampler = sampler, .items = training_links()},
          *options_.device_features,
          row_type(options_.training),
          groups
      )
  );
  evaluation_features_ = features_;
  return {};
}

Status LinkBatches::make_features(const comm::RankGroups& groups) {
  if (options_.device_features && parts_ == nullptr) return make_device_features(groups);
  features_.resize(reads_.features.size());
  evaluation_features_.resize(reads_.features.size());
  for (size_t type = 0; type < reads_.features.size(); ++type) {
    const graph::NodeTypeData& nodes = data_.dataset.node_types[type];
    if (!reads_.features[type]) continue;  // embeddings instead
    if (parts_ != nullptr) {
      features_[type] = parts_->features(static_cast<int64_t>(type), Use::Training);
      evaluation_features_[type] = parts_->features(static_cast<int64_t>(type), Use::Evaluation);
      continue;
    }
    if (!nodes.features) continue;
    GNN_ASSIGN_OR_RETURN(
        loader::LocalFeatureFetcher fetcher,
        loader::LocalFeatureFetcher::create(
            nodes.features->rows(), options_.memory, row_type(options_.training)
        )
    );
    features_[type] = std::make_shared<loader::LocalFeatureFetcher>(std::move(fetcher));
    evaluation_features_[type] = features_[type];
  }
  return {};
}

sampling::NeighborSamplerOptions LinkBatches::sampling_of(api::Part part) const {
  sampling::NeighborSamplerOptions options =
      sampler_options(options_.sampling, options_.training, part);
  options.num_edge_types = static_cast<int64_t>(data_.dataset.edge_types.size());
  return options;
}

std::vector<sampling::Relation> LinkBatches::relations_of(api::Part part) const {
  std::vector<sampling::Relation> relations = visible_for(graph_, part);
  for (size_t i = 0; i < relations.size(); ++i) {
    const auto type = static_cast<size_t>(reads_.edge_types[i]);
    relations[i].fanout = own_fanout(options_.sampling, data_.dataset.edge_types[type]);
  }
  return relations;
}

Result<std::shared_ptr<sampling::Sampler>> LinkBatches::sampler_for(
    api::Part part, Use use, int64_t under_way
) const {
  const bool in_steps = options_.partitioned && options_.partitioned->has_own_lists_alone();
  std::optional<sampling::device::LargestBatch> largest;
  if (options_.device_graph != nullptr) {
    largest = largest_batch(
        {.sampling = options_.sampling,
         .training = options_.training,
         .dataset = data_.dataset,
         .edge_types = reads_.edge_types,
         .in_steps = in_steps},
        part,
        use
    );
  }
  if (in_steps) {
    return parts_->sampler(
        static_cast<size_t>(part),
        use,
        options_.device_graph,
        {.in_flight = static_cast<size_t>(under_way), .largest = std::move(largest)}
    );
  }
  std::vector<int64_t> num_nodes;
  num_nodes.reserve(data_.dataset.node_types.size());
  for (const graph::NodeTypeData& type : data_.dataset.node_types)
    num_nodes.push_back(type.num_nodes);
  return whole_graph_sampler(
      sampling_of(part),
      std::move(num_nodes),
      relations_of(part),
      options_.device_graph,
      std::move(largest)
  );
}

Result<std::shared_ptr<const NegativeSampler>> LinkBatches::negative_sampler() const {
  const api::Negatives negatives = options_.sampling.negatives.value_or(api::Negatives{});
  const Links links = links_of(data_.dataset);
  const at::Tensor& ids = data_.split.train_links;
  sampling::core::NegativeOptions options{
      .shape = shape_of(links), .amount = negatives.amount.value()
  };
  std::array<at::Tensor, 2> degrees;
  if (negatives.weights == api::NegativeWeights::Degree) {
    degrees = degrees_of_ends(links, ids);
    options.source_degrees = values_of<int64_t>(degrees[0]);
    options.destination_degrees = values_of<int64_t>(degrees[1]);
  }
  if (negatives.strict) {
    GNN_ASSIGN_OR_RETURN(
        PairSet taken,
        PairSet::create(options.shape, values_of<int64_t>(links.pairs), values_of<int64_t>(ids))
    );
    options.avoided = std::make_shared<const PairSet>(std::move(taken));
  }
  GNN_ASSIGN_OR_RETURN(NegativeSampler sampler, NegativeSampler::create(options));
  return std::make_shared<const NegativeSampler>(std::move(sampler));
}

Result<loader::LinkItems> LinkBatches::training_items() const {
  loader::LinkItems items{
      .pairs = data_.dataset.links->pairs, .ids = data_.split.train.contiguous()
  };
  GNN_ASSIGN_OR_RETURN(items.sampler, negative_sampler());
  return items;
}

// The links of a part with their negatives: each link's own, or all behind the links.
Result<loader::LinkItems> LinkBatches::held_out(api::Part part) const {
  const Links links = links_of(data_.dataset);
  const at::Tensor ids = ids_of(data_.split, part).contiguous();
  if (is_ranked(options_.training)) {
    loader::LinkItems items{.pairs = links.pairs, .ids = ids};
    GNN_ASSIGN_OR_RETURN(
        items.negatives,
        ranking_negatives(
            links,
            {.ids = ids,
             .count = options_.training.evaluation.negatives.value_or(1),
             .seed = options_.split_seed}
        )
    );
    return items;
  }
  const at::Tensor& negatives = negatives_of(data_.split, part);
  return loader::LinkItems{
      .pairs = at::cat({links.pairs.index_select(0, ids), negatives}),
      .labels = at::cat({at::ones({ids.numel()}), at::zeros({negatives.size(0)})}),
  };
}

Result<std::shared_ptr<const LinkBatches::Maker>> LinkBatches::maker(
    api::Part part, Use use, int64_t under_way
) const {
  const bool is_training = use == Use::Training;
  GNN_ASSIGN_OR_RETURN(loader::LinkItems items, is_training ? training_items() : held_out(part));
  GNN_ASSIGN_OR_RETURN(auto sampler, sampler_for(part, use, under_way));
  return Maker::create(
      {.num_node_types = static_cast<int64_t>(data_.dataset.node_types.size()),
       .relations =
           {.source_type = link_type().source_index,
            .destination_type = link_type().destination_index,
            .forward = graph_.forward,
            .backward = graph_.backward},
       .exclude_seed_edges = is_training && options_.sampling.exclude_seed_edges},
      std::move(items),
      std::move(sampler),
      is_training ? features_ : evaluation_features_
  );
}

progress::MemoryByOwner LinkBatches::memory() const {
  progress::MemoryByOwner memory;
  for (const sampling::Relation& relation : graph_.relations) {
    const graph::CscGraph& graph = relation.graph;
    memory.graph += static_cast<int64_t>(graph.indptr().nbytes() + graph.indices().nbytes());
  }
  if (parts_ != nullptr) {
    memory.features = parts_->feature_bytes();
    return memory;
  }
  for (size_t type = 0; type < features_.size(); ++type) {
    if (features_[type] == nullptr) continue;
    const auto& rows = data_.dataset.node_types[type].features->rows();
    memory.features += static_cast<int64_t>(rows.nbytes());
  }
  return memory;
}

}  // namespace gnn::tasks
