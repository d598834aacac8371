#include "worker/training/workload.h"

namespace gnn::training {

progress::Phase phase_of(Part part) {
  return part == Part::Test ? progress::Phase::Test : progress::Phase::Validate;
}

Result<EvaluatedParts> Workload::evaluate_parts(
    const std::vector<Part>& parts, const EvaluationContext& context
) {
  std::vector<progress::Measure> measures;
  for (const Part part : parts) {
    context.progress.on_phase(phase_of(part));
    EvaluationContext of_part = context;
    if (part == Part::Test) {
      of_part.max_batches.reset();
    } else {
      of_part.answers = {};
    }
    GNN_ASSIGN_OR_RETURN(const Evaluated evaluated, evaluate(part, of_part));
    if (!evaluated) return EvaluatedParts();
    measures.push_back(*evaluated);
  }
  return measures;
}

}  // namespace gnn::training
