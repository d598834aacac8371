#include "worker/training/evaluator.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>

namespace gnn::training {
namespace {

// Adds the counts of all ranks, and agrees on stopping: nothing if any rank was asked to stop.
// Collective.
Result<Evaluated> reduce_counts(
    comm::Communicator& communicator, const progress::Accuracy& mine, const StopToken& stop
) {
  GNN_ASSIGN_OR_RETURN(
      const std::vector<double> sums,
      comm::all_reduce_sums(
          communicator,
          {static_cast<double>(mine.correct),
           static_cast<double>(mine.total),
           stop.requested() ? 1.0 : 0.0}
      )
  );
  if (sums[2] > 0) return Evaluated();
  return progress::Accuracy{
      .correct = static_cast<int64_t>(sums[0]), .total = static_cast<int64_t>(sums[1])
  };
}

// The ids that are in the range.
at::Tensor within(const at::Tensor& ids, const NodeRange& range) {
  return ids.masked_select(ids.ge(range.first).logical_and_(ids.lt(range.end())));
}

}  // namespace

Result<Evaluated> evaluate_batches(
    const NextScores& next,
    int64_t batches,
    comm::Communicator& communicator,
    const EvaluationContext& context
) {
  progress::Accuracy counts;
  const int64_t most = std::min(batches, context.max_batches.value_or(batches));
  for (int64_t batch = 0; batch < most && !context.stop.requested(); ++batch) {
    GNN_ASSIGN_OR_RETURN(const std::optional<Scores> scores, next());
    if (!scores) break;
    counts.correct += count_correct(*scores);
    counts.total += scores->labels.size(0);
    context.progress.on_mark();
    context.progress.on_evaluation(
        {.done = batch + 1, .total = most, .unit = progress::EvaluationUnit::Batches}
    );
  }
  return reduce_counts(communicator, counts, context.stop);
}

Result<EvaluatedParts> evaluate_layer_wise(
    nn::NodeModel& model,
    const WholeGraph& whole,
    const std::vector<at::Tensor>& parts,
    comm::Communicator& communicator,
    const EvaluationContext& context,
    const LayerWiseOptions& options
) {
  LayerWiseInference inference(model, whole, communicator, context, options);
  const NodeRange own = inference.own();
  std::vector<at::Tensor> own_parts;
  own_parts.reserve(parts.size());
  for (const at::Tensor& ids : parts) own_parts.push_back(within(ids, own));
  const at::Tensor wanted = std::get<0>(at::_unique2(at::cat(own_parts)));
  const at::Tensor correct = at::zeros({own.count}, at::kBool);
  const auto take = [&](const at::Tensor& nodes, const at::Tensor& logits) {
    const at::Tensor labels = whole.labels.index_select(0, nodes);
    correct.index_copy_(0, nodes - own.first, logits.argmax(1).eq(labels));
  };
  GNN_ASSIGN_OR_RETURN(const bool done, inference.run(wanted, take));
  if (!done) return EvaluatedParts();

  std::vector<double> counts;
  for (const at::Tensor& ids : own_parts) {
    const at::Tensor right = correct.index_select(0, ids - own.first).sum();
    counts.push_back(static_cast<double>(right.item<int64_t>()));
    counts.push_back(static_cast<double>(ids.numel()));
  }
  GNN_ASSIGN_OR_RETURN(const std::vector<double> sums, comm::all_reduce_sums(communicator, counts));
  std::vector<progress::Accuracy> accuracies;
  for (size_t i = 0; i < sums.size(); i += 2) {
    accuracies.push_back(
        {.correct = static_cast<int64_t>(sums[i]), .total = static_cast<int64_t>(sums[i + 1])}
    );
  }
  return accuracies;
}

}  // namespace gnn::training
