#pragma once

#include "common/api/gnn_job.h"
#include "worker/nn/models/model.h"

#include <cstdint>
#include <memory>

namespace gnn::tasks {

/// The widths that a data set gives a model.
struct ModelShape {
  int64_t in_channels = 0;
  int64_t num_classes = 0;
};

/// Precondition: api::validate() accepted the spec, so that `model` has the sub-object that its
/// type names. Initial parameters come from torch's default generator: seed it first.
[[nodiscard]] std::shared_ptr<nn::NodeModel> make_node_model(
    const api::Model& model, const ModelShape& shape
);
[[nodiscard]] std::shared_ptr<nn::GraphModel> make_graph_model(
    const api::Model& model, const ModelShape& shape
);

}  // namespace gnn::tasks
