#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/checkpoint/file_ops.h"
#include "worker/comm/communicator.h"
#include "worker/tasks/model_widths.h"

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>

namespace gnn::tasks {

/// The model that model.from names. Rank 0 reads it, and gives it to the others. Every call is
/// collective, and what fails on rank 0 fails on all.
class TrainedModel {
 public:
  /// Reads a checkpoint by its manifest, the newest valid one of a folder, or a safetensors file. The
  /// data set is not needed.
  /// Errors: Configuration naming spec.model.from and the path if nothing is there, or if it is a
  /// checkpoint of another model; Data naming the file, and the tensor if it is about one, for what is
  /// damaged, not finite, or in a file of another model; Io; PeerLost on the other ranks.
  [[nodiscard]] static Result<TrainedModel> read(
      const api::GnnJobSpec& spec, comm::Communicator& communicator, checkpoint::FileOps& files
  );

  /// Makes the model for a data set of these widths, on the CPU; a negative number of classes is one
  /// that the data set does not know.
  /// Errors: Configuration naming the path, and the widths that were expected and found.
  [[nodiscard]] Result<std::shared_ptr<torch::nn::Module>> make(
      const OpenWidths& data, comm::Communicator& communicator
  ) const;

  /// Where it was read, for the log.
  [[nodiscard]] const std::string& source() const { return source_; }

 private:
  explicit TrainedModel(const api::GnnJobSpec& spec) : spec_(spec), source_(*spec.model.from) {}

  [[nodiscard]] Status read_here(checkpoint::FileOps& files);
  [[nodiscard]] Status read_file();
  [[nodiscard]] Status read_checkpoint(checkpoint::FileOps& files, bool is_folder);
  [[nodiscard]] Status check_widths(const OpenWidths& data) const;

  api::GnnJobSpec spec_;
  std::string source_;  // model.from, or the checkpoint that was found there
  OpenWidths widths_;
  std::shared_ptr<torch::nn::Module> module_;  // null on the other ranks
};

}  // namespace gnn::tasks
