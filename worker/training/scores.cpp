#include "worker/training/scores.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/functional/loss.h>

#include <vector>

namespace gnn::training {

at::ScalarType input_type(const api::Training& training) {
  return training.precision == api::Precision::BFloat16 ? at::kBFloat16 : at::kFloat;
}

Scores scores_of(nn::NodeModel& model, const loader::MiniBatch& batch, at::ScalarType inputs) {
  std::vector<graph::Block> blocks;
  blocks.reserve(batch.subgraph.blocks.size());
  for (const std::vector<graph::Block>& layer : batch.subgraph.blocks)
    blocks.push_back(layer.front());
  return {.logits = model.forward(batch.x.to(inputs), blocks), .labels = batch.y};
}

at::Tensor cross_entropy(const Scores& scores, const at::Tensor& class_weights) {
  return torch::nn::functional::cross_entropy(
      scores.logits,
      scores.labels,
      torch::nn::functional::CrossEntropyFuncOptions().weight(class_weights)
  );
}

std::optional<double> weight_of(const Scores& scores, const at::Tensor& class_weights) {
  if (!class_weights.defined()) return std::nullopt;
  const at::NoGradGuard no_grad;
  return class_weights.index_select(0, scores.labels).sum(at::kDouble).item<double>();
}

at::Tensor answers_of(const at::Tensor& logits) {
  const at::NoGradGuard no_grad;
  const auto [highest, classes] = logits.max(1);  // NaN where there is one
  return classes.masked_fill(highest.isnan(), -1);
}

at::Tensor count_correct(const Scores& scores) {
  return answers_of(scores.logits).eq(scores.labels).sum();
}

}  // namespace gnn::training
