#include "worker/training/layer_wise.h"

#include "worker/nn/functional/aggregate.h"
#include "worker/nn/functional/csr.h"
#include "worker/nn/functional/spmm.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace gnn::training {
namespace {

constexpr int64_t kChunksBetweenStops = 64;

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

// The consecutive nodes that hold all of some ascending ones.
NodeRange span_of(const at::Tensor& nodes) {
  const auto* const ids = nodes.const_data_ptr<int64_t>();
  return {.first = ids[0], .count = ids[nodes.numel() - 1] + 1 - ids[0]};
}

at::Tensor rows_of(const at::Tensor& rows, const NodeRange& range) {
  return rows.narrow(0, range.first, range.count);
}

// The rows of ascending nodes in a matrix of all nodes.
at::Tensor rows_of(const at::Tensor& rows, const at::Tensor& nodes) {
  return are_consecutive(nodes) ? rows_of(rows, span_of(nodes)) : rows.index_select(0, nodes);
}

NodeRange common_of(const NodeRange& a, const NodeRange& b) {
  const int64_t first = std::max(a.first, b.first);
  return {.first = first, .count = std::max<int64_t>(0, std::min(a.end(), b.end()) - first)};
}

}  // namespace

LayerWiseInference::LayerWiseInference(
    nn::NodeModel& model,
    const WholeGraph& whole,
    comm::Communicator& communicator,
    const EvaluationContext& context,
    const LayerWiseOptions& options
)
    : model_(model),
      whole_(whole),
      communicator_(communicator),
      context_(context),
      options_(options),
      ranges_(divide_nodes(whole.graph.indptr(), communicator.world_size())),
      own_(ranges_[static_cast<size_t>(communicator.rank())]),
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

// Every rank has the features: converting all of them takes less time than sending them.
at::Tensor LayerWiseInference::converted_features() const {
  const at::Tensor& features = whole_.features;
  if (features.scalar_type() == dtype_) return features;
  at::Tensor converted = at::empty(features.sizes(), features.options().dtype(dtype_));
  const NodeRange all{.first = 0, .count = features.size(0)};
  for (const NodeRange& chunk : cut_range(all, options_.chunk.nodes)) {
    if (context_.stop.requested()) break;
    rows_of(converted, chunk).copy_(rows_of(features, chunk));
    context_.progress.on_mark();
  }
  return converted;
}

