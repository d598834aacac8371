#pragma once

#include "common/api/gnn_job.h"
#include "worker/nn/models/model.h"

#include <cstdint>
#include <memory>

namespace gnn::tasks {

/// The widths of a model that its data set decides.
struct ModelShape {
  int64_t in_channels = 0;
  int64_t num_classes = 0;
};

/// A model of nodes. Its initial parameters come from torch's default generator: seed it first.
/// Precondition: api::validate() accepted the spec, so `model` has the sub-object that its type
/// names.
[[nodiscard]] std::shared_ptr<nn::NodeModel> make_node_model(
    const api::Model& model, const ModelShape& shape
);
/// A model of graphs; otherwise as make_node_model().
[[nodiscard]] std::shared_ptr<nn::GraphModel> make_graph_model(
    const api::Model& model, const ModelShape& shape
);

}  // namespace gnn::tasks
