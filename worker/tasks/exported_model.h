#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/checkpoint/checkpoint_state.h"
#include "worker/interop/safetensors.h"
#include "worker/interop/state_dict.h"

#include <torch/nn/module.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gnn::tasks {

/// A safetensors file that was read as the model of a job.
struct ExportedModel {
  interop::SafetensorsHeader header;
  interop::Library names = interop::Library::Pyg;  ///< whose names the tensors have
  std::shared_ptr<torch::nn::Module> module{};     ///< with the file's values, on the CPU
  /// All of the file, by its names, the module's first. Values of embeddings are read, too.
  std::vector<checkpoint::CheckpointTensor> tensors{};
};

/// Reads a safetensors file, also one that another program wrote. The widths that the data set decides
/// are taken from it: the data set is not needed. Without `names`, the tensors have those that the file
/// says, or spec.export.names, or the ones that the parameters have.
/// Errors: Data naming file and tensor if it is damaged or of another model; NotFound; Io.
[[nodiscard]] Result<ExportedModel> read_exported_model(
    const api::GnnJobSpec& spec, const std::string& file, std::optional<interop::Library> names = {}
);

}  // namespace gnn::tasks
