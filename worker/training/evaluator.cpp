#include "worker/training/evaluator.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>

namespace gnn::training {
namespace {

// Correct answers among those seen.
struct Counts {
  int64_t correct = 0;
  int64_t total = 0;
};

// Adds the counts of all ranks, and agrees on stopping: nothing if any rank was asked to stop.
// Collective.
Result<Evaluated> reduce_counts(
    comm::Communicator& communicator, const Counts& mine, const StopToken& stop
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
  return progress::accuracy(static_cast<int64_t>(sums[0]), static_cast<int64_t>(sums[1]));
}

}  // namespace

void take_listed(
    const at::Tensor& list, const at::Tensor& nodes, const at::Tensor& rows, const TakeRows& take
) {
  const NodeRange places = places_of(list, span_of(nodes));
  if (places.count == 0) return;
  if (places.count == nodes.numel()) return take(nodes, rows);
  const at::Tensor listed = list.narrow(0, places.first, places.count);
  take(listed, rows.index_select(0, at::searchsorted(nodes, listed)));
}

Result<Evaluated> evaluate_batches(
    const NextScores& next,
    int64_t batches,
    comm::Communicator& communicator,
    const EvaluationContext& context
) {
  Counts counts;
  AnswerCounter answers(context.answers);
  const int64_t most = std::min(batches, context.max_batches.value_or(batches));
  for (int64_t batch = 0; batch < most && !context.stop.requested(); ++batch) {
    GNN_ASSIGN_OR_RETURN(const std::optional<Scores> scores, next());
    if (!scores) break;
    counts.correct += count_correct(*scores).item<int64_t>();
    counts.total += scores->labels.size(0);
    if (answers.counts()) answers.add(scores->labels, answers_of(scores->logits));
    context.progress.on_mark();
    context.progress.on_evaluation(
        {.done = batch + 1, .total = most, .unit = progress::EvaluationUnit::Batches}
    );
  }
  GNN_ASSIGN_OR_RETURN(
      const Evaluated evaluated, reduce_counts(communicator, counts, context.stop)
  );
  if (evaluated) GNN_RETURN_IF_ERROR(answers.finish(communicator));
  return evaluated;
}

at::Tensor places_to_count(
    const AnswerRequest& answers, const std::vector<at::Tensor>& places, int64_t num_places
) {
  if (answers.classes == 0 || !answers.part) return {};
  const at::Tensor asked = at::zeros({num_places}, at::kBool);
  return asked.index_fill_(0, places[*answers.part], true);
}

Result<EvaluatedParts> accuracies_of(
    const at::Tensor& correct,
    const std::vector<at::Tensor>& mine,
    const std::vector<at::Tensor>& parts,
    comm::Communicator& communicator
) {
  std::vector<double> counts;
  for (const at::Tensor& places : mine)
    counts.push_back(static_cast<double>(correct.index_select(0, places).sum().item<int64_t>()));
  GNN_ASSIGN_OR_RETURN(const std::vector<double> sums, comm::all_reduce_sums(communicator, counts));
  std::vector<progress::Measure> measures;
  for (size_t part = 0; part < parts.size(); ++part)
    measures.push_back(progress::accuracy(static_cast<int64_t>(sums[part]), parts[part].numel()));
  return measures;
}

at::Tensor wanted_nodes(
    const std::vector<at::Tensor>& parts, const AlsoWanted& also, int64_t num_nodes
) {
  const at::Tensor in_some = at::zeros({num_nodes}, at::kBool);
  for (const at::Tensor& ids : parts) in_some.index_fill_(0, ids, true);
  if (also.nodes.defined()) in_some.index_fill_(0, also.nodes, true);
  return in_some.nonzero().squeeze(1).contiguous();
}

Result<EvaluatedParts> evaluate_layer_wise(
    nn::NodeModel& model,
    const WholeGraph& whole,
    const std::vector<at::Tensor>& parts,
    const comm::RankGroups& groups,
    const EvaluationContext& context,
    const LayerWiseOptions& options,
    const AlsoWanted& also
) {
  LayerWiseInference inference(model, whole, groups, context, options);
  const int64_t num_nodes = whole.graph.num_destinations();
  // Of the nodes whose logits this rank gets.
  const at::Tensor correct = at::zeros({num_nodes}, at::kBool);
  AnswerCounter counter(context.answers);
  const at::Tensor asked = places_to_count(context.answers, parts, num_nodes);
  const auto take = [&](const at::Tensor& nodes, const at::Tensor& logits) {
    if (also.logits) take_listed(also.nodes, nodes, logits, also.logits);
    if (parts.empty()) return;
    const at::Tensor labels = whole.labels.index_select(0, nodes);
    const at::Tensor answers = answers_of(logits);
    correct.index_copy_(0, nodes, answers.eq(labels));
    if (asked.defined())
      counter.add(labels, answers.masked_fill(asked.index_select(0, nodes).logical_not(), -1));
  };
  LayerWiseExtras extras{.kept = also.kept};
  if (also.embeddings)
    extras.embeddings = [&also](const at::Tensor& nodes, const at::Tensor& rows) {
      take_listed(also.nodes, nodes, rows, also.embeddings);
    };
  GNN_ASSIGN_OR_RETURN(
      const bool done, inference.run(wanted_nodes(parts, also, num_nodes), take, extras)
  );
  if (!done) return EvaluatedParts();
  if (parts.empty()) return std::vector<progress::Measure>();
  if (asked.defined()) GNN_RETURN_IF_ERROR(counter.finish(*groups.all));
  return accuracies_of(correct, parts, parts, *groups.all);
}

}  // namespace gnn::training
