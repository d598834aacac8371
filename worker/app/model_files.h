#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/interop/state_dict.h"

#include <optional>
#include <ostream>
#include <string>

namespace gnn::app {

/// A file with a model, and the job whose model it is.
struct ModelFileRequest {
  api::GnnJob job;
  std::string file;  ///< safetensors
  /// Absent: what the file says, or spec.export.names, or the names that the parameters have.
  std::optional<interop::Library> names;
};

/// Reads the file as the job's model and prints what it is, with the parametersHash of the job's
/// result unless it has embeddings. The widths that the data set decides are
/// taken from the file: the data set is not read.
/// Errors: Data naming file and tensor if it is damaged or of another model; NotFound, Io.
[[nodiscard]] Status check_model(const ModelFileRequest& request, std::ostream& out);

/// Writes the model of a checkpoint of the job, named by its manifest, to the file, in place of one
/// that is there, and prints its path.
/// Errors: Data naming the manifest if it is damaged, Configuration if it is of another model or if
/// the library has no such model; NotFound, Io.
[[nodiscard]] Status export_checkpoint(
    const std::string& manifest, const ModelFileRequest& request, std::ostream& out
);

}  // namespace gnn::app
