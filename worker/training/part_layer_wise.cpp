#include "worker/training/part_layer_wise.h"

#include "worker/comm/node_memory.h"
#include "worker/nn/functional/aggregate.h"
#include "worker/nn/functional/csr.h"
#include "worker/nn/functional/spmm.h"
#include "worker/shards/row_fetcher.h"
#include "worker/training/agreement.h"
#include "worker/training/meters.h"
#include "worker/training/scores.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace gnn::training {
namespace {

// The lists of the part's own nodes, whose offsets begin at 0.
graph::CscGraph own_lists(const shards::Part& part) {
  const shards::PartLists& lists = part.lists(0);
  const data::IdRange own = part.own(0);
  const at::Tensor indptr = lists.indptr.narrow(0, own.begin - lists.nodes.begin, own.size() + 1);
  const auto* const offsets = indptr.const_data_ptr<int64_t>();
  const int64_t edges = offsets[own.size()] - offsets[0];
  auto graph = graph::CscGraph::create_unchecked(
      at::sub(indptr, offsets[0]), lists.indices.narrow(0, offsets[0], edges), lists.num_sources
  );
  GNN_ASSERT(graph.has_value(), "the part's data set was checked");
  return std::move(*graph);
}

at::Tensor range_tensor(const NodeRange& range) {
  return at::arange(range.first, range.end());
}

// Of all ranks whose nodes have one part, this rank's number and how many there are.
struct Holders {
  int64_t index = 0;
  int64_t count = 1;
};

Holders holders_of(const comm::RankGroups& groups, int64_t parts) {
  const int64_t ranks = groups.node->world_size();
  const int64_t node = groups.all->rank() / ranks;
  const int64_t nodes = groups.all->world_size() / ranks;
  const int64_t holders = (nodes - node % parts + parts - 1) / parts;
  return {.index = node / parts * ranks + groups.node->rank(), .count = holders * ranks};
}

template <class Index>
void number_columns(
    const at::Tensor& indices,
    std::vector<int32_t>& column_of,
    std::vector<int64_t>& ids,
    int32_t* out
) {
  const auto* const nodes = indices.const_data_ptr<Index>();
  for (int64_t edge = 0; edge < indices.numel(); ++edge) {
    int32_t& column = column_of[static_cast<size_t>(nodes[edge])];
    if (column < 0) {
      column = static_cast<int32_t>(ids.size());
      ids.push_back(nodes[edge]);
    }
    out[edge] = column;
  }
}

}  // namespace

PartInference::PartInference(
    nn::NodeModel& model,
    const PartOfGraph& graph,
    comm::RankGroups groups,
    const EvaluationContext& context,
    const PartInferenceOptions& options
)
    : model_(model),
      graph_(graph),
      groups_(std::move(groups)),
      context_(context),
      options_(options),
      own_(graph.part->own(0)),
      lists_(own_lists(*graph.part)),
      mine_(range_tensor(divide_nodes(
          lists_.indptr(), groups_.node->world_size()
      )[static_cast<size_t>(groups_.node->rank())])),
      dtype_(dtype_of(model)),
      column_of_(static_cast<size_t>(lists_.num_sources()), -1) {}

PartInference::~PartInference() {
  while (!published_.empty()) withdraw(published_.back());
}

at::Tensor PartInference::to_model(const at::Tensor& rows) const {
  return rows.to(dtype_).to(options_.device);
}

Result<bool> PartInference::none_stops() {
  return training::none_stops(*groups_.all, context_.stop);
}

Result<at::Tensor> PartInference::make_matrix(at::IntArrayRef sizes, at::ScalarType dtype) {
  if (own_.size() == 0) return at::empty(sizes, dtype);
  if (groups_.node->world_size() == 1) return comm::empty_on_large_pages(sizes, dtype);
  GNN_ASSIGN_OR_RETURN(
      const std::optional<at::Tensor> shared, comm::zeros_shared_by(*groups_.node, sizes, dtype)
  );
  if (shared) return *shared;
  return fail(
      ErrorKind::Configuration,
      "an exact pass over a partitioned data set needs memory that the ranks of a node share, "
      "which this "
      "machine does not give: set spec.workers.processesPerNode to 1 or, if it is an evaluation, "
      "spec.training.evaluation.mode to Sampled"
  );
}

