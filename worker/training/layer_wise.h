#pragma once

#include "common/result.h"
#include "worker/comm/communicator.h"
#include "worker/graph/csc_graph.h"
#include "worker/nn/models/model.h"
#include "worker/training/node_chunks.h"
#include "worker/training/workload.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace gnn::training {

/// A graph as layer-wise inference reads it.
struct WholeGraph {
  graph::CscGraph graph;
  at::Tensor features;  ///< [num_nodes, F], CPU, any dtype of numbers; converted as it is read
  at::Tensor labels;    ///< int64 [num_nodes], CPU
};

struct LayerWiseOptions {
  ChunkLimits chunk = {};
  c10::Device device{c10::kCPU};  ///< the model's
};

/// Gets the logits [K, classes] (CPU) of `nodes` (int64 [K], ascending).
using TakeLogits = std::function<void(const at::Tensor& nodes, const at::Tensor& logits)>;

/// Exact inference: each layer over all nodes with all their neighbours. Every rank owns a range of
/// the nodes. In each layer it computes the messages of its own nodes, receives the others', and
/// computes its own nodes' outputs, chunk by chunk, with a mark after each. Sums over neighbours
/// run on the CPU, where all messages are; dense products on the model's device.
/// Memory beside the graph: at most two matrices of [num_nodes, the widest layer], chunks, and some
/// 40 bytes per node for ids.
/// Precondition: the model is in evaluation mode, gradients are off.
class LayerWiseInference {
 public:
  /// Model, graph and communicator outlive it, and what the context refers to.
  LayerWiseInference(
      nn::NodeModel& model,
      const WholeGraph& whole,
      comm::Communicator& communicator,
      const EvaluationContext& context,
      const LayerWiseOptions& options
  );

  /// The nodes whose outputs this rank computes.
  [[nodiscard]] const NodeRange& own() const { return own_; }

  /// Computes the logits of `nodes`, which are this rank's own, ascending, and gives them to `take`
  /// chunk by chunk. Returns whether it went to the end: false if the ranks agreed to stop, as soon
  /// as one of them was asked to. Collective.
  [[nodiscard]] Result<bool> run(const at::Tensor& nodes, const TakeLogits& take);

 private:
  // The inputs of a layer.
  struct Inputs {
    at::Tensor own;  // [own_.count, width]
    at::Tensor all;  // [num_nodes, width], the others' rows not yet filled in; or undefined
    bool are_features = false;
  };

  [[nodiscard]] Inputs features() const;
  [[nodiscard]] at::Tensor converted_features() const;
  // Rows of features or of a hidden layer, as the model reads them.
  [[nodiscard]] at::Tensor to_model(const at::Tensor& rows) const;

  // These agree with the other ranks on stopping. They return false or nothing for it.
  Result<bool> none_stops();
  // Fills in the rows of the other ranks' nodes.
  Result<bool> exchange(const at::Tensor& rows);
  Result<at::Tensor> norm();
  Result<at::Tensor> messages_of(nn::MessagePassing& conv, const Inputs& inputs);

  Result<std::optional<Inputs>> hidden_layer(int64_t layer, const Inputs& inputs);

  // Calls body(in-edges) for each chunk of the nodes, until this rank is asked to stop.
  template <class Body>
  void for_each_chunk(const at::Tensor& nodes, const Body& body) const;
  // The outputs of the destinations of `edges`, on the model's device.
  [[nodiscard]] at::Tensor outputs_of(
      int64_t layer, const nn::InEdges& edges, const Inputs& inputs, const at::Tensor& messages
  );

  nn::NodeModel& model_;
  const WholeGraph& whole_;
  comm::Communicator& communicator_;
  EvaluationContext context_;
  LayerWiseOptions options_;
  std::vector<NodeRange> ranges_;  // by rank
  NodeRange own_;
  at::ScalarType dtype_;  // the model's
  at::Tensor norm_;       // see nn::InEdges; undefined if no layer reads it
};

}  // namespace gnn::training
