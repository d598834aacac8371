#pragma once

#include "common/result.h"
#include "worker/comm/communicator.h"
#include "worker/comm/rank_groups.h"
#include "worker/nn/models/model.h"
#include "worker/training/layer_wise.h"
#include "worker/training/scores.h"
#include "worker/training/workload.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

namespace gnn::training {

/// Scores the next batch of this rank; nothing after the last.
using NextScores = std::function<Result<std::optional<Scores>>()>;

/// Accuracy on the `batches` of `next`, of which each rank has its share, or on the first
/// `context.max_batches` of each. Collective.
/// Precondition: the model is in evaluation mode, gradients are off.
[[nodiscard]] Result<Evaluated> evaluate_batches(
    const NextScores& next,
    int64_t batches,
    comm::Communicator& communicator,
    const EvaluationContext& context
);

/// The accuracy on each of `parts`, of which each rank knows `correct` (bool [N]) at the places `mine`
/// (int64 [K] for each part; false where another rank knows). Collective.
[[nodiscard]] Result<EvaluatedParts> accuracies_of(
    const at::Tensor& correct,
    const std::vector<at::Tensor>& mine,
    const std::vector<at::Tensor>& parts,
    comm::Communicator& communicator
);

/// What an exact evaluation gives of nodes beside their accuracy.
struct AlsoWanted {
  at::Tensor nodes{};     ///< int64 [K], ascending; undefined: none
  TakeRows logits{};      ///< gets this rank's share of theirs, as LayerWiseInference gives them
  TakeRows embeddings{};  ///< gets those of its own range; may be empty
  KeptLayers* kept = nullptr;  ///< LayerWiseExtras::kept
};

/// The nodes of all parts, and the others, ascending, each once.
[[nodiscard]] at::Tensor wanted_nodes(
    const std::vector<at::Tensor>& parts, const AlsoWanted& also, int64_t num_nodes
);

/// Gives `take` the rows of those nodes that are in a list, too; nothing where none is.
/// Shapes: list int64 [K] and nodes int64 [N], N > 0, ascending, CPU; rows [N, width].
/// Precondition: of the list's nodes, those between the first and the last of `nodes` are among them.
void take_listed(
    const at::Tensor& list, const at::Tensor& nodes, const at::Tensor& rows, const TakeRows& take
);

/// Which places belong to the part whose answers are counted: bool [num_places]; undefined if none.
/// Shapes: each of `places` int64 [K].
[[nodiscard]] at::Tensor places_to_count(
    const AnswerRequest& answers, const std::vector<at::Tensor>& places, int64_t num_places
);

/// Accuracy, exact, on each of `parts`, all from one pass (LayerWiseInference); nothing if the ranks
/// agreed to stop. The last layer runs only over wanted_nodes(). Collective.
/// Shapes: each part int64 [K], ids of nodes; at least one part, or others that are wanted.
/// Precondition: as evaluate_batches().
/// Source: inference() of PyG's "Multi-GPU training in vanilla PyTorch", which runs on rank 0 alone
/// while the others wait.
[[nodiscard]] Result<EvaluatedParts> evaluate_layer_wise(
    nn::NodeModel& model,
    const WholeGraph& whole,
    const std::vector<at::Tensor>& parts,
    const comm::RankGroups& groups,
    const EvaluationContext& context,
    const LayerWiseOptions& options,
    const AlsoWanted& also = {}
);

}  // namespace gnn::training
