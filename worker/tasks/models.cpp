#include "worker/tasks/models.h"

#include "common/result.h"
#include "worker/nn/models/gcn.h"
#include "worker/nn/models/gin.h"
#include "worker/nn/models/graph_sage.h"

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

}  // namespace gnn::tasks
