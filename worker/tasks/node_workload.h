#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/comm/rank_groups.h"
#include "worker/graph/dataset.h"
#include "worker/loader/batch_source.h"
#include "worker/loader/mini_batch.h"
#include "worker/nn/models/model.h"
#include "worker/sampling/device/device_graph.h"
#include "worker/tasks/device_rows.h"
#include "worker/tasks/node_batches.h"
#include "worker/tasks/part_inputs.h"
#include "worker/tasks/task_batches.h"
#include "worker/training/predictions.h"
#include "worker/training/workload.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gnn::tasks {

struct NodeWorkloadOptions {
  api::Sampling sampling;
  api::Training training;
  at::Tensor class_weights{};  ///< class_weights_of(), on any device
  c10::Device device{c10::kCPU};
  int64_t num_cpus = 1;  ///< that this rank may keep busy
  /// Where nodes read data from each other; nothing: each reads the whole data set.
  std::optional<PartitionedData> partitioned{};
  /// The GPU that gathers feature rows; nothing: the host does.
  std::optional<DeviceFeatures> device_features{};
  /// Where `device` reads the graph, which samples it; null: CPUs do.
  std::shared_ptr<sampling::device::DeviceGraph> device_graph{};
  /// Where predictions go, opened, and the nodes chosen; null: there are none.
  std::shared_ptr<training::Predictions> predictions{};
  std::string config_hash{};  ///< tasks::config_hash()
};

/// Mini-batches of sampled neighbourhoods of one homogeneous graph, evaluated by sampling or layer
/// by layer.
class NodeWorkload final : public training::Workload {
 public:
  /// Collective where data is partitioned.
  /// Errors: Configuration and Data, naming the field or the item; those of PartInputs::open().
  [[nodiscard]] static Result<std::unique_ptr<NodeWorkload>> create(
      graph::Dataset dataset,
      std::shared_ptr<nn::NodeModel> model,
      comm::RankGroups groups,
      const NodeWorkloadOptions& options
  );

  /// Batches from anywhere; evaluated by sampling alone.
  [[nodiscard]] static Result<std::unique_ptr<NodeWorkload>> create(
      std::unique_ptr<TaskBatches<loader::MiniBatch>> batches,
      std::shared_ptr<nn::NodeModel> model,
      comm::RankGroups groups,
      const NodeWorkloadOptions& options
  );

  [[nodiscard]] torch::nn::Module& module() override { return *model_; }
  [[nodiscard]] const std::vector<int64_t>& batches_per_rank() const override {
    return batches_->batches_per_rank();
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
  [[nodiscard]] std::optional<progress::RemoteData> remote_data() const override {
    return batches_->remote_data();
  }
  [[nodiscard]] bool has(training::Part part) const override { return batches_->has(part); }
  [[nodiscard]] Result<training::Evaluated> evaluate(
      training::Part part, const training::EvaluationContext& context
  ) override;
  [[nodiscard]] Result<training::EvaluatedParts> evaluate_parts(
      const std::vector<training::Part>& parts, const training::EvaluationContext& context
  ) override;
  [[nodiscard]] bool predicts() const override { return options_.predictions != nullptr; }
  [[nodiscard]] Result<bool> predict(const training::EvaluationContext& context) override;

  /// What the training that ended with this report has read from other nodes; nothing where the whole
  /// data set is here. Collective.
  [[nodiscard]] Result<std::optional<progress::RemoteSummary>> remote_summary(
      const progress::FinalReport& report
  ) const {
    return batches_->remote_summary(report.run_steps);
  }
  /// Returns once no rank needs this one's data any more. Collective.
  [[nodiscard]] Status leave() { return batches_->leave(); }

 private:
  NodeWorkload(
      std::unique_ptr<TaskBatches<loader::MiniBatch>> batches,
      std::shared_ptr<nn::NodeModel> model,
      comm::RankGroups groups,
      const NodeWorkloadOptions& options
  );

  Result<training::Evaluated> evaluate_sampled(
      training::Part part, const training::EvaluationContext& context
  );
  Result<training::EvaluatedParts> evaluate_layer_wise(
      const std::vector<training::Part>& parts, const training::EvaluationContext& context
  );

  std::shared_ptr<nn::NodeModel> model_;
  comm::RankGroups groups_;
  NodeWorkloadOptions options_;
  std::shared_ptr<const NodeBatches> data_;  // null: batches come from elsewhere
  std::unique_ptr<TaskBatches<loader::MiniBatch>> batches_;
  std::unique_ptr<loader::BatchSource<loader::MiniBatch>> train_;
  progress::DataPath past_epochs_;            // the source counts from its epoch's start
  std::optional<loader::MiniBatch> current_;  // what next_batch() gave last
};

}  // namespace gnn::tasks
