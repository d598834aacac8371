#include "worker/training/layer_wise.h"

#include "worker/comm/node_memory.h"
#include "worker/nn/functional/aggregate.h"
#include "worker/nn/functional/csr.h"
#include "worker/nn/functional/spmm.h"
#include "worker/training/agreement.h"
#include "worker/training/meters.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <utility>

namespace gnn::training {
namespace {

constexpr size_t kChunksBetweenStops = 64;

at::Tensor rows_of(const at::Tensor& rows, const NodeRange& range) {
  return rows.narrow(0, range.first, range.count);
}

// The rows of ascending nodes in a matrix of all nodes.
at::Tensor rows_of(const at::Tensor& rows, const at::Tensor& nodes) {
  return are_consecutive(nodes) ? rows_of(rows, span_of(nodes)) : rows.index_select(0, nodes);
}

// What one group of ranks sends: the chunks of each of its members, by its rank in the group.
struct Sent {
  int64_t root = 0;
  NodeRange rows;
};

NodeRange common_of(const NodeRange& a, const NodeRange& b) {
  const int64_t first = std::max(a.first, b.first);
  return {.first = first, .count = std::max<int64_t>(0, std::min(a.end(), b.end()) - first)};
}

}  // namespace

at::ScalarType dtype_of(const torch::nn::Module& model) {
  const std::vector<at::Tensor> parameters = model.parameters();
  return parameters.empty() ? at::kFloat : parameters.front().scalar_type();
}

bool normalizes_by_degree(nn::NodeModel& model) {
  for (int64_t layer = 0; layer < model.num_layers(); ++layer) {
    if (model.conv(layer).normalizes_by_degree()) return true;
  }
  return false;
}

LayerWiseInference::LayerWiseInference(
    nn::NodeModel& model,
    const WholeGraph& whole,
    comm::RankGroups groups,
    const EvaluationContext& context,
    const LayerWiseOptions& options
)
    : model_(model),
      whole_(whole),
      groups_(std::move(groups)),
      context_(context),
      options_(options),
      ranges_(divide_nodes(whole.graph.indptr(), groups_.all->world_size())),
      own_(ranges_[static_cast<size_t>(groups_.all->rank())]),
      own_nodes_(at::arange(own_.first, own_.end())),
      dtype_(dtype_of(model)) {}

template <class Body>
void LayerWiseInference::for_each_chunk(const at::Tensor& nodes, const Body& body) const {
  for (const NodeRange& chunk : cut_nodes(whole_.graph.indptr(), nodes, options_.chunk)) {
    if (context_.stop.requested()) return;
    nn::InEdges edges = in_edges_of(whole_.graph, rows_of(nodes, chunk));
    edges.norm = norm_;
    body(edges);
    context_.progress.on_mark();
  }
}

template <class Body>
void LayerWiseInference::for_each_sum(const at::Tensor& nodes, const Body& body) {
  for_each_chunk(nodes, [&](const nn::InEdges& edges) {
    body(edges);
    summed_.done += edges.matrix.indices.numel();
    context_.progress.on_evaluation(summed_);
  });
}

at::Tensor LayerWiseInference::to_model(const at::Tensor& rows) const {
  return rows.to(dtype_).to(options_.device);
}

Result<LayerWiseInference::Matrix> LayerWiseInference::make_matrix(
    at::IntArrayRef sizes, at::ScalarType dtype
) {
  if (groups_.peers->world_size() == groups_.all->world_size())
    return Matrix{.rows = comm::empty_on_large_pages(sizes, dtype)};
  GNN_ASSIGN_OR_RETURN(
      const std::optional<at::Tensor> shared, comm::zeros_shared_by(*groups_.node, sizes, dtype)
  );
  // The ranks of all nodes exchange rows in the same way.
  GNN_ASSIGN_OR_RETURN(
      const std::vector<double> without, comm::all_reduce_sums(*groups_.all, {shared ? 0.0 : 1.0})
  );
  if (without[0] > 0) return Matrix{.rows = comm::empty_on_large_pages(sizes, dtype)};
  return Matrix{.rows = *shared, .is_shared = true};
}

// Every rank has the features: converting all of them takes less time than sending them.
Result<std::optional<LayerWiseInference::Matrix>> LayerWiseInference::converted_features() {
  const at::Tensor& features = whole_.features;
  if (features.scalar_type() == dtype_) return std::optional(Matrix{.rows = features});
  GNN_ASSIGN_OR_RETURN(const Matrix converted, make_matrix(features.sizes(), dtype_));
  NodeRange mine{.first = 0, .count = features.size(0)};
  if (converted.is_shared) {
    const int64_t ranks = groups_.node->world_size();
    const int64_t first = mine.count * groups_.node->rank() / ranks;
    mine = {.first = first, .count = mine.count * (groups_.node->rank() + 1) / ranks - first};
  }
  for (const NodeRange& chunk : cut_range(mine, options_.chunk.nodes)) {
    if (context_.stop.requested()) break;
    rows_of(converted.rows, chunk).copy_(rows_of(features, chunk));
    context_.progress.on_mark();
  }
  GNN_ASSIGN_OR_RETURN(const bool done, none_stops());
  return done ? std::optional(converted) : std::nullopt;
}

Result<bool> LayerWiseInference::none_stops() {
  return training::none_stops(*groups_.all, context_.stop);
}

std::vector<LayerWiseInference::Piece> LayerWiseInference::own_pieces() const {
  std::vector<Piece> pieces;
  for (size_t rank = 0; rank < ranges_.size(); ++rank)
    pieces.push_back({.rank = static_cast<int64_t>(rank), .rows = ranges_[rank]});
  return pieces;
}

std::vector<LayerWiseInference::Piece> LayerWiseInference::pieces_of_roots() const {
  std::vector<Piece> pieces;
  for (size_t owner = 0; owner < ranges_.size(); ++owner) {
    const NodeRange owned = places_of(wanted_, ranges_[owner]);
    for (size_t rank = 0; rank < dealt_.size(); ++rank) {
      const NodeRange rows = common_of(owned, dealt_[rank]);
      if (rank != owner && rows.count > 0)
        pieces.push_back({.rank = static_cast<int64_t>(owner), .rows = rows});
    }
  }
  return pieces;
}

Result<bool> LayerWiseInference::exchange(const Matrix& matrix, const std::vector<Piece>& pieces) {
  // The ranks of a node that share the rows receive different ones, each from its peers.
  const int64_t groups = matrix.is_shared ? groups_.node->world_size() : 1;
  comm::Communicator& group = matrix.is_shared ? *groups_.peers : *groups_.all;
  std::vector<std::vector<Sent>> sent(static_cast<size_t>(groups));
  size_t rounds = 0;
  for (const Piece& piece : pieces) {
    std::vector<Sent>& by_group = sent[static_cast<size_t>(piece.rank % groups)];
    for (const NodeRange& chunk : cut_range(piece.rows, options_.chunk.nodes))
      by_group.push_back({.root = piece.rank / groups, .rows = chunk});
    rounds = std::max(rounds, by_group.size());
  }
  const std::vector<Sent>& mine = sent[static_cast<size_t>(groups_.all->rank() % groups)];
  for (size_t round = 0; round < rounds; ++round) {
    // Large graphs take minutes to send, longer than a pod may be given to leave.
    if (round % kChunksBetweenStops == 0) {
      GNN_ASSIGN_OR_RETURN(const bool going_on, none_stops());
      if (!going_on) return false;
    }
    if (round >= mine.size()) continue;
    GNN_RETURN_IF_ERROR(group.broadcast(rows_of(matrix.rows, mine[round].rows), mine[round].root));
    context_.progress.on_mark();
  }
  // Also where there was nothing to send. What is shared is read when all have written theirs.
  return rounds > 0 && !matrix.is_shared ? Result<bool>(true) : none_stops();
}

Result<at::Tensor> LayerWiseInference::norm() {
  GNN_ASSIGN_OR_RETURN(
      const Matrix norm, make_matrix({whole_.graph.num_destinations()}, nn::spmm_scale_type(dtype_))
  );
  for_each_chunk(own_nodes_, [&](const nn::InEdges& edges) {
    const at::Tensor degrees = nn::in_degrees_without_loops(edges.matrix, edges.nodes);
    rows_of(norm.rows, span_of(edges.nodes)).copy_(nn::gcn_norm(degrees, dtype_));
  });
  GNN_ASSIGN_OR_RETURN(const bool done, exchange(norm, own_pieces()));
  return done ? norm.rows : at::Tensor();
}

Result<std::optional<LayerWiseInference::Inputs>> LayerWiseInference::first_inputs() {
  nn::MessagePassing& conv = model_.conv(0);
  // All ranks have the features, and so the roots.
  Inputs inputs{.messages = {}, .x = whole_.features, .rooted = {}, .roots = {}};
  if (!conv.projects_first()) {
    GNN_ASSIGN_OR_RETURN(const std::optional<Matrix> converted, converted_features());
    if (!converted) return std::optional<Inputs>();
    inputs.messages = *converted;
    return std::optional(inputs);
  }
  GNN_ASSIGN_OR_RETURN(
      inputs.messages, make_matrix({whole_.graph.num_destinations(), conv.out_channels()}, dtype_)
  );
  for (const NodeRange& chunk : cut_range(own_, options_.chunk.nodes)) {
    if (context_.stop.requested()) break;
    rows_of(inputs.messages.rows, chunk)
        .copy_(conv.message(to_model(rows_of(whole_.features, chunk))));
    context_.progress.on_mark();
  }
  GNN_ASSIGN_OR_RETURN(const bool done, exchange(inputs.messages, own_pieces()));
  return done ? std::optional(inputs) : std::nullopt;
}

Result<LayerWiseInference::Inputs> LayerWiseInference::make_inputs(int64_t layer) {
  nn::MessagePassing& conv = model_.conv(layer);
  const int64_t num_nodes = whole_.graph.num_destinations();
  const int64_t width =
      conv.projects_first() ? conv.out_channels() : model_.conv(layer - 1).out_channels();
  Inputs inputs;
  GNN_ASSIGN_OR_RETURN(inputs.messages, make_matrix({num_nodes, width}, dtype_));
  const bool is_last = layer + 1 == model_.num_layers();
  if (!conv.projects_first()) inputs.x = inputs.messages.rows;
  if (conv.projects_first() && is_last && extras_.embeddings) {
    inputs.embeddings = comm::empty_on_large_pages(
        {places_of(wanted_, own_).count, model_.conv(layer - 1).out_channels()}, dtype_
    );
  }
  if (!conv.projects_first() || !conv.has_root()) return inputs;
  if (!is_last) {
    inputs.rooted = own_nodes_;
    inputs.roots.rows = comm::empty_on_large_pages({own_.count, conv.out_channels()}, dtype_);
  } else {
    inputs.rooted = wanted_;
    GNN_ASSIGN_OR_RETURN(inputs.roots, make_matrix({wanted_.numel(), conv.out_channels()}, dtype_));
  }
  return inputs;
}

void LayerWiseInference::keep(
    int64_t layer, const NodeRange& nodes, const at::Tensor& x, const Inputs& inputs
) {
  nn::MessagePassing& conv = model_.conv(layer);
  rows_of(inputs.messages.rows, nodes).copy_(conv.message(x));
  // The rows of x whose nodes are in a list, which has them at these places.
  const auto listed = [&](const at::Tensor& list, const NodeRange& places) {
    if (places.count == nodes.count) return x;
    return x.index_select(0, (rows_of(list, places) - nodes.first).to(options_.device));
  };
  if (inputs.embeddings.defined()) {
    NodeRange places = places_of(wanted_, nodes);
    const at::Tensor rows = listed(wanted_, places);
    places.first -= places_of(wanted_, own_).first;
    rows_of(inputs.embeddings, places).copy_(rows);
  }
  if (!inputs.roots.rows.defined()) return;
  const NodeRange places = places_of(inputs.rooted, nodes);
  if (places.count == 0) return;
  rows_of(inputs.roots.rows, places).copy_(conv.root(listed(inputs.rooted, places)));
}

at::Tensor LayerWiseInference::roots_of(
    nn::MessagePassing& conv, const at::Tensor& nodes, const Inputs& inputs
) const {
  if (!conv.has_root()) return {};
  if (!inputs.roots.rows.defined()) return conv.root(to_model(rows_of(inputs.x, nodes)));
  return rows_of(inputs.roots.rows, places_of(inputs.rooted, span_of(nodes))).to(options_.device);
}

at::Tensor LayerWiseInference::outputs_of(
    int64_t layer, const nn::InEdges& edges, const Inputs& inputs
) {
  nn::MessagePassing& conv = model_.conv(layer);
  const at::Tensor aggregated = conv.aggregate(inputs.messages.rows, edges).to(options_.device);
  return model_.activate(layer, conv.update(roots_of(conv, edges.nodes, inputs), aggregated));
}

Result<std::optional<LayerWiseInference::Inputs>> LayerWiseInference::next_inputs(
    int64_t layer, const Inputs& inputs
) {
  LapTimer timer;
  GNN_ASSIGN_OR_RETURN(Inputs outputs, make_inputs(layer + 1));
  for_each_sum(own_nodes_, [&](const nn::InEdges& edges) {
    keep(layer + 1, span_of(edges.nodes), outputs_of(layer, edges, inputs), outputs);
  });
  if (extras_.kept != nullptr) {
    GNN_RETURN_IF_ERROR(extras_.kept->keep_on_all(
        layer + 1, own_rows(layer + 1, outputs), timer.lap(), *groups_.all, context_
    ));
  }
  GNN_ASSIGN_OR_RETURN(std::optional<Inputs> whole, exchanged(layer + 1, std::move(outputs)));
  if (extras_.kept != nullptr && whole) extras_.kept->remove_older();
  return whole;
}

Result<std::optional<LayerWiseInference::Inputs>> LayerWiseInference::exchanged(
    int64_t layer, Inputs inputs
) {
  GNN_ASSIGN_OR_RETURN(bool done, exchange(inputs.messages, own_pieces()));
  if (done && inputs.roots.rows.defined() && layer + 1 == model_.num_layers()) {
    GNN_ASSIGN_OR_RETURN(done, exchange(inputs.roots, pieces_of_roots()));
  }
  return done ? std::optional(std::move(inputs)) : std::nullopt;
}

std::vector<checkpoint::CheckpointTensor> LayerWiseInference::own_rows(
    int64_t layer, const Inputs& inputs
) const {
  std::vector<checkpoint::CheckpointTensor> rows = {
      {.name = "messages", .tensor = rows_of(inputs.messages.rows, own_)}
  };
  if (inputs.roots.rows.defined()) {
    const bool is_last = layer + 1 == model_.num_layers();
    const NodeRange all{.first = 0, .count = own_.count};
    rows.push_back(
        {.name = "roots",
         .tensor = rows_of(inputs.roots.rows, is_last ? places_of(wanted_, own_) : all)}
    );
  }
  if (inputs.embeddings.defined())
    rows.push_back({.name = "embeddings", .tensor = inputs.embeddings});
  return rows;
}

Result<std::optional<LayerWiseInference::Resumed>> LayerWiseInference::resume() {
  for (int64_t layer = model_.num_layers() - 1; layer > 0; --layer) {
    GNN_ASSIGN_OR_RETURN(const bool kept, on_all(*groups_.all, extras_.kept->has(layer)));
    if (!kept) continue;
    GNN_ASSIGN_OR_RETURN(Inputs inputs, make_inputs(layer));
    GNN_ASSIGN_OR_RETURN(
        const bool read, on_all(*groups_.all, extras_.kept->read(layer, own_rows(layer, inputs)))
    );
    context_.progress.on_mark();
    if (!read) continue;
    GNN_ASSIGN_OR_RETURN(std::optional<Inputs> whole, exchanged(layer, std::move(inputs)));
    if (!whole) return std::optional<Resumed>();
    return std::optional(Resumed{.layer = layer, .inputs = *std::move(whole)});
  }
  return std::optional<Resumed>();
}

void LayerWiseInference::give_embeddings(const Inputs& inputs) const {
  const NodeRange own_wanted = places_of(wanted_, own_);
  for (const NodeRange& chunk : cut_range(own_wanted, options_.chunk.nodes)) {
    if (context_.stop.requested()) return;
    const at::Tensor nodes = rows_of(wanted_, chunk);
    const bool kept_apart = inputs.embeddings.defined();
    const NodeRange rows{.first = chunk.first - own_wanted.first, .count = chunk.count};
    extras_.embeddings(
        nodes, kept_apart ? rows_of(inputs.embeddings, rows) : rows_of(inputs.x, nodes).to(dtype_)
    );
    context_.progress.on_mark();
  }
}

Result<bool> LayerWiseInference::run(
    const at::Tensor& nodes, const TakeRows& take, const LayerWiseExtras& extras
) {
  const at::Tensor& indptr = whole_.graph.indptr();
  const int64_t last = model_.num_layers() - 1;
  wanted_ = nodes;
  extras_ = extras;
  dealt_ = divide_list(indptr, nodes, groups_.all->world_size());
  const at::Tensor mine = rows_of(nodes, dealt_[static_cast<size_t>(groups_.all->rank())]);
  const int64_t edges_of_layer = count_edges(indptr, own_nodes_);
  summed_.done = 0;
  summed_.total = last * edges_of_layer + count_edges(indptr, mine);
  if (normalizes_by_degree(model_)) {
    GNN_ASSIGN_OR_RETURN(norm_, norm());
    if (!norm_.defined()) return false;
  }
  int64_t layer = 0;
  std::optional<Inputs> inputs;
  if (extras_.kept != nullptr) {
    GNN_ASSIGN_OR_RETURN(std::optional<Resumed> resumed, resume());
    if (resumed) {
      layer = resumed->layer;
      inputs = std::move(resumed->inputs);
      KeptLayers::tell_resumed(layer, model_.num_layers(), context_.progress);
      summed_.done = layer * edges_of_layer;
    }
  }
  if (!inputs) {
    GNN_ASSIGN_OR_RETURN(inputs, first_inputs());
  }
  for (; inputs && layer < last; ++layer) {
    GNN_ASSIGN_OR_RETURN(inputs, next_inputs(layer, *inputs));
  }
  if (!inputs) return false;
  if (extras_.embeddings) give_embeddings(*inputs);
  for_each_sum(mine, [&](const nn::InEdges& edges) {
    take(edges.nodes, outputs_of(last, edges, *inputs).to(at::kCPU));
  });
  return none_stops();
}

}  // namespace gnn::training
