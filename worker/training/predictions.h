#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/checkpoint/file_ops.h"
#include "worker/comm/communicator.h"
#include "worker/comm/rank_groups.h"
#include "worker/data/output_lock.h"
#include "worker/nn/models/model.h"
#include "worker/training/evaluator.h"
#include "worker/training/kept_layers.h"
#include "worker/training/layer_wise.h"
#include "worker/training/part_layer_wise.h"
#include "worker/training/workload.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gnn::training {

/// What spec.predictions asks for.
struct PredictionsOptions {
  std::string path{};                  ///< the folder
  std::vector<api::Output> outputs{};  ///< each once
  std::optional<std::string> nodes{};  ///< the file with their ids; nothing: all nodes
  /// How long a hidden layer must have taken to be kept for a restart.
  double worth_seconds = 60;
};

/// Nothing if the job predicts nothing.
[[nodiscard]] std::optional<PredictionsOptions> predictions_options(const api::GnnJobSpec& spec);

/// The files with what a model says of nodes: ids.npy (int64 [K], ascending), and for node n of it
/// row n of classes.npy (int64 [K]; -1 where a score is NaN), scores.npy and embeddings.npy (float32
/// [K, width]). Nodes that partitioning has renumbered have their original ids there. Rank 0 alone writes them; the others send
/// it their rows. Every call is collective, and what fails on rank 0 fails on all.
class Predictions {
 public:
  /// Makes the folder, if its parent exists, writes a file there for a moment, and takes the right to
  /// write there for as long as this object lives.
  /// Errors: Configuration naming field and path if that fails; Conflict while another process has that
  /// right; PeerLost on the other ranks.
  [[nodiscard]] static Result<Predictions> open(
      PredictionsOptions options,
      std::shared_ptr<comm::Communicator> communicator,
      std::shared_ptr<checkpoint::FileOps> files
  );

  /// Finds out which nodes, of so many in the whole graph.
  /// Errors: those of read_node_list(), naming field and path.
  [[nodiscard]] Status choose_nodes(int64_t num_nodes);

  /// What the rows depend on beside parameters and nodes.
  struct Inputs {
    nn::NodeModel& model;             ///< in evaluation mode
    std::vector<at::Tensor> parts{};  ///< whose accuracy is asked for
    /// int64 [N], of the nodes of a whole graph or of those that a part owns: their ids before they were
    /// renumbered. Undefined: they were not.
    at::Tensor original_ids{};
    std::string config{};  ///< of the model
    std::string dataset_digest{};
  };
  /// Writes the files durably, in place of those that are there: ids.npy comes last, so that a folder
  /// with it is whole. Returns the accuracies; nothing if the ranks agreed to stop, and then the files
  /// are as they were. Hidden layers that took long are kept in the folder until then, so that a job
  /// that starts again goes on from the last one.
  /// Precondition: choose_nodes(); gradients are off.
  /// Errors: Io naming the path, e.g. a full disk, where it can be before the pass.
  [[nodiscard]] Result<EvaluatedParts> write(
      const Inputs& inputs,
      const WholeGraph& whole,
      const comm::RankGroups& groups,
      const EvaluationContext& context,
      const LayerWiseOptions& options
  );
  /// The same from partitions, of which each rank's node has one.
  [[nodiscard]] Result<EvaluatedParts> write(
      const Inputs& inputs,
      const PartOfGraph& part,
      const comm::RankGroups& groups,
      const EvaluationContext& context,
      const PartInferenceOptions& options
  );

  /// How many nodes there are predictions of.
  [[nodiscard]] int64_t num_nodes() const { return nodes_.numel(); }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  Predictions(
      PredictionsOptions options,
      std::shared_ptr<comm::Communicator> communicator,
      std::shared_ptr<checkpoint::FileOps> files
  );

  // How rows come.
  struct Pass {
    int64_t feature_width = 0;
    std::string layout;  // of hidden layers' rows among ranks
    at::Tensor nodes;    // that this rank may have rows of, as the pass calls them
    /// The rows in the files of nodes that the pass gives; empty: they ascend over the ranks.
    std::function<at::Tensor(const at::Tensor& nodes)> places;
    std::function<Result<EvaluatedParts>(const AlsoWanted& also)> run;
  };

  [[nodiscard]] bool writes() const { return communicator_->rank() == 0; }
  [[nodiscard]] Status take_folder();
  // Says how many of the nodes have no class; adds up the ranks' numbers.
  [[nodiscard]] Status warn_of(int64_t unanswered) const;
  [[nodiscard]] bool has_embeddings() const;
  [[nodiscard]] KeptLayers kept_layers(const Inputs& inputs, const std::string& layout) const;
  // Names the nodes [first, first + N) of a pass by their original ids.
  void name_nodes(Pass& pass, int64_t first, const at::Tensor& original_ids) const;
  [[nodiscard]] Result<EvaluatedParts> write(
      const Inputs& inputs, const Pass& pass, const EvaluationContext& context
  );

  PredictionsOptions options_;
  std::filesystem::path folder_;
  std::shared_ptr<comm::Communicator> communicator_;
  std::shared_ptr<checkpoint::FileOps> files_;
  std::optional<data::OutputLock> lock_;  // on rank 0
  at::Tensor nodes_;                      // int64 [K], ascending
};

}  // namespace gnn::training
