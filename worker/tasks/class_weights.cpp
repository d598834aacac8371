#include "worker/tasks/class_weights.h"

#include <ATen/ATen.h>

#include <string>

namespace gnn::tasks {
namespace {

Result<at::Tensor> given(const std::vector<api::Decimal>& weights, int64_t num_classes) {
  if (std::ssize(weights) != num_classes) {
    return fail(
        ErrorKind::Configuration,
        "spec.training.classWeights.weights: expected " + std::to_string(num_classes) +
            " weights, one for each class of the data set, found " + std::to_string(weights.size())
    );
  }
  at::Tensor values = at::empty({num_classes}, at::kFloat);
  for (size_t i = 0; i < weights.size(); ++i)
    values.mutable_data_ptr<float>()[i] = static_cast<float>(weights[i].value());
  return values;
}

// As scikit-learn's class_weight="balanced".
at::Tensor balanced(const LabelledItems& items) {
  const at::Tensor labels = items.labels.index_select(0, items.training_items);
  const at::Tensor counts =
      at::bincount(labels.masked_select(labels.ge(0)), {}, items.num_classes).to(at::kDouble);
  const at::Tensor present = counts.gt(0);
  const at::Tensor weights = counts.sum() / (present.sum() * counts);
  return at::where(present, weights, at::zeros_like(weights)).to(at::kFloat);
}

}  // namespace

Result<at::Tensor> class_weights_of(
    const std::optional<api::ClassWeights>& weights, const LabelledItems& items
) {
  if (!weights) return at::Tensor();
  if (weights->type == api::ClassWeighting::Given)
    return given(weights->weights, items.num_classes);
  GNN_ASSERT(items.labels.defined(), "validation refuses Balanced where labels lie elsewhere");
  return balanced(items);
}

}  // namespace gnn::tasks
