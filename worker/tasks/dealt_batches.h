#pragma once

#include "common/api/gnn_job.h"
#include "common/executor.h"
#include "common/guarded.h"
#include "common/result.h"
#include "worker/loader/epoch.h"
#include "worker/sampling/core/item_sampler.h"
#include "worker/servers/batch_maker.h"
#include "worker/servers/batch_request.h"
#include "worker/tasks/items.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>

namespace gnn::tasks {

/// A batch of a rank, among those of a part of the split.
struct BatchName {
  api::Part of = api::Part::Train;
  Use use = Use::Training;
  int64_t epoch = 0;
  int64_t rank = 0;
  int64_t index = 0;
};

/// How a batch is asked for: what the deal says of it beside its name, so that both ends see whether
/// they deal alike.
/// Precondition: the rank has it.
[[nodiscard]] servers::BatchRequest request_of(
    const sampling::core::ItemSampler& sampler, const BatchName& name
);

/// Errors: Data unless the request is one of request_of(), of a batch that its rank has, and of items
/// of `partition` (-1: of any).
[[nodiscard]] Status check_request(
    const sampling::core::ItemSampler& sampler,
    const servers::BatchRequest& request,
    int64_t partition
);

/// The orders of the last few epochs, each shuffled once for all ranks that share it.
/// Threads: any; who asks for an order that is being made waits for it.
class EpochOrders {
 public:
  explicit EpochOrders(sampling::core::ItemSampler sampler) : sampler_(std::move(sampler)) {}

  [[nodiscard]] const sampling::core::ItemSampler& sampler() const { return sampler_; }
  [[nodiscard]] std::shared_ptr<const sampling::core::EpochOrder> order(int64_t rank, int64_t epoch)
      const;

 private:
  // Ranks are in one epoch, or the last of them ends one while the first begins the next.
  static constexpr size_t kMostOrders = 2;
  struct Entry {
    int64_t partition = 0;
    int64_t epoch = 0;
    std::shared_ptr<const sampling::core::EpochOrder> order;
  };

  const sampling::core::ItemSampler sampler_;
  mutable Guarded<std::deque<Entry>> entries_;  // the last used one at the end
};

/// Makes a server's batches, of any rank, as they are dealt. `Data`: NodeBatches or LinkBatches.
template <class Data>
class DealtBatches final : public servers::BatchMaker<typename Data::Batch> {
 public:
  using Done = typename servers::BatchMaker<typename Data::Batch>::Done;

  /// `partition`: whose items it takes; of other rules than Owner it takes all.
  DealtBatches(std::shared_ptr<const Data> data, int64_t partition)
      : data_(std::move(data)), partition_(partition) {}

  void make(const servers::BatchRequest& request, const Executor& executor, Done done) override {
    const auto deal = deal_of(request.of, request.use);
    if (!deal) return done(tl::unexpected(deal.error()));
    const EpochOrders& orders = (*deal)->orders;
    if (const Status fits = check_request(orders.sampler(), request, partition_); !fits)
      return done(tl::unexpected(fits.error()));
    const auto batch = orders.sampler().batch_of(
        *orders.order(request.rank, request.epoch), request.rank, request.index
    );
    const loader::BatchPlace place{
        .items = batch.items,
        .position =
            {.seed = orders.sampler().options().seed,
             .epoch = static_cast<uint64_t>(request.epoch),
             .batch = static_cast<uint64_t>(batch.stream)},
        .index = request.index
    };
    (*deal)->maker->make(place, executor, std::move(done));
  }

 private:
  struct Deal {
    Deal(
        const sampling::core::ItemSampler& sampler, std::shared_ptr<const typename Data::Maker> made
    )
        : orders(sampler), maker(std::move(made)) {}

    const EpochOrders orders;
    const std::shared_ptr<const typename Data::Maker> maker;
  };
  using Deals = std::map<std::pair<api::Part, Use>, std::shared_ptr<const Deal>>;

  Result<std::shared_ptr<const Deal>> deal_of(api::Part part, Use use) {
    const auto deals = deals_.lock();
    // An evaluation's negatives may be many: no longer than until training goes on.
    if (use == Use::Training) {
      std::erase_if(*deals, [](const auto& each) { return each.first.second == Use::Evaluation; });
    }
    if (const auto found = deals->find({part, use}); found != deals->end()) return found->second;
    GNN_ASSIGN_OR_RETURN(const auto items, data_->items(part, use));
    GNN_ASSIGN_OR_RETURN(const auto sampler, sampling::core::ItemSampler::create(items));
    GNN_ASSIGN_OR_RETURN(auto maker, data_->maker(part, use));
    auto made = std::make_shared<const Deal>(sampler, std::move(maker));
    deals->emplace(std::pair(part, use), made);
    return std::shared_ptr<const Deal>(std::move(made));
  }

  const std::shared_ptr<const Data> data_;
  const int64_t partition_;
  Guarded<Deals> deals_;
};

}  // namespace gnn::tasks
