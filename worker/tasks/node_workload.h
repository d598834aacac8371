#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/comm/rank_groups.h"
#include "worker/graph/dataset.h"
#include "worker/loader/node_loader.h"
#include "worker/nn/models/model.h"
#include "worker/tasks/part_inputs.h"
#include "worker/training/workload.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace gnn::tasks {

struct NodeWorkloadOptions {
  api::Sampling sampling;
  api::Training training;
  c10::Device device{c10::kCPU};
  int64_t num_cpus = 1;  ///< that this rank may keep busy
  /// Where nodes read data from each other; nothing: each reads the whole data set.
  std::optional<PartitionedData> partitioned{};
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

  [[nodiscard]] torch::nn::Module& module() override { return *model_; }
  [[nodiscard]] const std::vector<int64_t>& batches_per_rank() const override {
    return batches_per_rank_;
  }
  [[nodiscard]] Status start_epoch(int64_t epoch, int64_t first_batch) override;
  [[nodiscard]] Result<std::optional<training::BatchSize>> next_batch() override;
  [[nodiscard]] training::Scores forward() override;
  [[nodiscard]] at::Tensor loss(const training::Scores& scores) const override {
    return training::cross_entropy(scores);
  }
  [[nodiscard]] int64_t count_correct(const training::Scores& scores) const override {
    return training::count_correct(scores);
  }
  [[nodiscard]] progress::DataPath data_path() const override;
  [[nodiscard]] progress::MemoryByOwner memory() const override;
  [[nodiscard]] bool has(training::Part part) const override { return ids_of(part).numel() > 0; }
  [[nodiscard]] Result<training::Evaluated> evaluate(
      training::Part part, const training::EvaluationContext& context
  ) override;
  [[nodiscard]] Result<training::EvaluatedParts> evaluate_parts(
      const std::vector<training::Part>& parts, const training::EvaluationContext& context
  ) override;

  /// What training has read from other nodes, in so many steps; nothing where the whole data set is
  /// here. Collective.
  [[nodiscard]] Result<std::optional<progress::RemoteSummary>> remote_summary(int64_t steps) const {
    if (parts_ == nullptr) return std::optional<progress::RemoteSummary>();
    return parts_->remote_summary(steps);
  }
  /// Returns once no rank needs this one's data any more. Collective.
  [[nodiscard]] Status leave() { return parts_ == nullptr ? Status() : parts_->leave(); }

 private:
  NodeWorkload(
      graph::Dataset dataset,
      std::shared_ptr<nn::NodeModel> model,
      comm::RankGroups groups,
      const NodeWorkloadOptions& options
  );

  [[nodiscard]] api::Sharding sharding() const {
    return options_.training.sharding.value_or(api::Sharding::Slice);
  }
  [[nodiscard]] const at::Tensor& ids_of(training::Part part) const;
  [[nodiscard]] Result<sampling::core::ItemSamplerOptions> deal_part(
      training::Part part, const sampling::core::ItemSamplerOptions& options
  ) const;
  [[nodiscard]] loader::NodeLoaderOptions loader_options() const;
  [[nodiscard]] const std::vector<int64_t>& fanout_of(training::Part part) const;
  Status open_parts();
  [[nodiscard]] Result<std::unique_ptr<loader::NodeLoader>> make_loader(
      const loader::NodeLoaderOptions& options, training::Part part, Use use
  ) const;
  Result<training::Evaluated> evaluate_sampled(
      training::Part part, const training::EvaluationContext& context
  );
  Result<training::EvaluatedParts> evaluate_layer_wise(
      const std::vector<training::Part>& parts, const training::EvaluationContext& context
  );

  graph::Dataset dataset_;
  std::shared_ptr<nn::NodeModel> model_;
  comm::RankGroups groups_;
  NodeWorkloadOptions options_;
  std::unique_ptr<PartInputs> parts_;                 // null: the whole data set is here
  std::shared_ptr<loader::FeatureFetcher> features_;  // null with parts_
  std::vector<int64_t> batches_per_rank_;
  std::unique_ptr<loader::NodeLoader> train_loader_;
  progress::DataPath past_epochs_;            // the loader counts from its epoch's start
  std::optional<loader::MiniBatch> current_;  // what next_batch() gave last
};

}  // namespace gnn::tasks
