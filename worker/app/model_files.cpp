#include "worker/app/model_files.h"

#include "common/printable.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/state_capture.h"
#include "worker/embedding/embeddings.h"
#include "worker/embedding/state_names.h"
#include "worker/interop/safetensors.h"
#include "worker/tasks/exported_model.h"
#include "worker/tasks/model_widths.h"
#include "worker/tasks/run_training.h"
#include "worker/training/model_export.h"
#include "worker/training/model_file.h"
#include "worker/training/parameters_hash.h"
#include "worker/training/training_state.h"

#include <filesystem>
#include <utility>
#include <vector>

namespace gnn::app {
namespace {

using checkpoint::CheckpointTensor;
using tasks::TensorShapes;

// "m.safetensors: GraphSAGE by DGL's names, 9 tensors, 206,888 numbers; epochs 5, validation_auc 0.9"
std::string summary_of(const ModelFileRequest& request, const tasks::ExportedModel& read) {
  int64_t numbers = 0;
  for (const CheckpointTensor& tensor : read.tensors) numbers += tensor.tensor.numel();
  std::string text = request.file + ": " +
                     std::string(training::name_of(request.job.spec.model.type)) + " by " +
                     std::string(interop::name_of(read.names)) + "'s names, " +
                     std::to_string(read.header.tensors.size()) + " tensors, " +
                     tasks::grouped(numbers) + " numbers";
  const interop::Metadata& metadata = read.header.metadata;
  const auto say = [&](const std::string& key) {
    const auto found = metadata.find(std::string(interop::kOwnKeys) + key);
    return found == metadata.end() ? std::string() : printable_line(found->second, 100);
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
  GNN_ASSIGN_OR_RETURN(
      const tasks::ExportedModel read,
      tasks::read_exported_model(request.job.spec, request.file, request.names)
  );
  const std::vector<CheckpointTensor> own = checkpoint::capture_module(*read.module);
  out << summary_of(request, read);
  if (read.tensors.size() == own.size()) out << "; parametersHash " << hash_of(own);
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
