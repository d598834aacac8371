#include "worker/tasks/models.h"

#include "common/result.h"
#include "worker/nn/models/bipartite_sage.h"
#include "worker/nn/models/gcn.h"
#include "worker/nn/models/gin.h"
#include "worker/nn/models/graph_sage.h"
#include "worker/nn/models/graph_sage_link.h"

#include <optional>
#include <string>
#include <string_view>

namespace gnn::tasks {
namespace {

nn::SageParameters parameters_of(api::SageParameters parameters) {
  switch (parameters) {
    case api::SageParameters::DGL:
      return nn::SageParameters::Dgl;
    case api::SageParameters::PyG:
      return nn::SageParameters::Pyg;
  }
  return nn::SageParameters::Dgl;
}

nn::Pooling pooling_of(api::Pooling pooling) {
  switch (pooling) {
    case api::Pooling::Sum:
      return nn::Pooling::Sum;
    case api::Pooling::Mean:
      return nn::Pooling::Mean;
    case api::Pooling::Max:
      return nn::Pooling::Max;
  }
  return nn::Pooling::Sum;
}

nn::Readout readout_of(api::Readout readout) {
  switch (readout) {
    case api::Readout::LastLayer:
      return nn::Readout::LastLayer;
    case api::Readout::EveryLayer:
      return nn::Readout::EveryLayer;
  }
  return nn::Readout::EveryLayer;
}

// The one edge type between two node types. `remedy` says which field makes one.
Result<int64_t> edge_type_between(
    const graph::Dataset& dataset, int64_t source, int64_t destination, std::string_view remedy
) {
  std::optional<int64_t> found;
  for (size_t i = 0; i < dataset.edge_types.size(); ++i) {
    const graph::EdgeTypeData& type = dataset.edge_types[i];
    if (type.source_index != source || type.destination_index != destination) continue;
    if (found) {
      return fail(
          ErrorKind::Configuration,
          "model.type: BipartiteSAGE reads one edge type from " + type.source + " to " +
              type.destination + ", found " +
              graph::text_of(dataset.edge_types[static_cast<size_t>(*found)]) + " and " +
              graph::text_of(type)
      );
    }
    found = static_cast<int64_t>(i);
  }
  if (found) return *found;
  const auto node_type = [&](int64_t index) {
    return dataset.node_types[static_cast<size_t>(index)].name;
  };
  return fail(
      ErrorKind::Configuration,
      "model.type: BipartiteSAGE reads an edge type from " + node_type(source) + " to " +
          node_type(destination) + ", found none: " + std::string(remedy)
  );
}

Result<std::shared_ptr<nn::LinkModel>> make_bipartite_sage(
    const api::BipartiteSage& widths, const LinkModelShape& shape
) {
  const graph::Dataset& dataset = shape.dataset;
  const graph::EdgeTypeData& link = dataset.edge_types.at(static_cast<size_t>(shape.link));
  const int64_t users = link.source_index;
  const int64_t items = link.destination_index;
  if (users == items) {
    return fail(
        ErrorKind::Configuration,
        "model.type: BipartiteSAGE predicts links between two node types, found the link " +
            graph::text_of(link) + ": GraphSAGE predicts links within one"
    );
  }
  GNN_ASSIGN_OR_RETURN(
      const int64_t item_to_item,
      edge_type_between(dataset, items, items, "dataset.coOccurrence makes one")
  );
  GNN_ASSIGN_OR_RETURN(
      const int64_t item_to_user,
      edge_type_between(dataset, items, users, "dataset.addReverse makes one")
  );
  return std::make_shared<nn::BipartiteSageImpl>(nn::BipartiteSageOptions{
      .user_type = users,
      .item_type = items,
      .item_to_item = item_to_item,
      .item_to_user = item_to_user,
      .user_channels = shape.widths.at(static_cast<size_t>(users)),
      .item_channels = shape.widths.at(static_cast<size_t>(items)),
      .hidden_channels = widths.hidden_channels,
      .out_channels = widths.out_channels,
  });
}

nn::LinkDecoder decoder_of(api::DecoderType type) {
  switch (type) {
    case api::DecoderType::Dot:
      return nn::LinkDecoder::Dot;
    case api::DecoderType::MLP:
      return nn::LinkDecoder::Mlp;
  }
  return nn::LinkDecoder::Dot;
}

Result<std::shared_ptr<nn::LinkModel>> make_graph_sage_link(
    const api::GraphSage& encoder, const api::Decoder& decoder, const LinkModelShape& shape
) {
  if (!shape.dataset.is_homogeneous()) {
    return fail(
        ErrorKind::Configuration,
        "model.type: GraphSAGE predicts links in a graph of one node type and one edge type, "
        "found " +
            std::to_string(shape.dataset.node_types.size()) + " and " +
            std::to_string(shape.dataset.edge_types.size())
    );
  }
  return std::make_shared<nn::GraphSageLinkImpl>(nn::GraphSageLinkOptions{
      .encoder =
          {
              .in_channels = shape.widths.at(0),
              .hidden_channels = encoder.hidden_channels,
              .out_channels = encoder.hidden_channels,
              .layers = encoder.layers,
              .dropout = encoder.dropout.value(),
              .parameters = parameters_of(encoder.parameters),
          },
      .decoder = decoder_of(decoder.type),
      .decoder_hidden_channels = decoder.hidden_channels.value_or(encoder.hidden_channels),
  });
}

}  // namespace

std::shared_ptr<nn::NodeModel> make_node_model(const api::Model& model, const ModelShape& shape) {
  if (model.type == api::ModelType::GCN) {
    GNN_ASSERT(model.gcn.has_value(), "validation refuses a GCN without its sub-object");
    return std::make_shared<nn::GcnImpl>(nn::GcnOptions{
        .in_channels = shape.in_channels,
        .hidden_channels = model.gcn->hidden_channels,
        .out_channels = shape.num_classes,
        .layers = model.gcn->layers,
        .dropout = model.gcn->dropout.value(),
    });
  }
  GNN_ASSERT(
      model.graph_sage.has_value(),
      "validation gives node tasks a GCN or a GraphSAGE with its sub-object"
  );
  return std::make_shared<nn::GraphSageImpl>(nn::GraphSageOptions{
      .in_channels = shape.in_channels,
      .hidden_channels = model.graph_sage->hidden_channels,
      .out_channels = shape.num_classes,
      .layers = model.graph_sage->layers,
      .dropout = model.graph_sage->dropout.value(),
      .parameters = parameters_of(model.graph_sage->parameters),
  });
}

std::shared_ptr<nn::GraphModel> make_graph_model(const api::Model& model, const ModelShape& shape) {
  GNN_ASSERT(model.gin.has_value(), "validation gives graph tasks a GIN with its sub-object");
  return std::make_shared<nn::GinImpl>(nn::GinOptions{
      .in_channels = shape.in_channels,
      .hidden_channels = model.gin->hidden_channels,
      .out_channels = shape.num_classes,
      .layers = model.gin->layers,
      .mlp_layers = model.gin->mlp_layers,
      .batch_norm = model.gin->batch_norm,
      .learn_eps = model.gin->learn_eps,
      .dropout = model.gin->dropout.value(),
      .pooling = pooling_of(model.gin->pooling),
      .readout = readout_of(model.gin->readout),
  });
}

Result<std::shared_ptr<nn::LinkModel>> make_link_model(
    const api::Model& model, const LinkModelShape& shape
) {
  if (model.type == api::ModelType::BipartiteSAGE) {
    GNN_ASSERT(model.bipartite_sage.has_value(), "defaults add BipartiteSAGE's sub-object");
    return make_bipartite_sage(*model.bipartite_sage, shape);
  }
  GNN_ASSERT(
      model.graph_sage.has_value(),
      "validation gives link tasks a BipartiteSAGE or a GraphSAGE with its sub-object"
  );
  static const api::Decoder kDefault;  // GCC 12 warns of value_or() here
  return make_graph_sage_link(*model.graph_sage, model.decoder ? *model.decoder : kDefault, shape);
}

}  // namespace gnn::tasks
