#include "worker/tasks/models.h"

#include "common/result.h"
#include "worker/nn/models/bipartite_sage.h"
#include "worker/nn/models/gcn.h"
#include "worker/nn/models/gin.h"
#include "worker/nn/models/graph_sage.h"
#include "worker/nn/models/graph_sage_link.h"
#include "worker/tasks/model_widths.h"

#include <algorithm>
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

std::shared_ptr<nn::LinkModel> make_graph_sage_link(
    const api::GraphSage& encoder, const std::optional<api::Decoder>& chosen, int64_t in_channels
) {
  static const api::Decoder kDefault;  // GCC 12 warns of value_or() here
  const api::Decoder& decoder = chosen ? *chosen : kDefault;
  return std::make_shared<nn::GraphSageLinkImpl>(nn::GraphSageLinkOptions{
      .encoder =
          {
              .in_channels = in_channels,
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

int64_t dimension_of(const TensorShapes& shapes, const std::string& name, size_t dimension) {
  const auto shape = shapes.find(name);
  if (shape == shapes.end() || shape->second.size() <= dimension) return 1;
  return std::max<int64_t>(1, shape->second[dimension]);
}

// A layer's matrix is [out, in].
int64_t out_width(const TensorShapes& shapes, const std::string& name) {
  return dimension_of(shapes, name, 0);
}
int64_t in_width(const TensorShapes& shapes, const std::string& name) {
  return dimension_of(shapes, name, 1);
}

std::string neighbor_weight(api::SageParameters parameters) {
  return parameters == api::SageParameters::DGL ? ".fc_neigh.weight" : ".lin_l.weight";
}

OpenWidths node_widths(const api::Model& model, const TensorShapes& shapes) {
  const bool gcn = model.type == api::ModelType::GCN;
  const std::string list = gcn ? "convs_" : "layers_";
  const std::string weight = gcn ? ".weight" : neighbor_weight(model.graph_sage->parameters);
  const int64_t layers = gcn ? model.gcn->layers : model.graph_sage->layers;
  return {
      .first = in_width(shapes, list + "0" + weight),
      .second = out_width(shapes, list + std::to_string(layers - 1) + weight),
  };
}

OpenWidths graph_widths(const api::Gin& gin, const TensorShapes& shapes) {
  const int64_t modules_per_linear = gin.batch_norm ? 3 : 2;  // with what follows it
  const std::string last = "layers_" + std::to_string(gin.layers - 1) + ".mlp." +
                           std::to_string((gin.mlp_layers - 1) * modules_per_linear) + ".weight";
  const bool every_layer = gin.readout == api::Readout::EveryLayer;
  return {
      .first = in_width(shapes, "layers_0.mlp.0.weight"),
      .second = out_width(shapes, every_layer ? "scores_0.weight" : last),
  };
}

OpenWidths link_widths(const api::Model& model, const TensorShapes& shapes) {
  if (model.type == api::ModelType::GraphSAGE) {
    const std::string weight = neighbor_weight(model.graph_sage->parameters);
    return {.first = in_width(shapes, "encoder.layers_0" + weight)};
  }
  return {
      .first = in_width(shapes, "user_encoder.conv2.lin_r.weight"),
      .second = in_width(shapes, "item_encoder.conv1.lin_l.weight"),
  };
}

std::shared_ptr<nn::LinkModel> make_link_model(const api::Model& model, const OpenWidths& widths) {
  if (model.type == api::ModelType::GraphSAGE)
    return make_graph_sage_link(*model.graph_sage, model.decoder, widths.first);
  return std::make_shared<nn::BipartiteSageImpl>(nn::BipartiteSageOptions{
      .user_type = 0,
      .item_type = 1,
      .item_to_item = 0,
      .item_to_user = 1,
      .user_channels = widths.first,
      .item_channels = widths.second,
      .hidden_channels = model.bipartite_sage->hidden_channels,
      .out_channels = model.bipartite_sage->out_channels,
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
  if (!shape.dataset.is_homogeneous()) {
    return fail(
        ErrorKind::Configuration,
        "model.type: GraphSAGE predicts links in a graph of one node type and one edge type, "
        "found " +
            std::to_string(shape.dataset.node_types.size()) + " and " +
            std::to_string(shape.dataset.edge_types.size())
    );
  }
  return make_graph_sage_link(*model.graph_sage, model.decoder, shape.widths.at(0));
}

OpenWidths widths_of(const api::GnnJobSpec& spec, const TensorShapes& shapes) {
  switch (spec.task.type) {
    case api::TaskType::NodeClassification:
      return node_widths(spec.model, shapes);
    case api::TaskType::GraphClassification:
      return graph_widths(*spec.model.gin, shapes);
    case api::TaskType::LinkPrediction:
      break;
  }
  return link_widths(spec.model, shapes);
}

std::shared_ptr<torch::nn::Module> make_model(
    const api::GnnJobSpec& spec, const OpenWidths& widths
) {
  const ModelShape shape{.in_channels = widths.first, .num_classes = widths.second};
  switch (spec.task.type) {
    case api::TaskType::NodeClassification:
      return make_node_model(spec.model, shape);
    case api::TaskType::GraphClassification:
      return make_graph_model(spec.model, shape);
    case api::TaskType::LinkPrediction:
      break;
  }
  return make_link_model(spec.model, widths);
}

}  // namespace gnn::tasks
