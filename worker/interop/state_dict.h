#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"

#include <string>
#include <string_view>

/// Where our models' tensors go in the state_dict of a module of DGL or PyG.
namespace gnn::interop {

enum class Library { Dgl, Pyg };

/// "DGL" or "PyG".
[[nodiscard]] std::string_view name_of(Library library);

/// The library whose names a model's parameters have already: GraphSAGE's as model.graphSage.parameters
/// says, those of all others PyG's.
[[nodiscard]] Library own_library(const api::Model& model);

/// Errors: Configuration, naming the field, if the library has no layer that computes what the
/// model's do.
[[nodiscard]] Status check_library(const api::Model& model, Library library);

/// The key of a parameter or buffer that is called `own` in our module of this model. What it holds
/// is the same, in the same shape. docs/training.md has the table.
/// Errors: those of check_library(); Internal if the model has no such tensor.
[[nodiscard]] Result<std::string> state_dict_key(
    const api::Model& model, Library library, std::string_view own
);

/// The key of the embeddings of one end of the links that BipartiteSAGE scores, in either library.
enum class LinkEnd { Source, Destination };
[[nodiscard]] std::string embedding_key(LinkEnd end);

}  // namespace gnn::interop
