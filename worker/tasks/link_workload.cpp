#include "worker/tasks/link_workload.h"

#include "common/hash.h"
#include "worker/data/dataset_arrays.h"
#include "worker/nn/models/gradient_check.h"
#include "worker/sampling/async_sampler.h"
#include "worker/sampling/core/negatives.h"
#include "worker/sampling/core/pair_set.h"
#include "worker/tasks/data_path.h"
#include "worker/tasks/items.h"
#include "worker/tasks/sampler_options.h"
#include "worker/tasks/values.h"

#include <ATen/ATen.h>
#include <torch/nn/functional/loss.h>

#include <algorithm>
#include <array>
#include <span>
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

LinkWorkload::LinkWorkload(
    SplitDataset data,
    std::shared_ptr<nn::LinkModel> model,
    LinkInputs inputs,
    comm::RankGroups groups,
    const LinkWorkloadOptions& options
)
    : data_(std::move(data)),
      model_(std::move(model)),
      inputs_(std::move(inputs)),
      groups_(std::move(groups)),
      options_(options),
      reads_(model_->reads()) {}

Result<std::unique_ptr<LinkWorkload>> LinkWorkload::create(
    SplitDataset data,
    std::shared_ptr<nn::LinkModel> model,
    LinkInputs inputs,
    comm::RankGroups groups,
    const LinkWorkloadOptions& options
) {
  std::unique_ptr<LinkWorkload> made(new LinkWorkload(
      std::move(data), std::move(model), std::move(inputs), std::move(groups), options
  ));
  const SplitDataset& split = made->data_;
  GNN_RETURN_IF_ERROR(
      check_edge_types(options.sampling.fanout_by_edge_type, split.dataset, made->reads_)
  );
  if (options.partitioned) {
    GNN_RETURN_IF_ERROR(made->open_parts());  // with graph_
  } else {
    GNN_ASSIGN_OR_RETURN(made->graph_, make_link_graph(split.dataset, made->reads_, split.split));
  }
  GNN_RETURN_IF_ERROR(made->make_features());
  GNN_ASSIGN_OR_RETURN(const auto items, made->training_items());
  GNN_ASSIGN_OR_RETURN(made->batches_per_rank_, batches_of_ranks(items));
  GNN_RETURN_IF_ERROR(check_training_batches(made->batches_per_rank_, split.dataset.name, items));
  GNN_ASSIGN_OR_RETURN(made->train_loader_, made->training_loader());
  GNN_RETURN_IF_ERROR(made->check_model());
  return made;
}

Status LinkWorkload::open_parts() {
  GNN_ASSIGN_OR_RETURN(
      parts_,
      PartInputs::open(
          data_.dataset,
          *options_.partitioned,
          [this](const shards::Part& part) { return part_samplers(part); },
          training_links(),
          groups_
      )
  );
  return {};
}

