#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/comm/rank_groups.h"
#include "worker/embedding/embeddings.h"
#include "worker/graph/dataset.h"
#include "worker/loader/link_loader.h"
#include "worker/nn/models/link_model.h"
#include "worker/tasks/link_graph.h"
#include "worker/tasks/link_split.h"
#include "worker/tasks/part_inputs.h"
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
};

/// The links of a data set, as they are split.
struct SplitDataset {
  graph::Dataset dataset;  ///< with links, and all edge types that the model reads
  LinkSplit split;
};

/// Where the model's inputs come from.
struct LinkInputs {
  /// Of the node types without features that the model reads; nothing if there are none.
  std::optional<embedding::Embeddings> embeddings;
  /// Per node type: the place of its table in `embeddings`, or -1: its features.
  std::vector<int64_t> tables;
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

  [[nodiscard]] torch::nn::Module& module() override { return *model_; }
  [[nodiscard]] embedding::Embeddings* embeddings() override {
    return inputs_.embeddings ? &*inputs_.embeddings : nullptr;
  }
  [[nodiscard]] const std::vector<int64_t>& batches_per_rank() const override {
    return batches_per_rank_;
  }
  [[nodiscard]] Status start_epoch(int64_t epoch, int64_t first_batch) override;
  [[nodiscard]] Result<std::optional<training::BatchSize>> next_batch() override;
  /// Logits float [P + N], and labels of the same shape.
  [[nodiscard]] training::Scores forward() override;
  [[nodiscard]] at::Tensor loss(const training::Scores& scores) const override;
  [[nodiscard]] int64_t count_correct(const training::Scores& scores) const override;
  [[nodiscard]] progress::DataPath data_path() const override;
  [[nodiscard]] progress::MemoryByOwner memory() const override;
  [[nodiscard]] bool has(training::Part part) const override;
  [[nodiscard]] Result<training::Evaluated> evaluate(
      training::Part part, const training::EvaluationContext& context
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
  LinkWorkload(
      SplitDataset data,
      std::shared_ptr<nn::LinkModel> model,
      LinkInputs inputs,
      comm::RankGroups groups,
      const LinkWorkloadOptions& options
  );

  [[nodiscard]] bool ranks() const {
    return options_.training.evaluation.metric == api::Metric::MRR;
  }
  [[nodiscard]] api::Sharding sharding() const {
    return options_.training.sharding.value_or(api::Sharding::Slice);
  }
  [[nodiscard]] const at::Tensor& ids_of(training::Part part) const;
  [[nodiscard]] Result<sampling::core::ItemSamplerOptions> deal_links(
      const at::Tensor& pairs, const sampling::core::ItemSamplerOptions& options
  ) const;
  [[nodiscard]] Result<sampling::core::ItemSamplerOptions> training_items() const;
  [[nodiscard]] TrainingItems training_links() const;
  [[nodiscard]] const std::vector<int64_t>& fanout_of(training::Part part) const;
  [[nodiscard]] sampling::NeighborSamplerOptions sampling_of(training::Part part) const;
  [[nodiscard]] std::vector<sampling::Relation> relations_of(training::Part part) const;
  [[nodiscard]] Result<std::shared_ptr<sampling::Sampler>> sampler_for(training::Part part, Use use)
      const;
  [[nodiscard]] Result<std::vector<shards::SamplerSpec>> part_samplers(const shards::Part& part);
  Status open_parts();
  [[nodiscard]] Result<std::shared_ptr<const sampling::core::NegativeSampler>> negative_sampler(
  ) const;
  [[nodiscard]] loader::LinkLoaderOptions loader_options() const;
  [[nodiscard]] Result<std::unique_ptr<loader::LinkLoader>> training_loader() const;
  [[nodiscard]] Result<std::unique_ptr<loader::LinkLoader>> evaluation_loader(training::Part part);
  [[nodiscard]] Result<loader::LinkItems> held_out(training::Part part);
  Status make_features();
  Status check_model();
  [[nodiscard]] at::Tensor score(const loader::LinkMiniBatch& batch);
  [[nodiscard]] at::Tensor input_of(size_t type, const loader::LinkMiniBatch& batch);
  [[nodiscard]] training::LinkScores held_out_scores(const loader::LinkMiniBatch& batch);

  SplitDataset data_;
  std::shared_ptr<nn::LinkModel> model_;
  LinkInputs inputs_;
  comm::RankGroups groups_;
  LinkWorkloadOptions options_;
  LinkGraph graph_;
  std::vector<int64_t> reads_;         // the edge types in graph_
  std::unique_ptr<PartInputs> parts_;  // null: the whole data set is here
  std::vector<std::shared_ptr<loader::FeatureFetcher>> features_;  // of training batches
  std::vector<std::shared_ptr<loader::FeatureFetcher>> evaluation_features_;
  std::vector<int64_t> batches_per_rank_;
  std::unique_ptr<loader::LinkLoader> train_loader_;
  progress::DataPath past_epochs_;                // the loader counts from its epoch's start
  std::optional<loader::LinkMiniBatch> current_;  // what next_batch() gave last
};

}  // namespace gnn::tasks
