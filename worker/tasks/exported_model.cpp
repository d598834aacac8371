#include "worker/tasks/exported_model.h"

#include "worker/checkpoint/state_capture.h"
#include "worker/data/io/byte_source.h"
#include "worker/tasks/model_widths.h"
#include "worker/training/model_export.h"
#include "worker/training/model_file.h"

#include <ATen/ops/empty.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace gnn::tasks {
namespace {

using checkpoint::CheckpointTensor;

// The tensors of the job's model, by the names of our module.
Result<std::map<std::string, interop::TensorEntry>> entries_of(
    const api::GnnJobSpec& spec, const OpenWidths& widths
) {
  std::map<std::string, interop::TensorEntry> entries;
  for (const CheckpointTensor& tensor : checkpoint::capture_module(*make_model(spec, widths))) {
    GNN_ASSIGN_OR_RETURN(interop::TensorEntry entry, training::entry_of(tensor));
    entries.emplace(tensor.name, std::move(entry));
  }
  return entries;
}

// The same for any widths, without making a model that large: a file can claim any. How a dimension
// depends on each width shows in models that are hardly wider than the narrowest.
Result<std::map<std::string, interop::TensorEntry>> entries_of_any(
    const api::GnnJobSpec& spec, const OpenWidths& widths
) {
  GNN_ASSIGN_OR_RETURN(auto entries, entries_of(spec, {.first = 1, .second = 1}));
  GNN_ASSIGN_OR_RETURN(auto first, entries_of(spec, {.first = 2, .second = 1}));
  GNN_ASSIGN_OR_RETURN(auto second, entries_of(spec, {.first = 1, .second = 2}));
  for (auto& [name, entry] : entries) {
    for (size_t i = 0; i < entry.shape.size(); ++i) {
      const int64_t narrow = entry.shape[i];
      entry.shape[i] += (widths.first - 1) * (first.at(name).shape[i] - narrow) +
                        (widths.second - 1) * (second.at(name).shape[i] - narrow);
    }
  }
  return entries;
}

// The shapes of a file's tensors, by the names of our module.
Result<TensorShapes> shapes_of(
    const interop::SafetensorsHeader& header, const api::GnnJobSpec& spec, interop::Library names
) {
  std::map<std::string, std::vector<int64_t>> by_key;
  for (const interop::TensorEntry& entry : header.tensors) by_key.emplace(entry.name, entry.shape);
  GNN_ASSIGN_OR_RETURN(const auto entries, entries_of(spec, {}));
  TensorShapes shapes;
  for (const auto& [own, entry] : entries) {
    GNN_ASSIGN_OR_RETURN(const std::string key, interop::state_dict_key(spec.model, names, own));
    const auto found = by_key.find(key);
    if (found != by_key.end()) shapes.emplace(own, found->second);
  }
  return shapes;
}

// The embeddings of a file are as many as it says: how many rows there are, only the data set knows.
void add_embeddings(
    const interop::SafetensorsHeader& header,
    const OpenWidths& widths,
    std::vector<interop::TensorEntry>& expected
) {
  for (const interop::TensorEntry& entry : header.tensors) {
    const bool of_source = entry.name == interop::embedding_key(interop::LinkEnd::Source);
    if (!of_source && entry.name != interop::embedding_key(interop::LinkEnd::Destination)) continue;
    expected.push_back(
        {.name = entry.name,
         .dtype = interop::Dtype::F32,
         .shape =
             {entry.shape.empty() ? 1 : entry.shape[0], of_source ? widths.first : widths.second}}
    );
  }
}

// The tensors that a file of the job's model has, embeddings last.
Result<std::vector<interop::TensorEntry>> expected_tensors(
    const interop::SafetensorsHeader& header,
    const api::GnnJobSpec& spec,
    interop::Library names,
    const OpenWidths& widths
) {
  GNN_ASSIGN_OR_RETURN(auto entries, entries_of_any(spec, widths));
  std::vector<interop::TensorEntry> expected;
  for (auto& [own, entry] : entries) {
    GNN_ASSIGN_OR_RETURN(entry.name, interop::state_dict_key(spec.model, names, own));
    expected.push_back(std::move(entry));
  }
  if (spec.model.type == api::ModelType::BipartiteSAGE) add_embeddings(header, widths, expected);
  return expected;
}

std::optional<interop::Library> library_named(const std::string& name) {
  for (const interop::Library library : {interop::Library::Dgl, interop::Library::Pyg}) {
    if (interop::name_of(library) == name) return library;
  }
  return std::nullopt;
}

}  // namespace

Result<ExportedModel> read_exported_model(
    const api::GnnJobSpec& spec, const std::string& file, std::optional<interop::Library> names
) {
  GNN_ASSIGN_OR_RETURN(auto source, data::open_file(file));
  GNN_ASSIGN_OR_RETURN(
      interop::SafetensorsReader reader, interop::SafetensorsReader::open(std::move(source))
  );
  ExportedModel read{.header = reader.header()};
  const auto stated = read.header.metadata.find("gnn.names");
  if (!names && stated != read.header.metadata.end()) names = library_named(stated->second);
  read.names = names.value_or(training::names_of(spec));
  GNN_ASSIGN_OR_RETURN(const TensorShapes shapes, shapes_of(read.header, spec, read.names));
  const OpenWidths widths = widths_of(spec, shapes);
  GNN_ASSIGN_OR_RETURN(
      const auto expected, expected_tensors(read.header, spec, read.names, widths)
  );
  GNN_RETURN_IF_ERROR(reader.check_tensors(expected));

  // Not before it is known that the file has as much.
  read.module = make_model(spec, widths);
  const std::vector<CheckpointTensor> own = checkpoint::capture_module(*read.module);
  GNN_ASSIGN_OR_RETURN(read.tensors, training::state_dict_of(own, spec.model, read.names));
  for (size_t i = read.tensors.size(); i < expected.size(); ++i)
    read.tensors.push_back({.name = expected[i].name, .tensor = at::empty(expected[i].shape)});
  GNN_RETURN_IF_ERROR(training::read_model_file(file, read.tensors));
  GNN_RETURN_IF_ERROR(checkpoint::restore_module(*read.module, own));
  return read;
}

}  // namespace gnn::tasks
