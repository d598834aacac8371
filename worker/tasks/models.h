#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/graph/dataset.h"
#include "worker/nn/models/link_model.h"
#include "worker/nn/models/model.h"

#include <cstdint>
#include <memory>
#include <vector>

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

/// What the data set decides of a model of links.
struct LinkModelShape {
  const graph::Dataset& dataset;  ///< for its types alone
  int64_t link = 0;               ///< the edge type to predict
  std::vector<int64_t> widths;    ///< of the rows of x, per node type: of embeddings or features
};

/// A model of links. Initial parameters as make_node_model().
/// - BipartiteSAGE: the link's sources are the users of nn::BipartiteSage, its destinations the
///   items. It reads the one edge type from items to items and the one from items to users.
/// - GraphSAGE: for a homogeneous data set; the decoder reads rows of its hidden width.
/// Precondition: as make_node_model().
/// Errors: Configuration naming the field that can add or remove an edge type.
[[nodiscard]] Result<std::shared_ptr<nn::LinkModel>> make_link_model(
    const api::Model& model, const LinkModelShape& shape
);

}  // namespace gnn::tasks