Result<bool> LayerWiseInference::none_stops() {
  GNN_ASSIGN_OR_RETURN(
      const std::vector<double> stops,
      comm::all_reduce_sums(communicator_, {context_.stop.requested() ? 1.0 : 0.0})
  );
  return stops[0] == 0;
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

Result<bool> LayerWiseInference::exchange(
    const at::Tensor& matrix, const std::vector<Piece>& pieces
) {
  int64_t sent = 0;  // chunks: the same number on all ranks
  for (const Piece& piece : pieces) {
    for (const NodeRange& chunk : cut_range(piece.rows, options_.chunk.nodes)) {
      // Large graphs take minutes to send, longer than a pod may be given to leave.
      if (sent++ % kChunksBetweenStops == 0) {
        GNN_ASSIGN_OR_RETURN(const bool going_on, none_stops());
        if (!going_on) return false;
      }
      GNN_RETURN_IF_ERROR(communicator_.broadcast(rows_of(matrix, chunk), piece.rank));
      context_.progress.on_mark();
    }
  }
  // Also where there was nothing to send.
  return sent > 0 ? Result<bool>(true) : none_stops();
}

Result<at::Tensor> LayerWiseInference::norm() {
  const at::Tensor norm = at::empty({whole_.graph.num_destinations()}, nn::spmm_scale_type(dtype_));
  for_each_chunk(own_nodes_, [&](const nn::InEdges& edges) {
    const at::Tensor degrees = nn::in_degrees_without_loops(edges.matrix, edges.nodes);
    rows_of(norm, span_of(edges.nodes)).copy_(nn::gcn_norm(degrees, dtype_));
  });
  GNN_ASSIGN_OR_RETURN(const bool done, exchange(norm, own_pieces()));
  return done ? norm : at::Tensor();
}

Result<std::optional<LayerWiseInference::Inputs>> LayerWiseInference::first_inputs() {
  nn::MessagePassing& conv = model_.conv(0);
  // All ranks have the features, and so the roots.
  Inputs inputs{.messages = {}, .x = whole_.features, .rooted = {}, .roots = {}};
  if (!conv.projects_first()) {
    inputs.messages = converted_features();
    return inputs;
  }
  inputs.messages = at::empty({whole_.graph.num_destinations(), conv.out_channels()}, dtype_);
  for (const NodeRange& chunk : cut_range(own_, options_.chunk.nodes)) {
    if (context_.stop.requested()) break;
    rows_of(inputs.messages, chunk).copy_(conv.message(to_model(rows_of(whole_.features, chunk))));
    context_.progress.on_mark();
  }
  GNN_ASSIGN_OR_RETURN(const bool done, exchange(inputs.messages, own_pieces()));
  return done ? std::optional(inputs) : std::nullopt;
}

LayerWiseInference::Inputs LayerWiseInference::make_inputs(int64_t layer) const {
  nn::MessagePassing& conv = model_.conv(layer);
  const int64_t num_nodes = whole_.graph.num_destinations();
  Inputs inputs;
  if (!conv.projects_first()) {
    inputs.messages = at::empty({num_nodes, model_.conv(layer - 1).out_channels()}, dtype_);
    inputs.x = inputs.messages;
    return inputs;
  }
  inputs.messages = at::empty({num_nodes, conv.out_channels()}, dtype_);
  if (!conv.has_root()) return inputs;
  inputs.rooted = layer + 1 == model_.num_layers() ? wanted_ : own_nodes_;
  inputs.roots = at::empty({inputs.rooted.numel(), conv.out_channels()}, dtype_);
  return inputs;
}

void LayerWiseInference::keep(
    int64_t layer, const NodeRange& nodes, const at::Tensor& x, const Inputs& inputs
) {
  nn::MessagePassing& conv = model_.conv(layer);
  rows_of(inputs.messages, nodes).copy_(conv.message(x));
  if (!inputs.roots.defined()) return;
  const NodeRange places = places_of(inputs.rooted, nodes);
  if (places.count == 0) return;
  const at::Tensor in_chunk = (rows_of(inputs.rooted, places) - nodes.first).to(options_.device);
  const at::Tensor rooted = places.count == nodes.count ? x : x.index_select(0, in_chunk);
  rows_of(inputs.roots, places).copy_(conv.root(rooted));
}

at::Tensor LayerWiseInference::roots_of(
    nn::MessagePassing& conv, const at::Tensor& nodes, const Inputs& inputs
) const {
  if (!conv.has_root()) return {};
  if (!inputs.roots.defined()) return conv.root(to_model(rows_of(inputs.x, nodes)));
  return rows_of(inputs.roots, places_of(inputs.rooted, span_of(nodes))).to(options_.device);
}

at::Tensor LayerWiseInference::outputs_of(
    int64_t layer, const nn::InEdges& edges, const Inputs& inputs
) {
  nn::MessagePassing& conv = model_.conv(layer);
  const at::Tensor aggregated = conv.aggregate(inputs.messages, edges).to(options_.device);
  return model_.activate(layer, conv.update(roots_of(conv, edges.nodes, inputs), aggregated));
}

Result<std::optional<LayerWiseInference::Inputs>> LayerWiseInference::next_inputs(
    int64_t layer, const Inputs& inputs
) {
  const Inputs outputs = make_inputs(layer + 1);
  for_each_sum(own_nodes_, [&](const nn::InEdges& edges) {
    keep(layer + 1, span_of(edges.nodes), outputs_of(layer, edges, inputs), outputs);
  });
  GNN_ASSIGN_OR_RETURN(bool done, exchange(outputs.messages, own_pieces()));
  if (done && outputs.roots.defined() && layer + 2 == model_.num_layers()) {
    GNN_ASSIGN_OR_RETURN(done, exchange(outputs.roots, pieces_of_roots()));
  }
  return done ? std::optional(outputs) : std::nullopt;
}

Result<bool> LayerWiseInference::run(const at::Tensor& nodes, const TakeLogits& take) {
  const at::Tensor& indptr = whole_.graph.indptr();
  const int64_t last = model_.num_layers() - 1;
  wanted_ = nodes;
  dealt_ = divide_list(indptr, nodes, communicator_.world_size());
  const at::Tensor mine = rows_of(nodes, dealt_[static_cast<size_t>(communicator_.rank())]);
  summed_.done = 0;
  summed_.total = last * count_edges(indptr, own_nodes_) + count_edges(indptr, mine);
  if (normalizes_by_degree(model_)) {
    GNN_ASSIGN_OR_RETURN(norm_, norm());
    if (!norm_.defined()) return false;
  }
  GNN_ASSIGN_OR_RETURN(std::optional<Inputs> inputs, first_inputs());
  for (int64_t layer = 0; inputs && layer < last; ++layer) {
    GNN_ASSIGN_OR_RETURN(inputs, next_inputs(layer, *inputs));
  }
  if (!inputs) return false;
  for_each_sum(mine, [&](const nn::InEdges& edges) {
    take(edges.nodes, outputs_of(last, edges, *inputs).to(at::kCPU));
  });
  return none_stops();
}

}  // namespace gnn::training
