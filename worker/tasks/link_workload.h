#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/comm/rank_groups.h"
#include "worker/embedding/embeddings.h"
#include "worker/graph/dataset.h"
#include "worker/loader/batch_source.h"
#include "worker/loader/link_batch_maker.h"
#include "worker/nn/models/link_model.h"
#include "worker/sampling/device/device_graph.h"
#include "worker/tasks/device_rows.h"
#include "worker/tasks/link_batches.h"
#include "worker/tasks/part_inputs.h"
#include "worker/tasks/task_batches.h"
#include "worker/training/link_evaluator.h"
#include "worker/training/workload.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace gnn::tasks {

struct LinkWorkloadOptions {
  api::Sampling sampling;
  api::Training training;
  uint64_t split_seed = 0;  ///< also of the negatives to rank against
  c10::Device device{c10::kCPU};
  int64_t num_cpus = 1;  ///< that this rank may keep busy
  /// Where nodes read data from each other; nothing: each reads the whole data set.
  std::optional<PartitionedData> partitioned{};
  /// The GPU that gathers feature rows; nothing: the host does.
  std::optional<DeviceFeatures> device_features{};
  /// Where `device` reads the graph, which samples it; null: CPUs do.
  std::shared_ptr<sampling::device::DeviceGraph> device_graph{};
};

/// Where the model's inputs come from.
struct LinkInputs {
  /// Of the node types without features that the model reads; nothing if there are none.
  std::optional<embedding::Embeddings> embeddings;
  /// Per node type: the place of its table in `embeddings`, or -1: its features.
  std::vector<int64_t> tables;
};

/// By node type: whether the model reads its feature rows.
[[nodiscard]] std::vector<bool> types_with_features(const LinkInputs& inputs);

/// The types of a link's ends, as the model's inputs are numbered.
struct LinkTypes {
  int64_t source_type = 0;
  int64_t destination_type = 0;
};

/// Mini-batches of links and drawn negatives with the sampled neighbourhoods of their ends, evaluated
/// by sampling on links that were held out.
class LinkWorkload final : public training::Workload {
 public:
  /// Checks with one batch that each parameter of the model gets a gradient. Collective.
  /// Errors: Configuration and Data, naming the field or the item; those of PartInputs::open().
  [[nodiscard]] static Result<std::unique_ptr<LinkWorkload>> create(
      SplitDataset data,
      std::shared_ptr<nn::LinkModel> model,
      LinkInputs inputs,
      comm::RankGroups groups,
      const LinkWorkloadOptions& options
  );

  /// The same with batches from anywhere.
  [[nodiscard]] static Result<std::unique_ptr<LinkWorkload>> create(
      std::unique_ptr<TaskBatches<loader::LinkMiniBatch>> batches,
      const LinkTypes& ends,
      std::shared_ptr<nn::LinkModel> model,
      LinkInputs inputs,
      comm::RankGroups groups,
      const LinkWorkloadOptions& options
  );

  [[nodiscard]] torch::nn::Module& module() override { return *model_; }
  [[nodiscard]] embedding::Embeddings* embeddings() override {
    return inputs_.embeddings ? &*inputs_.embeddings : nullptr;
  }
  [[nodiscard]] const std::vector<int64_t>& batches_per_rank() const override {
    return batches_->batches_per_rank();
  }
  [[nodiscard]] Status start_epoch(int64_t epoch, int64_t first_batch) override;
  [[nodiscard]] Result<std::optional<training::BatchSize>> next_batch() override;
  /// Logits float [P + N], and labels of the same shape.
  [[nodiscard]] training::Scores forward() override;
  [[nodiscard]] at::Tensor loss(const training::Scores& scores) const override;
  [[nodiscard]] at::Tensor count_correct(const training::Scores& scores) const override;
  [[nodiscard]] progress::DataPath data_path() const override;
  [[nodiscard]] progress::MemoryByOwner memory() const override;
  [[nodiscard]] std::optional<progress::RemoteData> remote_data() const override {
    return batches_->remote_data();
  }
  [[nodiscard]] bool has(training::Part part) const override { return batches_->has(part); }
  [[nodiscard]] Result<training::Evaluated> evaluate(
      training::Part part, const training::EvaluationContext& context
  ) override;

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
  LinkWorkload(
      std::unique_ptr<TaskBatches<loader::LinkMiniBatch>> batches,
      const LinkTypes& ends,
      std::shared_ptr<nn::LinkModel> model,
      LinkInputs inputs,
      comm::RankGroups groups,
      const LinkWorkloadOptions& options
  );

  [[nodiscard]] bool ranks() const {
    return options_.training.evaluation.metric == api::Metric::MRR;
  }
  Status check_model();
  [[nodiscard]] at::Tensor score(const loader::LinkMiniBatch& batch);
  [[nodiscard]] at::Tensor input_of(size_t type, const loader::LinkMiniBatch& batch);
  [[nodiscard]] training::LinkScores held_out_scores(const loader::LinkMiniBatch& batch);

  const LinkTypes ends_;
  std::shared_ptr<nn::LinkModel> model_;
  LinkInputs inputs_;
  comm::RankGroups groups_;
  LinkWorkloadOptions options_;
  std::unique_ptr<TaskBatches<loader::LinkMiniBatch>> batches_;
  std::unique_ptr<loader::BatchSource<loader::LinkMiniBatch>> train_;
  progress::DataPath past_epochs_;                // the source counts from its epoch's start
  std::optional<loader::LinkMiniBatch> current_;  // what next_batch() gave last
};

}  // namespace gnn::tasks