TrainingItems LinkWorkload::training_links() const {
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
Result<std::vector<shards::SamplerSpec>> LinkWorkload::part_samplers(const shards::Part& part) {
  graph::Dataset dataset = data_.dataset;
  if (options_.partitioned->has_own_lists_alone()) {
    GNN_ASSIGN_OR_RETURN(dataset, with_own_lists(dataset, part));
  }
  GNN_ASSIGN_OR_RETURN(graph_, make_link_graph(dataset, reads_, data_.split));
  const auto listed = [&](int64_t node_type) {
    return options_.partitioned->has_own_lists_alone()
               ? part.own(node_type)
               : data::IdRange{0, part.num_nodes()[static_cast<size_t>(node_type)]};
  };
  std::vector<shards::SamplerSpec> specs;
  for (const auto of : {training::Part::Train, training::Part::Validation, training::Part::Test}) {
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

Status LinkWorkload::make_features() {
  features_.resize(inputs_.tables.size());
  evaluation_features_.resize(inputs_.tables.size());
  for (size_t type = 0; type < inputs_.tables.size(); ++type) {
    const graph::NodeTypeData& nodes = data_.dataset.node_types[type];
    if (inputs_.tables[type] >= 0) continue;  // embeddings instead
    if (parts_ != nullptr) {
      features_[type] = parts_->features(static_cast<int64_t>(type), Use::Training);
      evaluation_features_[type] = parts_->features(static_cast<int64_t>(type), Use::Evaluation);
      continue;
    }
    if (!nodes.features) continue;
    GNN_ASSIGN_OR_RETURN(
        loader::LocalFeatureFetcher fetcher,
        loader::LocalFeatureFetcher::create(nodes.features->rows())
    );
    features_[type] = std::make_shared<loader::LocalFeatureFetcher>(std::move(fetcher));
    evaluation_features_[type] = features_[type];
  }
  return {};
}

loader::LinkLoaderOptions LinkWorkload::loader_options() const {
  const graph::Dataset& dataset = data_.dataset;
  const auto& links = dataset.edge_types[static_cast<size_t>(dataset.links->edge_type)];
  return {
      .items = {},
      .num_node_types = static_cast<int64_t>(dataset.node_types.size()),
      .relations =
          {.source_type = links.source_index,
           .destination_type = links.destination_index,
           .forward = graph_.forward,
           .backward = graph_.backward},
      .num_threads = options_.sampling.num_threads.value_or(loading_threads(options_.num_cpus)),
      .concurrency =
          options_.partitioned ? options_.sampling.concurrency.value_or(kDefaultConcurrency) : 1,
      .prefetch = options_.sampling.prefetch.value_or(kDefaultPrefetch),
      .device = options_.device,
  };
}

// A link belongs to the owner of its destination.
Result<sampling::core::ItemSamplerOptions> LinkWorkload::deal_links(
    const at::Tensor& pairs, const sampling::core::ItemSamplerOptions& options
) const {
  const graph::Dataset& dataset = data_.dataset;
  const auto& links = dataset.edge_types[static_cast<size_t>(dataset.links->edge_type)];
  return deal(
      options,
      sharding(),
      dataset,
      {.node_type = links.destination_index, .ids = pairs.select(1, 1)},
      groups_.node->world_size()
  );
}

Result<sampling::core::ItemSamplerOptions> LinkWorkload::training_items() const {
  return deal_links(
      data_.dataset.links->pairs.index_select(0, data_.split.train),
      train_item_options(options_.training, sharding(), *groups_.all)
  );
}

const std::vector<int64_t>& LinkWorkload::fanout_of(training::Part part) const {
  const std::optional<std::vector<int64_t>>& evaluated = options_.training.evaluation.fanout;
  return part != training::Part::Train && evaluated ? *evaluated : options_.sampling.fanout;
}

sampling::NeighborSamplerOptions LinkWorkload::sampling_of(training::Part part) const {
  sampling::NeighborSamplerOptions options = sampler_options(options_.sampling, fanout_of(part));
  options.num_edge_types = static_cast<int64_t>(data_.dataset.edge_types.size());
  return options;
}

std::vector<sampling::Relation> LinkWorkload::relations_of(training::Part part) const {
  std::vector<sampling::Relation> relations = visible_for(graph_, part);
  for (const api::EdgeTypeFanout& own : options_.sampling.fanout_by_edge_type) {
    for (size_t i = 0; i < relations.size(); ++i) {
      if (is_edge_type(data_.dataset.edge_types[static_cast<size_t>(reads_[i])], own.edge_type))
        relations[i].fanout = own.fanout;
    }
  }
  return relations;
}

Result<std::shared_ptr<sampling::Sampler>> LinkWorkload::sampler_for(training::Part part, Use use)
    const {
  if (options_.partitioned && options_.partitioned->has_own_lists_alone())
    return parts_->sampler(static_cast<size_t>(part), use);
  std::vector<int64_t> num_nodes;
  num_nodes.reserve(data_.dataset.node_types.size());
  for (const graph::NodeTypeData& type : data_.dataset.node_types)
    num_nodes.push_back(type.num_nodes);
  GNN_ASSIGN_OR_RETURN(
      auto sampler,
      sampling::NeighborSampler::create(sampling_of(part), std::move(num_nodes), relations_of(part))
  );
  return std::make_shared<sampling::LocalSampler>(std::move(sampler));
}

Result<std::shared_ptr<const NegativeSampler>> LinkWorkload::negative_sampler() const {
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

Result<std::unique_ptr<loader::LinkLoader>> LinkWorkload::training_loader() const {
  loader::LinkLoaderOptions options = loader_options();
  GNN_ASSIGN_OR_RETURN(options.items, training_items());
  options.exclude_seed_edges = options_.sampling.exclude_seed_edges;
  loader::LinkItems items{
      .pairs = data_.dataset.links->pairs, .ids = data_.split.train.contiguous()
  };
  GNN_ASSIGN_OR_RETURN(items.sampler, negative_sampler());
  GNN_ASSIGN_OR_RETURN(auto sampler, sampler_for(training::Part::Train, Use::Training));
  return loader::LinkLoader::create(options, std::move(items), std::move(sampler), features_);
}

const at::Tensor& LinkWorkload::ids_of(training::Part part) const {
  switch (part) {
    case training::Part::Train:
      return data_.split.train;
    case training::Part::Validation:
      return data_.split.validation;
    case training::Part::Test:
      break;
  }
  return data_.split.test;
}

// The links of a part with their negatives: each link's own, or all behind the links.
Result<loader::LinkItems> LinkWorkload::held_out(training::Part part) {
  const Links links = links_of(data_.dataset);
  const at::Tensor ids = ids_of(part).contiguous();
  if (ranks()) {
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
  const at::Tensor& negatives = part == training::Part::Validation
                                    ? data_.split.validation_negatives
                                    : data_.split.test_negatives;
  const int64_t positives = ids.numel();
  return loader::LinkItems{
      .pairs = at::cat({links.pairs.index_select(0, ids), negatives}),
      .labels = at::cat({at::ones({positives}), at::zeros({negatives.size(0)})}),
  };
}

Result<std::unique_ptr<loader::LinkLoader>> LinkWorkload::evaluation_loader(training::Part part) {
  const sampling::core::ItemSamplerOptions dealt = {
      .batch_size = options_.training.batch_size,
      .rank = groups_.all->rank(),
      .world_size = groups_.all->world_size(),
      // A part of the batches has links and negatives in the ratio of all.
      .shuffle = true,
      // The same draws in each evaluation, so that its numbers differ by the model alone.
      .seed =
          splitmix64(static_cast<uint64_t>(options_.training.seed), static_cast<uint64_t>(part)),
  };
  GNN_ASSIGN_OR_RETURN(loader::LinkItems items, held_out(part));
  loader::LinkLoaderOptions options = loader_options();
  GNN_ASSIGN_OR_RETURN(
      options.items,
      deal_links(items.ids.defined() ? items.pairs.index_select(0, items.ids) : items.pairs, dealt)
  );
  GNN_ASSIGN_OR_RETURN(auto sampler, sampler_for(part, Use::Evaluation));
  return loader::LinkLoader::create(
      options, std::move(items), std::move(sampler), evaluation_features_
  );
}

// The reducer waits for a gradient of each parameter: without one the ranks would hang.
Status LinkWorkload::check_model() {
  std::string problem;
  if (train_loader_->num_batches() > 0) {
    GNN_RETURN_IF_ERROR(start_epoch(0, 0));
    GNN_ASSIGN_OR_RETURN(const auto size, next_batch());
    GNN_ASSERT(size.has_value(), "the rank has a batch");
    Status checked = nn::check_gradients(*model_, loss(forward()));
    if (!checked) problem = checked.error().message;
    if (embeddings() != nullptr) embeddings()->discard();
    current_.reset();
    past_epochs_ = {};
  }
  GNN_ASSIGN_OR_RETURN(const auto problems, comm::all_gather_bytes(*groups_.all, problem));
  for (const std::string& each : problems) {
    if (!each.empty()) return fail(ErrorKind::Configuration, each);
  }
  return {};
}

Status LinkWorkload::start_epoch(int64_t epoch, int64_t first_batch) {
  current_.reset();
  past_epochs_ = data_path();
  return train_loader_->start_epoch(epoch, first_batch);
}

Result<std::optional<training::BatchSize>> LinkWorkload::next_batch() {
  current_.reset();  // gives the batch's memory back before the next one is taken
  GNN_ASSIGN_OR_RETURN(current_, train_loader_->next());
  if (!current_) return std::optional<training::BatchSize>();
  training::BatchSize size{
      .items = current_->labels.size(0), .sampled_edges = current_->subgraph.num_edges()
  };
  for (const at::Tensor& ids : current_->subgraph.node_ids) size.input_nodes += ids.size(0);
  return size;
}

training::Scores LinkWorkload::forward() {
  GNN_ASSERT(current_.has_value(), "the trainer fetches a batch before each forward");
  return {.logits = score(*current_), .labels = current_->labels};
}

at::Tensor LinkWorkload::loss(const training::Scores& scores) const {
  return torch::nn::functional::binary_cross_entropy_with_logits(
      scores.logits, scores.labels.to(scores.logits.scalar_type())
  );
}

int64_t LinkWorkload::count_correct(const training::Scores& scores) const {
  const at::NoGradGuard no_grad;
  return scores.logits.gt(0).eq(scores.labels.gt(0)).sum().item<int64_t>();
}

// The model's rows of a node type: embeddings, read once for each node, or features.
at::Tensor LinkWorkload::input_of(size_t type, const loader::LinkMiniBatch& batch) {
  const int64_t table = inputs_.tables[type];
  if (table < 0) return batch.x[type].defined() ? batch.x[type].to(at::kFloat) : at::Tensor();
  const auto [ids, order] = batch.subgraph.node_ids[type].to(at::kCPU).sort();
  const at::Tensor rows = inputs_.embeddings->read(static_cast<size_t>(table), ids.contiguous());
  return rows.index_select(0, order.argsort().to(rows.device()));
}

at::Tensor LinkWorkload::score(const loader::LinkMiniBatch& batch) {
  nn::TypedInputs x;
  for (size_t type = 0; type < inputs_.tables.size(); ++type) x.push_back(input_of(type, batch));
  const graph::Dataset& dataset = data_.dataset;
  const auto& links = dataset.edge_types[static_cast<size_t>(dataset.links->edge_type)];
  return model_->forward(
      x,
      batch.subgraph.blocks,
      {.source_type = links.source_index,
       .destination_type = links.destination_index,
       .source_rows = batch.source_rows,
       .destination_rows = batch.destination_rows}
  );
}

progress::DataPath LinkWorkload::data_path() const {
  return data_path_of(past_epochs_, train_loader_->stats());
}

progress::MemoryByOwner LinkWorkload::memory() const {
  progress::MemoryByOwner memory{.sampler = train_loader_->stats().sampler_bytes};
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

bool LinkWorkload::has(training::Part part) const {
  return ids_of(part).numel() > 0;
}

training::LinkScores LinkWorkload::held_out_scores(const loader::LinkMiniBatch& batch) {
  const at::Tensor scores = score(batch);
  if (!ranks()) return training::split_by_label(scores, batch.labels);
  return {
      .positive = scores.narrow(0, 0, batch.positives),
      .negative = scores.slice(0, batch.positives).view({batch.positives, -1})
  };
}

Result<training::Evaluated> LinkWorkload::evaluate(
    training::Part part, const training::EvaluationContext& context
) {
  GNN_ASSIGN_OR_RETURN(const auto batches, evaluation_loader(part));
  GNN_RETURN_IF_ERROR(batches->start_epoch(0));
  const auto next = [&]() -> Result<std::optional<training::LinkScores>> {
    GNN_ASSIGN_OR_RETURN(const std::optional<loader::LinkMiniBatch> batch, batches->next());
    if (!batch) return std::optional<training::LinkScores>();
    return held_out_scores(*batch);
  };
  return training::evaluate_links(
      next, batches->num_batches(), options_.training.evaluation, *groups_.all, context
  );
}

}  // namespace gnn::tasks
