#include "worker/training/layer_wise.h"

#include "worker/comm/node_memory.h"
#include "worker/nn/functional/aggregate.h"
#include "worker/nn/functional/csr.h"
#include "worker/nn/functional/spmm.h"

#include <ATen/ATen.h>

#include <algorithm>
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
  GNN_ASSIGN_OR_RETURN(
      const std::vector<double> stops,
      comm::all_reduce_sums(*groups_.all, {context_.stop.requested() ? 1.0 : 0.0})
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
  if (!conv.projects_first()) inputs.x = inputs.messages.rows;
  if (!conv.projects_first() || !conv.has_root()) return inputs;
  if (layer + 1 < model_.num_layers()) {
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
  if (!inputs.roots.rows.defined()) return;
  const NodeRange places = places_of(inputs.rooted, nodes);
  if (places.count == 0) return;
  const at::Tensor in_chunk = (rows_of(inputs.rooted, places) - nodes.first).to(options_.device);
  const at::Tensor rooted = places.count == nodes.count ? x : x.index_select(0, in_chunk);
  rows_of(inputs.roots.rows, places).copy_(conv.root(rooted));
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
  GNN_ASSIGN_OR_RETURN(const Inputs outputs, make_inputs(layer + 1));
  for_each_sum(own_nodes_, [&](const nn::InEdges& edges) {
    keep(layer + 1, span_of(edges.nodes), outputs_of(layer, edges, inputs), outputs);
  });
  GNN_ASSIGN_OR_RETURN(bool done, exchange(outputs.messages, own_pieces()));
  if (done && outputs.roots.rows.defined() && layer + 2 == model_.num_layers()) {
    GNN_ASSIGN_OR_RETURN(done, exchange(outputs.roots, pieces_of_roots()));
  }
  return done ? std::optional(outputs) : std::nullopt;
}

Result<bool> LayerWiseInference::run(const at::Tensor& nodes, const TakeLogits& take) {
  const at::Tensor& indptr = whole_.graph.indptr();
  const int64_t last = model_.num_layers() - 1;
  wanted_ = nodes;
  dealt_ = divide_list(indptr, nodes, groups_.all->world_size());
  const at::Tensor mine = rows_of(nodes, dealt_[static_cast<size_t>(groups_.all->rank())]);
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
