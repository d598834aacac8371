#include "common/api/defaults.h"

namespace gnn::api {

void apply_defaults(GnnJobSpec& spec) {
  switch (spec.model.type) {
    case ModelType::GraphSAGE:
      if (!spec.model.graph_sage) spec.model.graph_sage.emplace();
      break;
    case ModelType::GCN:
      if (!spec.model.gcn) spec.model.gcn.emplace();
      break;
    case ModelType::GIN:
      if (!spec.model.gin) spec.model.gin.emplace();
      break;
  }
  Training& training = spec.training;
  if (!training.sharding) {
    training.sharding =
        spec.task.type == TaskType::NodeClassification ? Sharding::Slice : Sharding::Interleave;
  }
  Split& split = spec.dataset.split;
  if (split.type != SplitType::Provided && !split.seed) split.seed = training.seed;
  if (!training.evaluation.parts) training.evaluation.parts = std::vector{Part::Validation};
  if (training.evaluation.mode == EvaluationMode::Sampled && !training.evaluation.fanout &&
      spec.sampling) {
    training.evaluation.fanout = spec.sampling->fanout;
  }
}

}  // namespace gnn::api
