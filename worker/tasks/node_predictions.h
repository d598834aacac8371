#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/comm/rank_groups.h"
#include "worker/graph/dataset.h"
#include "worker/nn/models/model.h"
#include "worker/tasks/part_inputs.h"
#include "worker/training/predictions.h"
#include "worker/training/workload.h"

#include <c10/core/Device.h>

#include <string>
#include <vector>

namespace gnn::tasks {

/// A model of nodes and the graph that it is applied to.
struct PredictedGraph {
  nn::NodeModel& model;
  const graph::Dataset& dataset;
  std::string config_hash{};             ///< tasks::config_hash()
  std::vector<api::Part> parts{};        ///< whose accuracy is asked for
  c10::Device device{c10::kCPU};         ///< the model's
  const PartInputs* own_part = nullptr;  ///< where nodes read data from each other
};

/// The whole graph of a homogeneous data set, as layer-wise inference reads it.
[[nodiscard]] training::WholeGraph whole_graph(const graph::Dataset& dataset);

/// Runs Predictions::write() and says what was written. Returns as that. Collective.
/// Precondition: gradients are off, the model is in evaluation mode.
[[nodiscard]] Result<training::EvaluatedParts> write_predictions(
    training::Predictions& predictions,
    const PredictedGraph& predicted,
    const comm::RankGroups& groups,
    const training::EvaluationContext& context
);

}  // namespace gnn::tasks
