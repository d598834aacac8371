#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/comm/communicator.h"
#include "worker/training/workload.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace gnn::training {

/// What a model says of the links of a batch; higher scores are for likelier links.
/// Shapes: float [P] and [N], on any device; with the metric MRR negative is [P, K], each positive's
/// own. P and N may be 0.
struct LinkScores {
  at::Tensor positive;
  at::Tensor negative;
};

/// Splits scores by their labels, in order.
/// Shapes: scores and labels float [n], labels 1 or 0.
[[nodiscard]] LinkScores split_by_label(const at::Tensor& scores, const at::Tensor& labels);

/// Scores this rank's next batch; nothing after the last.
using NextLinkScores = std::function<Result<std::optional<LinkScores>>()>;

/// The metric of links as a Measure names it: "auc", "hits@10".
/// Precondition: not Accuracy.
[[nodiscard]] std::string link_metric_name(const api::Evaluation& evaluation);

/// The metric of `evaluation` (worker/training/measures.h), AUC where it names none, over the links
/// of all ranks together: of the `batches` of `next`, of which each rank has its share and may have
/// none, or of the first `context.max_batches` of each. Every rank gets the same bits, whatever
/// share each had; nothing if the ranks agreed to stop. The measure's count is of scores, or with
/// Hits and MRR of positives. Collective: the ranks exchange all scores at the end, with MRR only
/// counts.
/// Memory: about 8 bytes for each score of all ranks, on each rank; next to nothing with MRR.
/// Errors: those of `next`; Configuration on all ranks if a score is NaN; throws c10::Error where
/// shapes are not those of LinkScores.
/// Precondition: the model is in evaluation mode, gradients are off; the metric is not Accuracy.
[[nodiscard]] Result<Evaluated> evaluate_links(
    const NextLinkScores& next,
    int64_t batches,
    const api::Evaluation& evaluation,
    comm::Communicator& communicator,
    const EvaluationContext& context
);

}  // namespace gnn::training
