#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/loader/batch_pipeline.h"
#include "worker/progress/served_data.h"
#include "worker/rpc/event_loop.h"
#include "worker/sampling/core/item_sampler.h"
#include "worker/servers/holders.h"
#include "worker/servers/served_batches.h"
#include "worker/tasks/data_description.h"
#include "worker/tasks/dealt_batches.h"
#include "worker/tasks/items.h"
#include "worker/tasks/task.h"
#include "worker/tasks/task_batches.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace gnn::tasks {

/// The sampling servers of a job, as one of its ranks asks them.
/// Threads: one.
class JobServers {
 public:
  /// Connects, and waits until each part of the data has a server. Collective.
  /// Errors: those of servers::Holders::open(); Data if servers have other data or another job than
  /// this rank, or than other ranks have found; Configuration naming the key's file, or if nobody
  /// tells where servers are.
  [[nodiscard]] static Result<std::shared_ptr<JobServers>> open(
      const api::GnnJobSpec& spec, TaskContext& context
  );
  ~JobServers();
  JobServers(const JobServers&) = delete;
  JobServers& operator=(const JobServers&) = delete;

  [[nodiscard]] const DataDescription& data() const { return data_; }
  [[nodiscard]] const std::shared_ptr<servers::Holders>& holders() const { return holders_; }

 private:
  JobServers() : loop_(std::make_shared<rpc::EventLoop>()) {}

  const std::shared_ptr<rpc::EventLoop> loop_;
  std::shared_ptr<servers::Holders> holders_;
  std::shared_ptr<progress::ServedMeter> meter_;
  DataDescription data_;
};

/// How a job deals the items of a part: item_options() or link_item_options().
using ItemOptionsOf = sampling::core::ItemSamplerOptions (*)(
    const api::Training& training, const Ranks& ranks, api::Part part, Use use
);

struct ServedOptions {
  ItemOptionsOf items = nullptr;
  api::Training training;
  int64_t partitions = 1;
  Ranks ranks{};
  int64_t rank = 0;
  loader::PipelineOptions pipeline{};  ///< how many batches are asked for at a time
  /// Of answers that are on their way to this rank: what a server keeps for its only client.
  int64_t max_bytes_in_flight = int64_t{128} << 20;
};

/// Batches that servers make. The rank knows how they are dealt, so that it has the counts of worker
/// mode, and names each one.
template <class Batch>
class AskedBatches final : public TaskBatches<Batch> {
 public:
  using Source = loader::BatchSource<Batch>;

  /// Errors: those of check_training_batches() and with_counts().
  [[nodiscard]] static Result<std::unique_ptr<AskedBatches>> create(
      std::shared_ptr<JobServers> servers, const ServedOptions& options
  ) {
    std::unique_ptr<AskedBatches> made(new AskedBatches(std::move(servers), options));
    GNN_ASSIGN_OR_RETURN(const auto items, made->items(api::Part::Train, Use::Training));
    GNN_ASSIGN_OR_RETURN(made->batches_per_rank_, batches_of_ranks(items));
    GNN_RETURN_IF_ERROR(
        check_training_batches(made->batches_per_rank_, made->servers_->data().name, items)
    );
    return made;
  }

  [[nodiscard]] const std::vector<int64_t>& batches_per_rank() const override {
    return batches_per_rank_;
  }
  [[nodiscard]] bool has(api::Part part) const override {
    for (const int64_t count : counts(part)) {
      if (count > 0) return true;
    }
    return false;
  }
  [[nodiscard]] Result<std::unique_ptr<Source>> open(api::Part part, Use use) override {
    GNN_ASSIGN_OR_RETURN(const auto dealt, items(part, use));
    GNN_ASSIGN_OR_RETURN(const auto sampler, sampling::core::ItemSampler::create(dealt));
    GNN_ASSIGN_OR_RETURN(
        auto source,
        servers::ServedBatches<Batch>::create(
            {.num_batches = sampler.num_batches(),
             .request_of =
                 [sampler, part, use, rank = options_.rank](int64_t epoch, int64_t index) {
                   return request_of(
                       sampler,
                       {.of = part, .use = use, .epoch = epoch, .rank = rank, .index = index}
                   );
                 },
             .under_way = std::max<int64_t>(1, options_.pipeline.num_threads) *
                          options_.pipeline.concurrency,
             .prefetch = options_.pipeline.prefetch,
             .channel_bytes = options_.pipeline.channel_bytes,
             .max_bytes_in_flight = options_.max_bytes_in_flight,
             .device = options_.pipeline.device},
            servers_->holders()
        )
    );
    return std::unique_ptr<Source>(std::move(source));
  }

 private:
  AskedBatches(std::shared_ptr<JobServers> servers, const ServedOptions& options)
      : servers_(std::move(servers)), options_(options) {}

  [[nodiscard]] const std::vector<int64_t>& counts(api::Part part) const {
    return servers_->data().items.at(static_cast<size_t>(part));
  }
  [[nodiscard]] Result<sampling::core::ItemSamplerOptions> items(api::Part part, Use use) const {
    GNN_ASSIGN_OR_RETURN(
        auto dealt,
        with_counts(
            options_.items(options_.training, options_.ranks, part, use),
            counts(part),
            sharding_of(options_.training),
            options_.partitions,
            options_.ranks
        )
    );
    dealt.rank = options_.rank;
    return dealt;
  }

  const std::shared_ptr<JobServers> servers_;
  const ServedOptions options_;
  std::vector<int64_t> batches_per_rank_;
};

/// The options of a job's rank.
[[nodiscard]] ServedOptions served_options(
    const api::GnnJobSpec& spec, const TaskContext& context, ItemOptionsOf items
);

}  // namespace gnn::tasks
