#pragma once

#include "worker/loader/batch_source.h"
#include "worker/loader/mini_batch.h"
#include "worker/nn/models/model.h"
#include "worker/training/scores.h"
#include "worker/training/workload.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace gnn::training {

/// A model of nodes on batches from anywhere, without parts to evaluate.
class BatchWorkload final : public Workload {
 public:
  using Batches = std::unique_ptr<loader::BatchSource<loader::MiniBatch>>;

  BatchWorkload(
      Batches batches, std::shared_ptr<nn::NodeModel> model, at::ScalarType inputs = at::kFloat
  )
      : batches_(std::move(batches)),
        per_rank_{batches_->num_batches()},
        model_(std::move(model)),
        inputs_(inputs) {}

  [[nodiscard]] torch::nn::Module& module() override { return *model_; }
  [[nodiscard]] const std::vector<int64_t>& batches_per_rank() const override { return per_rank_; }
  [[nodiscard]] Status start_epoch(int64_t epoch, int64_t first_batch) override {
    return batches_->start_epoch(epoch, first_batch);
  }
  [[nodiscard]] Result<std::optional<BatchSize>> next_batch() override {
    current_.reset();
    GNN_ASSIGN_OR_RETURN(current_, batches_->next());
    if (!current_) return std::optional<BatchSize>();
    return BatchSize{
        .items = current_->seeds.size(0),
        .sampled_edges = current_->subgraph.num_edges(),
        .input_nodes = current_->subgraph.node_ids.front().size(0),
    };
  }
  [[nodiscard]] Scores forward() override {
    return training::scores_of(*model_, *current_, inputs_);
  }
  [[nodiscard]] at::Tensor loss(const Scores& scores) const override {
    return training::cross_entropy(scores);
  }
  [[nodiscard]] at::Tensor count_correct(const Scores& scores) const override {
    return training::count_correct(scores);
  }
  [[nodiscard]] bool has(Part part) const override { return part == Part::Train; }
  [[nodiscard]] Result<Evaluated> evaluate(
      Part /*part*/, const EvaluationContext& /*context*/
  ) override {
    return Evaluated();
  }

 private:
  Batches batches_;
  std::vector<int64_t> per_rank_;
  std::shared_ptr<nn::NodeModel> model_;
  at::ScalarType inputs_;
  std::optional<loader::MiniBatch> current_;
};

}  // namespace gnn::training