Result<std::shared_ptr<loader::FeatureFetcher>> PartInference::share(
    uint32_t number, const at::Tensor& rows
) {
  if (graph_.service != nullptr) {
    graph_.service->publish(number, {.nodes = own_, .rows = rows});
    published_.push_back(number);
  }
  GNN_ASSIGN_OR_RETURN(
      auto fetcher,
      shards::RowFetcher::create(
          {.method = shards::Method::Hidden, .index = number, .node_type = 0},
          graph_.part,
          {.nodes = own_, .rows = rows},
          graph_.peers
      )
  );
  return std::shared_ptr<loader::FeatureFetcher>(std::move(fetcher));
}

void PartInference::withdraw(uint32_t number) {
  const auto found = std::find(published_.begin(), published_.end(), number);
  if (found == published_.end()) return;
  graph_.service->withdraw(number);
  published_.erase(found);
}

template <class Body>
Status PartInference::for_each_chunk(const at::Tensor& places, int64_t edges, const Body& body) {
  const ChunkLimits limits{.nodes = options_.chunk_nodes, .edges = edges};
  for (const NodeRange& chunk : cut_nodes(lists_.indptr(), places, limits)) {
    if (context_.stop.requested()) return {};
    const nn::InEdges of_chunk = in_edges_of(lists_, places.narrow(0, chunk.first, chunk.count));
    GNN_RETURN_IF_ERROR(body(of_chunk));
    summed_.done += of_chunk.matrix.indices.numel();
    context_.progress.on_mark();
    context_.progress.on_evaluation(summed_);
  }
  return {};
}

// So many in-edges that their sources' rows, and norms, stay within the bound.
int64_t PartInference::chunk_edges(int64_t layer) const {
  nn::MessagePassing& conv = model_.conv(layer);
  int64_t width = conv.out_channels();
  if (!conv.projects_first()) {
    const at::Tensor& features = graph_.part->features(0).rows;
    width = layer == 0 ? features.size(1) : model_.conv(layer - 1).out_channels();
  }
  const int64_t row = std::max<int64_t>(1, width) * static_cast<int64_t>(c10::elementSize(dtype_));
  return std::max<int64_t>(1, options_.chunk_bytes / row);
}

PartInference::Compact PartInference::compact(const nn::InEdges& edges, bool with_destinations) {
  const at::Tensor& indices = edges.matrix.indices;
  std::vector<int64_t> ids;
  at::Tensor columns = at::empty({indices.numel()}, at::kInt);
  auto* const out = columns.mutable_data_ptr<int32_t>();
  if (indices.scalar_type() == at::kInt) {
    number_columns<int32_t>(indices, column_of_, ids, out);
  } else {
    number_columns<int64_t>(indices, column_of_, ids, out);
  }
  at::Tensor own_columns = at::empty({0}, at::kLong);
  if (with_destinations) {
    const at::Tensor nodes = (edges.nodes + own_.begin).contiguous();
    at::Tensor of_nodes = at::empty({nodes.numel()}, at::kInt);
    number_columns<int64_t>(nodes, column_of_, ids, of_nodes.mutable_data_ptr<int32_t>());
    own_columns = of_nodes.to(at::kLong);
  }
  for (const int64_t id : ids) column_of_[static_cast<size_t>(id)] = -1;
  return {
      .edges =
          {.matrix =
               {.indptr = edges.matrix.indptr,
                .indices = std::move(columns),
                .num_rows = edges.matrix.num_rows,
                .num_cols = static_cast<int64_t>(ids.size())},
           .nodes = std::move(own_columns),
           .norm = {}},
      .ids = at::tensor(ids, at::kLong)
  };
}

Result<bool> PartInference::make_norm() {
  GNN_ASSIGN_OR_RETURN(
      const at::Tensor norm, make_matrix({own_.size()}, nn::spmm_scale_type(dtype_))
  );
  const ChunkLimits limits{.nodes = options_.chunk_nodes};
  for (const NodeRange& chunk : cut_nodes(lists_.indptr(), mine_, limits)) {
    if (context_.stop.requested()) break;
    const nn::InEdges edges = in_edges_of(lists_, mine_.narrow(0, chunk.first, chunk.count));
    const NodeRange rows = span_of(edges.nodes);
    norm.narrow(0, rows.first, rows.count)
        .copy_(nn::gcn_norm(
            nn::in_degrees_without_loops(edges.matrix, edges.nodes + own_.begin), dtype_
        ));
    context_.progress.on_mark();
  }
  GNN_ASSIGN_OR_RETURN(norm_, share(static_cast<uint32_t>(model_.num_layers()), norm));
  return none_stops();
}

