#include "worker/training/model_export.h"

#include "common/api/enums.h"
#include "worker/checkpoint/durable_file.h"
#include "worker/checkpoint/state_capture.h"
#include "worker/data/number_text.h"
#include "worker/embedding/embeddings.h"
#include "worker/training/agreement.h"
#include "worker/training/model_file.h"

#include <string_view>
#include <utility>
#include <vector>

namespace gnn::training {
namespace {

namespace fs = std::filesystem;

constexpr const char* kField = "spec.export.path";

}  // namespace

std::string_view name_of(api::ModelType type) {
  for (const auto& [value, word] : api::EnumTable<api::ModelType>::kWords) {
    if (value == type) return word;
  }
  return {};
}

interop::Library names_of(const api::GnnJobSpec& spec) {
  if (!spec.model_export || !spec.model_export->names) return interop::own_library(spec.model);
  return *spec.model_export->names == api::ParameterNames::DGL ? interop::Library::Dgl
                                                               : interop::Library::Pyg;
}

std::optional<ModelExportOptions> export_options(const api::GnnJobSpec& spec) {
  if (!spec.model_export) return std::nullopt;
  return ModelExportOptions{
      .path = spec.model_export->path,
      .names = names_of(spec),
      .model = spec.model,
      .link = spec.task.link,
  };
}

void set_metric(const progress::EpochReport& epoch, ModelFacts& facts) {
  const progress::Measure& measure = epoch.validation ? *epoch.validation : epoch.train;
  facts.metric = (epoch.validation ? "validation_" : "train_") + measure.metric;
  facts.metric_value = measure.value;
}

interop::Metadata metadata_of(
    const api::Model& model, interop::Library names, const ModelFacts& facts
) {
  interop::Metadata metadata = {
      {"format", "pt"},  // the tensors lie as torch's do, by which other tools know them
      {"gnn.model", std::string(name_of(model.type))},
      {"gnn.names", std::string(interop::name_of(names))},
      {"gnn.configHash", facts.config_hash},
      {"gnn.datasetDigest", facts.dataset_digest},
      {"gnn.epochs", std::to_string(facts.epochs)},
  };
  if (facts.metric.empty()) return metadata;
  metadata["gnn.metric"] = facts.metric;
  metadata["gnn.metricValue"] = data::number_text(facts.metric_value);
  return metadata;
}

void add_embeddings(
    const embedding::Embeddings& embeddings,
    const api::EdgeType& link,
    std::vector<checkpoint::CheckpointTensor>& tensors
) {
  using interop::LinkEnd;
  for (size_t table = 0; table < embeddings.count(); ++table) {
    const bool of_source = embeddings.options_of(table).name == link.source;
    tensors.push_back(
        {.name = interop::embedding_key(of_source ? LinkEnd::Source : LinkEnd::Destination),
         .tensor = embeddings.values(table)}
    );
  }
}

Result<std::vector<checkpoint::CheckpointTensor>> exported_tensors(
    const torch::nn::Module& module,
    const embedding::Embeddings* embeddings,
    const ModelExportOptions& options
) {
  GNN_ASSIGN_OR_RETURN(
      std::vector<checkpoint::CheckpointTensor> tensors,
      state_dict_of(checkpoint::capture_module(module), options.model, options.names)
  );
  if (embeddings == nullptr) return tensors;
  GNN_ASSERT(options.link.has_value(), "only models of links have embeddings");
  add_embeddings(*embeddings, *options.link, tensors);
  return tensors;
}

ModelExport::ModelExport(
    ModelExportOptions options,
    std::shared_ptr<comm::Communicator> communicator,
    std::shared_ptr<checkpoint::FileOps> files
)
    : options_(std::move(options)),
      folder_(checkpoint::folder_named(options_.path)),
      communicator_(std::move(communicator)),
      files_(std::move(files)) {}

Result<ModelExport> ModelExport::open(
    ModelExportOptions options,
    std::shared_ptr<comm::Communicator> communicator,
    std::shared_ptr<checkpoint::FileOps> files
) {
  GNN_RETURN_IF_ERROR(interop::check_library(options.model, options.names));
  ModelExport made(std::move(options), std::move(communicator), std::move(files));
  Status checked;
  if (made.communicator_->rank() == 0)
    checked = checkpoint::make_writable_folder(*made.files_, made.folder_);
  if (!checked) {
    checked = fail(
        ErrorKind::Configuration,
        std::string(kField) + ": can't write there: " + checked.error().message
    );
  }
  GNN_RETURN_IF_ERROR(agree(*made.communicator_, checked, "could not write to spec.export.path"));
  return made;
}

Result<std::string> ModelExport::write(
    const std::string& name,
    const torch::nn::Module& module,
    const embedding::Embeddings* embeddings,
    const ModelFacts& facts
) {
  const fs::path path = folder_ / (name + ".safetensors");
  const auto write_here = [&]() -> Status {
    GNN_ASSIGN_OR_RETURN(const auto tensors, exported_tensors(module, embeddings, options_));
    return write_model_file(
        *files_, path, tensors, metadata_of(options_.model, options_.names, facts)
    );
  };
  Status written;
  if (communicator_->rank() == 0) written = write_here();
  if (!written) written = tl::unexpected(with_context(std::move(written).error(), kField));
  GNN_RETURN_IF_ERROR(agree(*communicator_, written, "could not export the model"));
  return path.string();
}

}  // namespace gnn::training
