#include "worker/app/model_files.h"

#include "common/printable.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/state_capture.h"
#include "worker/data/io/byte_source.h"
#include "worker/embedding/embeddings.h"
#include "worker/embedding/state_names.h"
#include "worker/interop/safetensors.h"
#include "worker/tasks/model_widths.h"
#include "worker/tasks/run_training.h"
#include "worker/training/model_export.h"
#include "worker/training/model_file.h"
#include "worker/training/parameters_hash.h"
#include "worker/training/training_state.h"

#include <ATen/ops/empty.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace gnn::app {
namespace {

using checkpoint::CheckpointTensor;
using tasks::TensorShapes;

// The tensors of the job's model, by the names of our module.
Result<std::map<std::string, interop::TensorEntry>> entries_of(
    const api::GnnJobSpec& spec, const tasks::OpenWidths& widths
) {
  std::map<std::string, interop::TensorEntry> entries;
  for (const CheckpointTensor& tensor :
       checkpoint::capture_module(*tasks::make_model(spec, widths))) {
    GNN_ASSIGN_OR_RETURN(interop::TensorEntry entry, training::entry_of(tensor));
    entries.emplace(tensor.name, std::move(entry));
  }
  return entries;
}

// The same for any widths, without making a model that large: a file can claim any. How a dimension
// depends on each width shows in models that are hardly wider than the narrowest.
Result<std::map<std::string, interop::TensorEntry>> entries_of_any(
    const api::GnnJobSpec& spec, const tasks::OpenWidths& widths
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
    const tasks::OpenWidths& widths,
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
    const tasks::OpenWidths& widths
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

// "m.safetensors: GraphSAGE by DGL's names, 9 tensors, 206,888 numbers; epochs 5, validation_auc 0.9"
std::string summary_of(
    const ModelFileRequest& request,
    const interop::SafetensorsHeader& header,
    interop::Library names,
    const std::vector<CheckpointTensor>& tensors
) {
  int64_t numbers = 0;
  for (const CheckpointTensor& tensor : tensors) numbers += tensor.tensor.numel();
  std::string text =
      request.file + ": " + std::string(training::name_of(request.job.spec.model.type)) + " by " +
      std::string(interop::name_of(names)) + "'s names, " + std::to_string(header.tensors.size()) +
      " tensors, " + tasks::grouped(numbers) + " numbers";
  const auto say = [&](const std::string& key) {
    const auto found = header.metadata.find(std::string(interop::kOwnKeys) + key);
    return found == header.metadata.end() ? std::string() : printable_line(found->second, 100);
  };
  if (!say("epochs").empty()) text += "; epochs " + say("epochs");
  if (!say("metric").empty()) text += ", " + say("metric") + " " + say("metricValue");
  return text;
}

std::string hash_of(const std::vector<CheckpointTensor>& tensors) {
  std::vector<at::Tensor> values;
  for (const CheckpointTensor& tensor : tensors) values.push_back(tensor.tensor);
  return training::hash_of(values);
}

// The embeddings of a checkpoint as they are now, under their keys.
Status add_embeddings(
    const checkpoint::CheckpointState& state,
    const api::GnnJobSpec& spec,
    std::vector<CheckpointTensor>& tensors
) {
  if (state.embeddings.empty()) return {};
  const api::EdgeType link = spec.task.link.value_or(api::EdgeType{});
  embedding::EmbeddingOptions options{
      .tables = {},
      .update = spec.training.embeddings.value_or(api::Embeddings{}).update,
      .optimizer = spec.training.optimizer,
      .seed = spec.training.seed,
  };
  for (const std::string& type : {link.source, link.destination}) {
    for (const CheckpointTensor& saved : state.embeddings) {
      if (saved.name != embedding::state_name(type) || saved.tensor.dim() != 3) continue;
      options.tables.push_back(
          {.name = type, .rows = saved.tensor.size(0), .width = saved.tensor.size(2)}
      );
    }
  }
  const auto alone = comm::make_single_communicator();
  GNN_ASSIGN_OR_RETURN(
      embedding::Embeddings embeddings, embedding::Embeddings::create(options, *alone)
  );
  GNN_RETURN_IF_ERROR(embeddings.restore(state.embeddings));
  training::add_embeddings(embeddings, link, tensors);
  return {};
}

// What the checkpoint says of its model.
training::ModelFacts facts_of(const checkpoint::CheckpointState& state) {
  training::ModelFacts facts{.config_hash = state.config_hash};
  if (const auto digest = state.environment.find(training::kDatasetCondition);
      digest != state.environment.end())
    facts.dataset_digest = digest->second;
  const bool whole = state.step > 0 && state.step == state.steps_per_epoch;
  facts.epochs = state.epoch + (whole ? 1 : 0);
  const training::TrainingState known = training::from_checkpoint(state, state.steps_per_epoch, 0);
  if (std::ssize(known.epochs) != facts.epochs || known.epochs.empty()) return facts;
  training::set_metric(known.epochs.back(), facts);
  return facts;
}

interop::Library names_of(const ModelFileRequest& request) {
  return request.names.value_or(training::names_of(request.job.spec));
}

}  // namespace

Status check_model(const ModelFileRequest& request, std::ostream& out) {
  GNN_ASSIGN_OR_RETURN(auto source, data::open_file(request.file));
  GNN_ASSIGN_OR_RETURN(
      interop::SafetensorsReader reader, interop::SafetensorsReader::open(std::move(source))
  );
  const interop::SafetensorsHeader& header = reader.header();
  const auto stated = header.metadata.find("gnn.names");
  const std::optional<interop::Library> of_file =
      stated == header.metadata.end() ? std::nullopt : library_named(stated->second);
  const interop::Library names =
      request.names ? *request.names : of_file.value_or(names_of(request));
  GNN_ASSIGN_OR_RETURN(const TensorShapes shapes, shapes_of(header, request.job.spec, names));
  const tasks::OpenWidths widths = tasks::widths_of(request.job.spec, shapes);
  GNN_ASSIGN_OR_RETURN(
      const auto expected, expected_tensors(header, request.job.spec, names, widths)
  );
  GNN_RETURN_IF_ERROR(reader.check_tensors(expected));

  // Not before it is known that the file has as much.
  const auto model = tasks::make_model(request.job.spec, widths);
  const std::vector<CheckpointTensor> own = checkpoint::capture_module(*model);
  GNN_ASSIGN_OR_RETURN(
      std::vector<CheckpointTensor> tensors,
      training::state_dict_of(own, request.job.spec.model, names)
  );
  for (size_t i = tensors.size(); i < expected.size(); ++i)
    tensors.push_back({.name = expected[i].name, .tensor = at::empty(expected[i].shape)});
  GNN_RETURN_IF_ERROR(training::read_model_file(request.file, tensors));
  GNN_RETURN_IF_ERROR(checkpoint::restore_module(*model, own));
  out << summary_of(request, header, names, tensors);
  if (tensors.size() == own.size()) out << "; parametersHash " << hash_of(own);
  out << "\n";
  return {};
}

Status export_checkpoint(
    const std::string& manifest, const ModelFileRequest& request, std::ostream& out
) {
  const api::GnnJobSpec& spec = request.job.spec;
  const interop::Library names = names_of(request);
  GNN_RETURN_IF_ERROR(interop::check_library(spec.model, names));
  checkpoint::PosixFileOps files;
  GNN_ASSIGN_OR_RETURN(
      const checkpoint::LoadedCheckpoint loaded, checkpoint::load_checkpoint(manifest, files)
  );
  TensorShapes shapes;
  for (const CheckpointTensor& tensor : loaded.state.model)
    shapes.emplace(tensor.name, tensor.tensor.sizes().vec());
  const auto model = tasks::make_model(spec, tasks::widths_of(spec, shapes));
  if (Status fits = checkpoint::restore_module(*model, loaded.state.model); !fits)
    return tl::unexpected(with_context(std::move(fits).error(), manifest));

  GNN_ASSIGN_OR_RETURN(
      std::vector<CheckpointTensor> tensors,
      training::state_dict_of(loaded.state.model, spec.model, names)
  );
  GNN_RETURN_IF_ERROR(add_embeddings(loaded.state, spec, tensors));
  GNN_RETURN_IF_ERROR(training::write_model_file(
      files,
      std::filesystem::absolute(request.file),
      tensors,
      training::metadata_of(spec.model, names, facts_of(loaded.state))
  ));
  out << "Wrote " << request.file << "\n";
  return {};
}

}  // namespace gnn::app