Result<PartInference::Inputs> PartInference::make_inputs(int64_t layer) {
  nn::MessagePassing& conv = model_.conv(layer);
  const bool projects = conv.projects_first();
  Inputs inputs;
  if (layer == 0 && !projects) {
    inputs.rows = graph_.features;
    return inputs;
  }
  const int64_t width = projects ? conv.out_channels() : model_.conv(layer - 1).out_channels();
  GNN_ASSIGN_OR_RETURN(inputs.messages, make_matrix({own_.size(), width}, dtype_));
  if (projects && layer > 0 && layer + 1 == model_.num_layers() && extras_.embeddings) {
    inputs.embeddings = comm::empty_on_large_pages(
        {embedded_.numel(), model_.conv(layer - 1).out_channels()}, dtype_
    );
  }
  if (projects && conv.has_root()) {
    GNN_ASSIGN_OR_RETURN(inputs.roots, make_matrix({own_.size(), conv.out_channels()}, dtype_));
  }
  GNN_ASSIGN_OR_RETURN(inputs.rows, share(static_cast<uint32_t>(layer), inputs.messages));
  return inputs;
}

void PartInference::keep(
    int64_t layer, const NodeRange& places, const at::Tensor& x, const Inputs& inputs
) {
  nn::MessagePassing& conv = model_.conv(layer);
  inputs.messages.narrow(0, places.first, places.count).copy_(conv.message(x));
  if (inputs.roots.defined())
    inputs.roots.narrow(0, places.first, places.count).copy_(conv.root(x));
  if (!inputs.embeddings.defined()) return;
  const NodeRange listed = places_of(embedded_, places);
  if (listed.count == 0) return;
  const at::Tensor rows = embedded_.narrow(0, listed.first, listed.count) - places.first;
  inputs.embeddings.narrow(0, listed.first, listed.count)
      .copy_(x.index_select(0, rows.to(options_.device)));
}

Result<at::Tensor> PartInference::features_of(const at::Tensor& places) {
  return graph_.features->submit((places + own_.begin).contiguous()).get();
}

Result<bool> PartInference::first_inputs(Inputs& inputs) {
  GNN_ASSIGN_OR_RETURN(inputs, make_inputs(0));
  if (!inputs.messages.defined()) return true;
  if (mine_.numel() > 0) {
    for (const NodeRange& chunk : cut_range(span_of(mine_), options_.chunk_nodes)) {
      if (context_.stop.requested()) break;
      GNN_ASSIGN_OR_RETURN(const at::Tensor x, features_of(range_tensor(chunk)));
      keep(0, chunk, to_model(x), inputs);
      context_.progress.on_mark();
    }
  }
  return none_stops();
}

Result<at::Tensor> PartInference::roots_of(
    int64_t layer, const at::Tensor& places, const Inputs& inputs
) {
  nn::MessagePassing& conv = model_.conv(layer);
  if (!conv.has_root()) return at::Tensor();
  if (inputs.roots.defined()) return inputs.roots.index_select(0, places).to(options_.device);
  if (inputs.messages.defined())
    return conv.root(to_model(inputs.messages.index_select(0, places)));
  GNN_ASSIGN_OR_RETURN(const at::Tensor x, features_of(places));
  return conv.root(to_model(x));
}

Result<at::Tensor> PartInference::outputs_of(
    int64_t layer, const nn::InEdges& edges, const Inputs& inputs
) {
  nn::MessagePassing& conv = model_.conv(layer);
  Compact sources = compact(edges, conv.normalizes_by_degree());
  GNN_ASSIGN_OR_RETURN(const at::Tensor rows, inputs.rows->submit(sources.ids).get());
  if (conv.normalizes_by_degree()) {
    GNN_ASSIGN_OR_RETURN(sources.edges.norm, norm_->submit(sources.ids).get());
  }
  const at::Tensor aggregated = conv.aggregate(rows.to(dtype_), sources.edges).to(options_.device);
  GNN_ASSIGN_OR_RETURN(const at::Tensor roots, roots_of(layer, edges.nodes, inputs));
  return model_.activate(layer, conv.update(roots, aggregated));
}

