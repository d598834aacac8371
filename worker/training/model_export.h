#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/checkpoint/checkpoint_state.h"
#include "worker/checkpoint/file_ops.h"
#include "worker/comm/communicator.h"
#include "worker/interop/safetensors.h"
#include "worker/interop/state_dict.h"
#include "worker/progress/progress_sink.h"

#include <torch/nn/module.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::embedding {
class Embeddings;
}

namespace gnn::training {

/// What spec.export asks for.
struct ModelExportOptions {
  std::string path{};  ///< the folder
  interop::Library names = interop::Library::Pyg;
  api::Model model{};
  std::optional<api::EdgeType> link{};  ///< of a link task: whose ends have embeddings
};

/// What a file says of its model, beside its tensors. The same for each run of the same training.
struct ModelFacts {
  std::string config_hash{};
  std::string dataset_digest{};
  int64_t epochs = 0;    ///< that it was trained for
  std::string metric{};  ///< "validation_accuracy"; empty without a measure
  double metric_value = 0;
};

/// Whose names a job's exported models have.
[[nodiscard]] interop::Library names_of(const api::GnnJobSpec& spec);

/// Nothing if the job exports no models.
[[nodiscard]] std::optional<ModelExportOptions> export_options(const api::GnnJobSpec& spec);

/// Takes the metric of an epoch: its validation's, if it has one, otherwise that of training.
void set_metric(const progress::EpochReport& epoch, ModelFacts& facts);

/// The name of a model's type: "GCN".
[[nodiscard]] std::string_view name_of(api::ModelType type);

/// The metadata of a model's file; docs/training.md has the keys.
[[nodiscard]] interop::Metadata metadata_of(
    const api::Model& model, interop::Library names, const ModelFacts& facts
);

/// Adds the present embeddings of the link's ends under their keys, as copies.
void add_embeddings(
    const embedding::Embeddings& embeddings,
    const api::EdgeType& link,
    std::vector<checkpoint::CheckpointTensor>& tensors
);

/// A model's tensors by their keys in the state_dict, with its embeddings: copies on the CPU.
/// Errors: Configuration if the library has no such model.
[[nodiscard]] Result<std::vector<checkpoint::CheckpointTensor>> exported_tensors(
    const torch::nn::Module& module,
    const embedding::Embeddings* embeddings,
    const ModelExportOptions& options
);

/// The models that a job exports. Rank 0 writes. Every call is collective, and what fails on rank 0
/// fails on all.
class ModelExport {
 public:
  /// Makes the folder, if its parent exists, and writes a file there for a moment.
  /// Errors: Configuration naming field and path if that fails, or if the library has no such model;
  /// PeerLost on the other ranks.
  [[nodiscard]] static Result<ModelExport> open(
      ModelExportOptions options,
      std::shared_ptr<comm::Communicator> communicator,
      std::shared_ptr<checkpoint::FileOps> files
  );

  /// Writes <folder>/<name>.safetensors durably, in place of one that is there. Gives its path.
  /// Errors: Io naming the path, e.g. a full disk; then a file that was there is as before.
  [[nodiscard]] Result<std::string> write(
      const std::string& name,
      const torch::nn::Module& module,
      const embedding::Embeddings* embeddings,
      const ModelFacts& facts
  );

 private:
  ModelExport(
      ModelExportOptions options,
      std::shared_ptr<comm::Communicator> communicator,
      std::shared_ptr<checkpoint::FileOps> files
  );

  ModelExportOptions options_;
  std::filesystem::path folder_;
  std::shared_ptr<comm::Communicator> communicator_;
  std::shared_ptr<checkpoint::FileOps> files_;
};

}  // namespace gnn::training
