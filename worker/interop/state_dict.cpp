#include "worker/interop/state_dict.h"

#include <algorithm>
#include <array>
#include <optional>

namespace gnn::interop {
namespace {

// The parts of a SAGE layer under the names of both libraries. The bias is added to the sum of both
// products, so it is the same in either place.
struct SagePart {
  std::string_view dgl;
  std::string_view pyg;
};
constexpr std::array kSageParts = {
    SagePart{.dgl = "fc_neigh.weight", .pyg = "lin_l.weight"},
    SagePart{.dgl = "fc_self.weight", .pyg = "lin_r.weight"},
    SagePart{.dgl = "fc_self.bias", .pyg = "lin_l.bias"},
};

using Key = std::optional<std::string>;

// What follows `prefix`, if the name starts with it.
std::optional<std::string_view> after(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  return name.substr(prefix.size());
}

// "layers_3.x" is layer "3" and rest "x", for the prefix "layers_".
struct LayerName {
  std::string layer;
  std::string_view rest;
};
std::optional<LayerName> layer_name(std::string_view name, std::string_view prefix) {
  const auto numbered = after(name, prefix);
  const size_t dot = numbered ? numbered->find('.') : std::string_view::npos;
  if (dot == std::string_view::npos) return std::nullopt;
  return LayerName{
      .layer = std::string(numbered->substr(0, dot)), .rest = numbered->substr(dot + 1)
  };
}

// `container` with what a list of modules calls the layer: "convs.3."
std::string in_list(std::string_view container, const std::string& layer) {
  return std::string(container) + "." + layer + ".";
}

Key sage_part(Library library, std::string_view own) {
  for (const SagePart& part : kSageParts) {
    if (own == part.dgl || own == part.pyg)
      return std::string(library == Library::Dgl ? part.dgl : part.pyg);
  }
  return std::nullopt;
}

Key with_prefix(std::string prefix, const Key& key) {
  if (!key) return std::nullopt;
  return std::move(prefix) + *key;
}

Key sage_key(Library library, std::string_view own) {
  const auto name = layer_name(own, "layers_");
  if (!name) return std::nullopt;
  return with_prefix(
      in_list(library == Library::Dgl ? "layers" : "convs", name->layer),
      sage_part(library, name->rest)
  );
}

// Of the decoder, DGL's example has an nn.Sequential with a ReLU in between.
Key dgl_predictor_key(std::string_view own) {
  if (const auto rest = after(own, "lin1.")) return "predictor.0." + std::string(*rest);
  if (const auto rest = after(own, "lin2.")) return "predictor.2." + std::string(*rest);
  return std::nullopt;
}

Key graph_sage_key(Library library, std::string_view own) {
  const bool dgl = library == Library::Dgl;
  if (const auto rest = after(own, "encoder."))
    return with_prefix(dgl ? "" : "encoder.", sage_key(library, *rest));
  if (const auto rest = after(own, "decoder."))
    return dgl ? dgl_predictor_key(*rest) : Key(std::string(own));
  return sage_key(library, own);
}

Key gcn_key(std::string_view own) {
  const auto name = layer_name(own, "convs_");
  if (!name || (name->rest != "weight" && name->rest != "bias")) return std::nullopt;
  return in_list("convs", name->layer) + (name->rest == "weight" ? "lin.weight" : "bias");
}

// Inside a GIN layer, `mlp` is a list of modules, but the module itself where there is only one.
Key gin_part(Library library, const api::Gin& gin, std::string_view own) {
  if (own == "eps") return std::string(own);
  auto rest = after(own, gin.mlp_layers == 1 ? "mlp.0." : "mlp.");
  if (!rest) return std::nullopt;
  return (library == Library::Dgl ? "apply_func." : "nn.") + std::string(*rest);
}

Key gin_key(Library library, const api::Gin& gin, std::string_view own) {
  const bool dgl = library == Library::Dgl;
  if (const auto name = layer_name(own, "layers_")) {
    // The one layer of DGL's tutorial is no list.
    const bool tutorial = dgl && gin.layers == 1 && gin.readout == api::Readout::LastLayer;
    return with_prefix(
        tutorial ? "conv1." : in_list(dgl ? "ginlayers" : "convs", name->layer),
        gin_part(library, gin, name->rest)
    );
  }
  if (const auto name = layer_name(own, "norms_"))
    return in_list(dgl ? "batch_norms" : "norms", name->layer) + std::string(name->rest);
  if (const auto name = layer_name(own, "scores_"))
    return in_list(dgl ? "linear_prediction" : "lins", name->layer) + std::string(name->rest);
  return std::nullopt;
}

Key bipartite_key(Library library, std::string_view own) {
  if (!own.starts_with("item_encoder.") && !own.starts_with("user_encoder."))
    return own.starts_with("decoder.") ? Key(std::string(own)) : std::nullopt;
  const size_t encoder_end = own.find('.') + 1;
  const size_t layer_end = own.find('.', encoder_end) + 1;
  const std::string_view rest = own.substr(layer_end);
  if (own.substr(encoder_end).starts_with("lin.")) return std::string(own);
  return with_prefix(std::string(own.substr(0, layer_end)), sage_part(library, rest));
}

Key key_of(const api::Model& model, Library library, std::string_view own) {
  switch (model.type) {
    case api::ModelType::GraphSAGE:
      return graph_sage_key(library, own);
    case api::ModelType::GCN:
      return gcn_key(own);
    case api::ModelType::GIN:
      return gin_key(library, model.gin ? *model.gin : api::Gin{}, own);
    case api::ModelType::BipartiteSAGE:
      return bipartite_key(library, own);
  }
  return std::nullopt;
}

}  // namespace

std::string_view name_of(Library library) {
  return library == Library::Dgl ? "DGL" : "PyG";
}

Library own_library(const api::Model& model) {
  const bool sage = model.type == api::ModelType::GraphSAGE;
  const api::GraphSage options = model.graph_sage.value_or(api::GraphSage{});
  return sage && options.parameters == api::SageParameters::DGL ? Library::Dgl : Library::Pyg;
}

Status check_library(const api::Model& model, Library library) {
  if (model.type != api::ModelType::GCN || library != Library::Dgl) return {};
  return fail(
      ErrorKind::Configuration,
      "spec.export.names: must be PyG with GCN: DGL's GraphConv is another function where edges "
      "have no reverse"
  );
}

Result<std::string> state_dict_key(const api::Model& model, Library library, std::string_view own) {
  GNN_RETURN_IF_ERROR(check_library(model, library));
  if (Key key = key_of(model, library, own)) return *std::move(key);
  return fail(
      ErrorKind::Internal,
      "no key of " + std::string(name_of(library)) + "'s is known for the model's tensor " +
          std::string(own)
  );
}

std::string embedding_key(LinkEnd end) {
  return end == LinkEnd::Source ? "user_emb.weight" : "item_emb.weight";
}

}  // namespace gnn::interop