Result<bool> PartInference::next_inputs(int64_t layer, const Inputs& inputs, Inputs& outputs) {
  LapTimer timer;
  GNN_ASSIGN_OR_RETURN(outputs, make_inputs(layer + 1));
  GNN_RETURN_IF_ERROR(for_each_chunk(
      mine_,
      chunk_edges(layer),
      [&](const nn::InEdges& edges) -> Status {
        GNN_ASSIGN_OR_RETURN(const at::Tensor x, outputs_of(layer, edges, inputs));
        keep(layer + 1, span_of(edges.nodes), x, outputs);
        return {};
      }
  ));
  if (extras_.kept != nullptr) {
    GNN_RETURN_IF_ERROR(
        extras_.kept->keep_on_all(layer + 1, own_rows(outputs), timer.lap(), *groups_.all, context_)
    );
  }
  GNN_ASSIGN_OR_RETURN(const bool done, none_stops());
  // Nobody asks for the rows of a layer that all have done.
  withdraw(static_cast<uint32_t>(layer));
  if (extras_.kept != nullptr && done) extras_.kept->remove_older();
  return done;
}

std::vector<checkpoint::CheckpointTensor> PartInference::own_rows(const Inputs& inputs) const {
  const NodeRange mine = mine_.numel() > 0 ? span_of(mine_) : NodeRange();
  std::vector<checkpoint::CheckpointTensor> rows = {
      {.name = "messages", .tensor = inputs.messages.narrow(0, mine.first, mine.count)}
  };
  if (inputs.roots.defined())
    rows.push_back({.name = "roots", .tensor = inputs.roots.narrow(0, mine.first, mine.count)});
  if (inputs.embeddings.defined())
    rows.push_back({.name = "embeddings", .tensor = inputs.embeddings});
  return rows;
}

Result<int64_t> PartInference::resume(Inputs& inputs) {
  for (int64_t layer = model_.num_layers() - 1; layer > 0; --layer) {
    GNN_ASSIGN_OR_RETURN(const bool kept, on_all(*groups_.all, extras_.kept->has(layer)));
    if (!kept) continue;
    GNN_ASSIGN_OR_RETURN(inputs, make_inputs(layer));
    // The rows of all are there once all have read theirs.
    GNN_ASSIGN_OR_RETURN(
        const bool read, on_all(*groups_.all, extras_.kept->read(layer, own_rows(inputs)))
    );
    context_.progress.on_mark();
    if (read) return layer;
    withdraw(static_cast<uint32_t>(layer));
  }
  inputs = {};
  return 0;
}

Status PartInference::give_embeddings(const Inputs& inputs) {
  const NodeRange all{.first = 0, .count = embedded_.numel()};
  for (const NodeRange& chunk : cut_range(all, options_.chunk_nodes)) {
    if (context_.stop.requested()) return {};
    const at::Tensor places = embedded_.narrow(0, chunk.first, chunk.count);
    at::Tensor rows;
    if (inputs.embeddings.defined()) {
      rows = inputs.embeddings.narrow(0, chunk.first, chunk.count);
    } else if (inputs.messages.defined() && model_.num_layers() > 1) {
      rows = inputs.messages.index_select(0, places);
    } else {
      GNN_ASSIGN_OR_RETURN(rows, features_of(places));
    }
    extras_.embeddings(places, rows.to(dtype_));
    context_.progress.on_mark();
  }
  return {};
}

