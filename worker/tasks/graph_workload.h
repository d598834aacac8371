#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/comm/communicator.h"
#include "worker/graph/dataset.h"
#include "worker/loader/graph_loader.h"
#include "worker/nn/models/model.h"
#include "worker/training/workload.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace gnn::tasks {

struct GraphWorkloadOptions {
  api::Training training;
  at::Tensor class_weights{};  ///< class_weights_of(), on any device
  c10::Device device{c10::kCPU};
  int64_t num_cpus = 1;  ///< that this rank may keep busy
};

/// Block-diagonal mini-batches of a set of small graphs. Evaluation is sharded over the ranks too.
class GraphWorkload final : public training::Workload {
 public:
  /// `dataset` has graphs, node features and a split of graph numbers.
  /// Errors: Configuration and Data, naming the field.
  [[nodiscard]] static Result<std::unique_ptr<GraphWorkload>> create(
      graph::Dataset dataset,
      std::shared_ptr<nn::GraphModel> model,
      std::shared_ptr<comm::Communicator> communicator,
      const GraphWorkloadOptions& options
  );

  [[nodiscard]] torch::nn::Module& module() override { return *model_; }
  [[nodiscard]] const std::vector<int64_t>& batches_per_rank() const override {
    return batches_per_rank_;
  }
  [[nodiscard]] Status start_epoch(int64_t epoch, int64_t first_batch) override;
  [[nodiscard]] Result<std::optional<training::BatchSize>> next_batch() override;
  [[nodiscard]] training::Scores forward() override;
  [[nodiscard]] at::Tensor loss(const training::Scores& scores) const override {
    return training::cross_entropy(scores, options_.class_weights);
  }
  [[nodiscard]] std::optional<double> loss_weight(const training::Scores& scores) const override {
    return training::weight_of(scores, options_.class_weights);
  }
  [[nodiscard]] at::Tensor count_correct(const training::Scores& scores) const override {
    return training::count_correct(scores);
  }
  [[nodiscard]] progress::DataPath data_path() const override;
  [[nodiscard]] progress::MemoryByOwner memory() const override;
  [[nodiscard]] bool has(training::Part part) const override { return ids_of(part).numel() > 0; }
  [[nodiscard]] Result<training::Evaluated> evaluate(
      training::Part part, const training::EvaluationContext& context
  ) override;

 private:
  GraphWorkload(
      graph::Dataset dataset,
      std::shared_ptr<nn::GraphModel> model,
      std::shared_ptr<comm::Communicator> communicator,
      const GraphWorkloadOptions& options
  );

  [[nodiscard]] const at::Tensor& ids_of(training::Part part) const;
  [[nodiscard]] Result<std::unique_ptr<loader::GraphLoader>> make_loader(
      const sampling::core::ItemSamplerOptions& items, const at::Tensor& ids
  ) const;
  [[nodiscard]] training::Scores scores_of(const loader::GraphMiniBatch& batch) const;

  graph::Dataset dataset_;
  std::shared_ptr<nn::GraphModel> model_;
  std::shared_ptr<comm::Communicator> communicator_;
  GraphWorkloadOptions options_;
  std::vector<int64_t> batches_per_rank_;
  std::unique_ptr<loader::GraphLoader> train_loader_;
  progress::DataPath past_epochs_;                 // the loader counts from its epoch's start
  std::optional<loader::GraphMiniBatch> current_;  // what next_batch() gave last
};

}  // namespace gnn::tasks
