#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/loader/batch_pipeline.h"
#include "worker/loader/batch_source.h"
#include "worker/progress/progress_sink.h"
#include "worker/progress/remote_data.h"
#include "worker/tasks/data_path.h"
#include "worker/tasks/items.h"
#include "worker/tasks/part_inputs.h"

#include <c10/core/Device.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace gnn::tasks {

/// What a rank's model is trained and evaluated on, wherever it is made.
/// Threads: one.
template <class Batch>
class TaskBatches {
 public:
  virtual ~TaskBatches() = default;

  /// How many training batches each rank has in an epoch.
  [[nodiscard]] virtual const std::vector<int64_t>& batches_per_rank() const = 0;
  /// Whether `part` has any item; the same on every rank.
  [[nodiscard]] virtual bool has(api::Part part) const = 0;
  /// This rank's batches of `part`, which this outlives.
  [[nodiscard]] virtual Result<std::unique_ptr<loader::BatchSource<Batch>>> open(
      api::Part part, Use use
  ) = 0;
  /// What it keeps in memory beside the state of samplers.
  [[nodiscard]] virtual progress::MemoryByOwner memory() const { return {}; }
  /// What this rank has read from other nodes so far; nothing where the whole data set is here.
  [[nodiscard]] virtual std::optional<progress::RemoteData> remote_data() const {
    return std::nullopt;
  }
  /// What training has read from other nodes, in so many steps; nothing where the whole data set is
  /// here. Collective.
  [[nodiscard]] virtual Result<std::optional<progress::RemoteSummary>> remote_summary(
      int64_t /*steps*/
  ) const {
    return std::optional<progress::RemoteSummary>();
  }
  /// Returns once no rank needs this one's data any more. Collective.
  [[nodiscard]] virtual Status leave() { return {}; }
};

/// How a rank's batches are made ahead of it; `host_gathers`: their feature rows by CPUs.
[[nodiscard]] inline loader::PipelineOptions pipeline_options(
    const api::Sampling& sampling,
    bool partitioned,
    int64_t num_cpus,
    c10::Device device,
    bool host_gathers = true
) {
  int64_t threads = loading_threads(num_cpus, device);
  if (sampling.device == api::SamplingDevice::CUDA && !host_gathers)
    threads = std::min(threads, kWaitingThreads);
  return {
      .num_threads = sampling.num_threads.value_or(threads),
      .concurrency = partitioned ? sampling.concurrency.value_or(kDefaultConcurrency) : 1,
      .prefetch = sampling.prefetch.value_or(kDefaultPrefetch),
      .channel_bytes = sampling.channel_bytes(),
      .device = device,
  };
}

/// Batches that the rank makes itself. `Data` (NodeBatches, LinkBatches) can make those of any rank.
template <class Data>
class LoadedBatches final : public TaskBatches<typename Data::Batch> {
 public:
  using Source = loader::BatchSource<typename Data::Batch>;

  /// Errors: those of check_training_batches() and Data::items().
  [[nodiscard]] static Result<std::unique_ptr<LoadedBatches>> create(
      std::shared_ptr<const Data> data, int64_t rank, const loader::PipelineOptions& options
  ) {
    GNN_ASSIGN_OR_RETURN(const auto items, data->items(api::Part::Train, Use::Training));
    GNN_ASSIGN_OR_RETURN(auto batches, batches_of_ranks(items));
    GNN_RETURN_IF_ERROR(check_training_batches(batches, data->dataset().name, items));
    return std::unique_ptr<LoadedBatches>(
        new LoadedBatches(std::move(data), rank, options, std::move(batches))
    );
  }

  [[nodiscard]] const std::vector<int64_t>& batches_per_rank() const override {
    return batches_per_rank_;
  }
  [[nodiscard]] bool has(api::Part part) const override { return data_->has(part); }
  [[nodiscard]] Result<std::unique_ptr<Source>> open(api::Part part, Use use) override {
    typename Data::LoaderOptions options;
    options.num_threads = options_.num_threads;
    options.concurrency = options_.concurrency;
    options.prefetch = options_.prefetch;
    options.channel_bytes = options_.channel_bytes;
    options.device = options_.device;
    GNN_ASSIGN_OR_RETURN(options.items, data_->items(part, use));
    options.items.rank = rank_;
    GNN_ASSIGN_OR_RETURN(auto maker, data_->maker(part, use, loader::under_way(options_)));
    GNN_ASSIGN_OR_RETURN(auto loader, Data::Loader::create(options, std::move(maker)));
    return std::unique_ptr<Source>(std::move(loader));
  }
  [[nodiscard]] progress::MemoryByOwner memory() const override { return data_->memory(); }
  [[nodiscard]] std::optional<progress::RemoteData> remote_data() const override {
    if (data_->parts() == nullptr) return std::nullopt;
    return data_->parts()->remote_data();
  }
  [[nodiscard]] Result<std::optional<progress::RemoteSummary>> remote_summary(int64_t steps
  ) const override {
    if (data_->parts() == nullptr) return std::optional<progress::RemoteSummary>();
    return data_->parts()->remote_summary(steps);
  }
  [[nodiscard]] Status leave() override {
    return data_->parts() == nullptr ? Status() : data_->parts()->leave();
  }

 private:
  LoadedBatches(
      std::shared_ptr<const Data> data,
      int64_t rank,
      const loader::PipelineOptions& options,
      std::vector<int64_t> batches_per_rank
  )
      : data_(std::move(data)),
        rank_(rank),
        options_(options),
        batches_per_rank_(std::move(batches_per_rank)) {}

  const std::shared_ptr<const Data> data_;
  const int64_t rank_;
  const loader::PipelineOptions options_;
  const std::vector<int64_t> batches_per_rank_;
};

}  // namespace gnn::tasks