Result<bool> PartInference::run(
    const at::Tensor& places, const TakeLogits& take, const LayerWiseExtras& extras
) {
  extras_ = extras;
  const int64_t last = model_.num_layers() - 1;
  const Holders holders = holders_of(groups_, graph_.part->book().parts);
  const NodeRange dealt =
      divide_list(lists_.indptr(), places, holders.count)[static_cast<size_t>(holders.index)];
  const at::Tensor wanted = places.narrow(0, dealt.first, dealt.count);
  // Other nodes with the part have computed the same hidden rows.
  const bool is_first = holders.index < groups_.node->world_size();
  const NodeRange embedded =
      is_first && mine_.numel() > 0 ? places_of(places, span_of(mine_)) : NodeRange();
  embedded_ = places.narrow(0, embedded.first, embedded.count);
  const int64_t edges_of_layer = count_edges(lists_.indptr(), mine_);
  summed_.done = 0;
  summed_.total = last * edges_of_layer + count_edges(lists_.indptr(), wanted);
  if (normalizes_by_degree(model_)) {
    GNN_ASSIGN_OR_RETURN(const bool done, make_norm());
    if (!done) return false;
  }
  Inputs inputs;
  int64_t layer = 0;
  bool going_on = true;
  if (extras_.kept != nullptr) {
    GNN_ASSIGN_OR_RETURN(layer, resume(inputs));
    summed_.done = layer * edges_of_layer;
    if (layer > 0) KeptLayers::tell_resumed(layer, model_.num_layers(), context_.progress);
  }
  if (layer == 0) {
    GNN_ASSIGN_OR_RETURN(going_on, first_inputs(inputs));
  }
  for (; going_on && layer < last; ++layer) {
    Inputs outputs;
    GNN_ASSIGN_OR_RETURN(going_on, next_inputs(layer, inputs, outputs));
    inputs = std::move(outputs);
  }
  if (!going_on) return false;
  if (extras_.embeddings) GNN_RETURN_IF_ERROR(give_embeddings(inputs));
  GNN_RETURN_IF_ERROR(for_each_chunk(
      wanted,
      chunk_edges(last),
      [&](const nn::InEdges& edges) -> Status {
        GNN_ASSIGN_OR_RETURN(const at::Tensor logits, outputs_of(last, edges, inputs));
        take(edges.nodes, logits.to(at::kCPU));
        return {};
      }
  ));
  return none_stops();
}

Result<EvaluatedParts> evaluate_part_layer_wise(
    nn::NodeModel& model,
    const PartOfGraph& graph,
    const std::vector<at::Tensor>& parts,
    const comm::RankGroups& groups,
    const EvaluationContext& context,
    const PartInferenceOptions& options,
    const AlsoWanted& also
) {
  const data::IdRange own = graph.part->own(0);
  const shards::PartRows& labels = graph.part->labels(0);
  at::Tensor own_labels;  // nobody needs them without parts
  if (!parts.empty())
    own_labels = labels.rows.narrow(0, own.begin - labels.nodes.begin, own.size());
  std::vector<at::Tensor> own_places;
  const at::Tensor in_some = at::zeros({own.size()}, at::kBool);
  for (const at::Tensor& ids : parts) {
    own_places.push_back(
        ids.masked_select(at::logical_and(ids.ge(own.begin), ids.lt(own.end))) - own.begin
    );
    in_some.index_fill_(0, own_places.back(), true);
  }
  if (also.nodes.defined()) in_some.index_fill_(0, also.nodes - own.begin, true);
  // Of the nodes whose logits this rank gets.
  const at::Tensor correct = at::zeros({own.size()}, at::kBool);
  AnswerCounter counter(context.answers);
  const at::Tensor asked = places_to_count(context.answers, own_places, own.size());
  const auto take = [&](const at::Tensor& places, const at::Tensor& logits) {
    if (also.logits) take_listed(also.nodes, places + own.begin, logits, also.logits);
    if (parts.empty()) return;
    const at::Tensor labels_here = own_labels.index_select(0, places);
    const at::Tensor answers = answers_of(logits);
    correct.index_copy_(0, places, answers.eq(labels_here));
    if (asked.defined())
      counter.add(
          labels_here, answers.masked_fill(asked.index_select(0, places).logical_not(), -1)
      );
  };
  LayerWiseExtras extras{.kept = also.kept};
  if (also.embeddings)
    extras.embeddings = [&also, &own](const at::Tensor& places, const at::Tensor& rows) {
      take_listed(also.nodes, places + own.begin, rows, also.embeddings);
    };
  PartInference inference(model, graph, groups, context, options);
  GNN_ASSIGN_OR_RETURN(
      const bool done, inference.run(in_some.nonzero().squeeze(1).contiguous(), take, extras)
  );
  if (!done) return EvaluatedParts();
  if (parts.empty()) return std::vector<progress::Measure>();
  if (asked.defined()) GNN_RETURN_IF_ERROR(counter.finish(*groups.all));
  return accuracies_of(correct, own_places, parts, *groups.all);
}

}  // namespace gnn::training
