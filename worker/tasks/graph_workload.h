#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/distributed/comm/communicator.h"
#include "worker/graph/dataset.h"
#include "worker/nn/models/model.h"
#include "worker/sampling/item_sampler.h"
#include "worker/tasks/graph_batch.h"
#include "worker/training/workload.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace gnn::tasks {

struct GraphWorkloadOptions {
  api::Training training;
  c10::Device device{c10::kCPU};
};

/// Block-diagonal mini-batches of a set of small graphs. Evaluation is sharded over the ranks too.
class GraphWorkload final : public training::Workload {
 public:
  /// `dataset` has graphs and a split of graph numbers. Errors: Configuration and Data, naming
  /// the field.
  [[nodiscard]] static Result<std::unique_ptr<GraphWorkload>> create(
      graph::Dataset dataset,
      std::shared_ptr<nn::GraphModel> model,
      std::shared_ptr<comm::Communicator> world,
      const GraphWorkloadOptions& options
  );

  [[nodiscard]] torch::nn::Module& module() override { return *model_; }
  [[nodiscard]] const std::vector<int64_t>& batches_per_rank() const override {
    return batches_per_rank_;
  }
  [[nodiscard]] Status start_epoch(int64_t epoch, int64_t first_batch) override;
  [[nodiscard]] Result<std::optional<training::BatchSize>> next_batch() override;
  [[nodiscard]] training::Scores forward() override;
  [[nodiscard]] training::DataPath data_path() const override {
    return {.feature_bytes = feature_bytes_};
  }
  [[nodiscard]] training::MemoryByOwner memory() const override;
  [[nodiscard]] bool has(training::Part part) const override { return ids_of(part).numel() > 0; }
  [[nodiscard]] Result<training::Evaluated> evaluate(
      training::Part part, const training::Watch& watch
  ) override;

 private:
  GraphWorkload(
      graph::Dataset dataset,
      std::shared_ptr<nn::GraphModel> model,
      std::shared_ptr<comm::Communicator> world,
      const GraphWorkloadOptions& options,
      const sampling::ItemSampler& sampler
  );

  [[nodiscard]] const at::Tensor& ids_of(training::Part part) const;
  /// The graphs of `ids` at these places.
  [[nodiscard]] std::vector<int64_t> graphs_at(
      const at::Tensor& ids, std::span<const int64_t> places
  ) const;
  [[nodiscard]] training::Scores scores_of(const GraphBatch& batch);

  graph::Dataset dataset_;
  std::shared_ptr<nn::GraphModel> model_;
  std::shared_ptr<comm::Communicator> world_;
  GraphWorkloadOptions options_;
  sampling::ItemSampler sampler_;
  std::vector<int64_t> batches_per_rank_;
  std::optional<sampling::EpochItems> items_;
  int64_t next_batch_ = 0;
  std::vector<int64_t> batch_;  ///< graph ids
  int64_t feature_bytes_ = 0;   // gathered for training
};

}  // namespace gnn::tasks
