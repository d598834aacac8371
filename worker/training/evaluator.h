#pragma once

#include "common/result.h"
#include "worker/distributed/comm/communicator.h"
#include "worker/graph/csc_graph.h"
#include "worker/nn/models/model.h"
#include "worker/training/loader.h"
#include "worker/training/stop_token.h"
#include "worker/training/workload.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>

namespace gnn::training {

/// Runs the model on a mini-batch of a homogeneous graph. Features of any stored dtype become
/// float.
[[nodiscard]] Scores scores_of(nn::NodeModel& model, const MiniBatch& batch);

/// Adds the ranks' counts, and agrees on stopping: nothing when any rank was asked to stop.
/// Collective.
[[nodiscard]] Result<Evaluated> reduce_counts(
    comm::Communicator& communicator, const Accuracy& mine, const StopToken& stop
);

/// Accuracy on the mini-batches of a started loader; each rank has its share of them. Collective.
/// Precondition: the model is in evaluation mode, gradients are off.
[[nodiscard]] Result<Evaluated> evaluate_sampled(
    nn::NodeModel& model, NodeLoader& loader, comm::Communicator& communicator, const Watch& watch
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

/// Exact accuracy on `ids`: layer by layer over all nodes with all their neighbours, the nodes
/// sharded over the ranks; the last layer over `ids` alone. Every rank works its share of each
/// layer and then gets the others'. Collective. Holds two layers' outputs of all nodes in memory.
/// Precondition: as evaluate_sampled(). Source: tutorial 4's inference(), which runs on rank 0
/// alone while the others wait.
[[nodiscard]] Result<Evaluated> evaluate_layer_wise(
    nn::NodeModel& model,
    const WholeGraph& whole,
    const at::Tensor& ids,
    comm::Communicator& communicator,
    const Watch& watch,
    const LayerWiseOptions& options
);

}  // namespace gnn::training
