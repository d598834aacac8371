#include "worker/training/layer_wise.h"

#include "worker/nn/functional/aggregate.h"
#include "worker/nn/functional/csr.h"
#include "worker/nn/functional/spmm.h"

#include <ATen/ATen.h>

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

// The rows of ascending nodes, of which the first row is that of node `first`.
at::Tensor rows_of(const at::Tensor& rows, const at::Tensor& nodes, int64_t first) {
  if (!are_consecutive(nodes)) return rows.index_select(0, nodes - first);
  return rows.narrow(0, nodes.const_data_ptr<int64_t>()[0] - first, nodes.numel());
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
      dtype_(dtype_of(model)) {}

template <class Body>
void LayerWiseInference::for_each_chunk(const at::Tensor& nodes, const Body& body) const {
  for (const NodeRange& chunk : cut_nodes(whole_.graph.indptr(), nodes, options_.chunk)) {
    if (context_.stop.requested()) return;
    nn::InEdges edges = in_edges_of(whole_.graph, nodes.narrow(0, chunk.first, chunk.count));
    edges.norm = norm_;
    body(edges);
    context_.progress.on_mark();
  }
}

LayerWiseInference::Inputs LayerWiseInference::features() const {
  return {
      .own = whole_.features.narrow(0, own_.first, own_.count),
      .all = whole_.features,
      .are_features = true,
  };
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
    converted.narrow(0, chunk.first, chunk.count)
        .copy_(features.narrow(0, chunk.first, chunk.count));
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

Result<bool> LayerWiseInference::exchange(const at::Tensor& rows) {
  int64_t sent = 0;  // chunks: the same number on all ranks
  for (int64_t rank = 0; rank < communicator_.world_size(); ++rank) {
    for (const NodeRange& chunk :
         cut_range(ranges_[static_cast<size_t>(rank)], options_.chunk.nodes)) {
      // Large graphs take minutes to send, longer than a pod may be given to leave.
      if (sent++ % kChunksBetweenStops == 0) {
        GNN_ASSIGN_OR_RETURN(const bool going_on, none_stops());
        if (!going_on) return false;
      }
      GNN_RETURN_IF_ERROR(communicator_.broadcast(rows.narrow(0, chunk.first, chunk.count), rank));
      context_.progress.on_mark();
    }
  }
  // Also where there was nothing to send.
  return sent > 0 ? Result<bool>(true) : none_stops();
}

Result<at::Tensor> LayerWiseInference::norm() {
  const at::Tensor norm = at::empty({whole_.graph.num_destinations()}, nn::spmm_scale_type(dtype_));
  for_each_chunk(at::arange(own_.first, own_.end()), [&](const nn::InEdges& edges) {
    const at::Tensor degrees = nn::in_degrees_without_loops(edges.matrix, edges.nodes);
    norm.narrow(0, edges.nodes.const_data_ptr<int64_t>()[0], degrees.numel())
        .copy_(nn::gcn_norm(degrees, dtype_));
  });
  GNN_ASSIGN_OR_RETURN(const bool done, exchange(norm));
  return done ? norm : at::Tensor();
}

Result<at::Tensor> LayerWiseInference::messages_of(nn::MessagePassing& conv, const Inputs& inputs) {
  if (!conv.projects_first() && inputs.are_features) return converted_features();
  at::Tensor messages = inputs.all;
  if (conv.projects_first()) {
    messages = at::empty({whole_.graph.num_destinations(), conv.out_channels()}, dtype_);
    for (const NodeRange& chunk : cut_range({0, own_.count}, options_.chunk.nodes)) {
      if (context_.stop.requested()) break;
      messages.narrow(0, own_.first + chunk.first, chunk.count)
          .copy_(conv.message(to_model(inputs.own.narrow(0, chunk.first, chunk.count))));
      context_.progress.on_mark();
    }
  }
  GNN_ASSIGN_OR_RETURN(const bool done, exchange(messages));
  return done ? messages : at::Tensor();
}

at::Tensor LayerWiseInference::outputs_of(
    int64_t layer, const nn::InEdges& edges, const Inputs& inputs, const at::Tensor& messages
) {
  nn::MessagePassing& conv = model_.conv(layer);
  const at::Tensor aggregated = conv.aggregate(messages, edges).to(options_.device);
  const at::Tensor x = to_model(rows_of(inputs.own, edges.nodes, own_.first));
  return model_.activate(layer, conv.update(x, aggregated));
}

Result<std::optional<LayerWiseInference::Inputs>> LayerWiseInference::hidden_layer(
    int64_t layer, const Inputs& inputs
) {
  nn::MessagePassing& conv = model_.conv(layer);
  GNN_ASSIGN_OR_RETURN(const at::Tensor messages, messages_of(conv, inputs));
  if (!messages.defined()) return std::optional<Inputs>();
  Inputs outputs;
  if (model_.conv(layer + 1).projects_first()) {
    outputs.own = at::empty({own_.count, conv.out_channels()}, dtype_);
  } else {
    outputs.all = at::empty({whole_.graph.num_destinations(), conv.out_channels()}, dtype_);
    outputs.own = outputs.all.narrow(0, own_.first, own_.count);
  }
  for_each_chunk(at::arange(own_.first, own_.end()), [&](const nn::InEdges& edges) {
    rows_of(outputs.own, edges.nodes, own_.first).copy_(outputs_of(layer, edges, inputs, messages));
  });
  return outputs;
}

Result<bool> LayerWiseInference::run(const at::Tensor& nodes, const TakeLogits& take) {
  if (normalizes_by_degree(model_)) {
    GNN_ASSIGN_OR_RETURN(norm_, norm());
    if (!norm_.defined()) return false;
  }
  const int64_t last = model_.num_layers() - 1;
  Inputs inputs = features();
  for (int64_t layer = 0; layer < last; ++layer) {
    GNN_ASSIGN_OR_RETURN(std::optional<Inputs> outputs, hidden_layer(layer, inputs));
    if (!outputs) return false;
    inputs = std::move(*outputs);
  }
  GNN_ASSIGN_OR_RETURN(const at::Tensor messages, messages_of(model_.conv(last), inputs));
  if (!messages.defined()) return false;
  for_each_chunk(nodes, [&](const nn::InEdges& edges) {
    take(edges.nodes, outputs_of(last, edges, inputs, messages).to(at::kCPU));
  });
  return none_stops();
}

}  // namespace gnn::training
