#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/checkpoint/checkpoint_state.h"
#include "worker/checkpoint/file_ops.h"
#include "worker/interop/safetensors.h"
#include "worker/interop/state_dict.h"

#include <filesystem>
#include <string>
#include <vector>

namespace gnn::training {

/// The tensors of a model under their keys in a library's state_dict, in the same order. `tensors`
/// have the names of our module, as checkpoint::capture_module() gives them.
/// Errors: those of interop::state_dict_key().
[[nodiscard]] Result<std::vector<checkpoint::CheckpointTensor>> state_dict_of(
    std::vector<checkpoint::CheckpointTensor> tensors,
    const api::Model& model,
    interop::Library library
);

/// What a file says of the tensor.
/// Errors: Internal naming it if the format does not know its dtype.
[[nodiscard]] Result<interop::TensorEntry> entry_of(const checkpoint::CheckpointTensor& tensor);

/// Writes a safetensors file durably, as checkpoint::replace_file() does: `path` is never half
/// written. Equal tensors and metadata give equal bytes.
/// Errors: Io with the path; Internal naming a tensor whose dtype the format does not know.
[[nodiscard]] Status write_model_file(
    checkpoint::FileOps& files,
    const std::filesystem::path& path,
    const std::vector<checkpoint::CheckpointTensor>& tensors,
    const interop::Metadata& metadata
);

/// Reads a safetensors file that has exactly the tensors `into`, by name, dtype and shape, and copies
/// theirs into them. Memory: as much as they have. Their values are undefined after an error.
/// Errors: Data naming file and tensor (interop::SafetensorsReader); NotFound, Io.
[[nodiscard]] Status read_model_file(
    const std::string& path, const std::vector<checkpoint::CheckpointTensor>& into
);

}  // namespace gnn::training
