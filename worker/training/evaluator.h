#pragma once

#include "common/result.h"
#include "worker/comm/communicator.h"
#include "worker/graph/csc_graph.h"
#include "worker/nn/models/model.h"
#include "worker/training/scores.h"
#include "worker/training/workload.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <optional>

namespace gnn::training {

/// Scores the next batch of this rank; nothing after the last.
using NextScores = std::function<Result<std::optional<Scores>>()>;

/// Accuracy on the batches of `next`, of which each rank has its share. Collective.
/// Precondition: the model is in evaluation mode, gradients are off.
[[nodiscard]] Result<Evaluated> evaluate_batches(
    const NextScores& next, comm::Communicator& communicator, const EvaluationContext& context
);

/// A graph as layer-wise inference reads it.
struct WholeGraph {
  graph::CscGraph graph;
  at::Tensor features;  ///< [num_nodes, F], CPU
  at::Tensor labels;    ///< int64 [num_nodes], CPU
};

struct LayerWiseOptions {
  int64_t batch_size = 4096;  ///< nodes at a time
  int64_t num_threads = 1;    ///< sampler threads
  c10::Device device{c10::kCPU};
};

/// Exact accuracy on `ids`: each layer over all nodes with all their neighbours, the last layer
/// over `ids` alone. The nodes are sharded: every rank computes its share of a layer and then
/// receives the others'. Holds the outputs of two layers for all nodes in memory. Collective.
/// Precondition: as evaluate_batches().
/// Source: inference() of PyG's "Multi-GPU training in vanilla PyTorch", which runs on rank 0 alone
/// while the others wait.
[[nodiscard]] Result<Evaluated> evaluate_layer_wise(
    nn::NodeModel& model,
    const WholeGraph& whole,
    const at::Tensor& ids,
    comm::Communicator& communicator,
    const EvaluationContext& context,
    const LayerWiseOptions& options
);

}  // namespace gnn::training
