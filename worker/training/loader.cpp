#include "worker/training/loader.h"

#include "common/bounded_queue.h"
#include "common/out_of_memory.h"
#include "common/thread_pool.h"
#include "worker/sampling/cpu/gather.h"
#include "worker/training/prefetch.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace gnn::training {

namespace {

using Instant = std::chrono::steady_clock::time_point;

double seconds_since(Instant start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Status check_ids(const at::Tensor& ids, const char* name, int64_t limit) {
  TORCH_CHECK(
      ids.defined() && ids.dim() == 1 && ids.scalar_type() == at::kLong && ids.is_contiguous() &&
          ids.is_cpu(),
      name,
      " must be a contiguous int64 vector on the CPU"
  );
  const std::span values(ids.const_data_ptr<int64_t>(), static_cast<size_t>(ids.numel()));
  const int64_t bad = sampling::cpu::first_out_of_range(values, limit);
  if (bad < 0) return {};
  return fail(
      ErrorKind::Data,
      std::string(name) + "[" + std::to_string(bad) + "]: expected an id in [0, " +
          std::to_string(limit) + "), found " + std::to_string(values[static_cast<size_t>(bad)])
  );
}

// Copies to the device; on a GPU by way of pinned memory, so that the copy runs beside the host.
class DeviceCopy {
 public:
  explicit DeviceCopy(at::Device device) : device_(device) {}

  void move(MiniBatch& batch) const {
    move(batch.seeds);
    move(batch.x);
    move(batch.y);
    for (at::Tensor& ids : batch.subgraph.node_ids) move(ids);
    for (auto& layer : batch.subgraph.blocks) {
      for (graph::Block& block : layer) {
        move(block.indptr);
        move(block.indices);
        move(block.edge_ids);
      }
    }
  }

 private:
  void move(at::Tensor& tensor) const {
    if (!tensor.defined()) return;
    if (device_.is_cuda()) tensor = tensor.pin_memory();
    tensor = tensor.to(device_, /*non_blocking=*/device_.is_cuda());
  }

  at::Device device_;
};

}  // namespace

class NodeLoader::Impl {
 public:
  Impl(
      const NodeLoaderOptions& options,
      sampling::ItemSampler items,
      std::shared_ptr<sampling::Sampler> sampler,
      at::Tensor seeds,
      std::shared_ptr<FeatureFetcher> features,
      std::shared_ptr<LocalFeatureFetcher> labels
  )
      : options_(options),
        items_(items),
        sampler_(std::move(sampler)),
        seeds_(std::move(seeds)),
        features_(std::move(features)),
        labels_(std::move(labels)),
        pool_(static_cast<size_t>(options.num_threads)) {}

  ~Impl() { end_epoch(); }

  [[nodiscard]] const sampling::ItemSampler& items() const { return items_; }

  Status start_epoch(int64_t epoch, int64_t first_batch) {
    const int64_t num_batches = items_.num_batches();
    if (epoch < 0 || first_batch < 0 || first_batch > num_batches) {
      return fail(
          ErrorKind::Configuration,
          "an epoch starts at a batch in [0, " + std::to_string(num_batches) + "], found " +
              std::to_string(first_batch) + " of epoch " + std::to_string(epoch)
      );
    }
    end_epoch();
    add([](LoaderStats& stats) { stats = {}; });
    auto run = std::make_shared<EpochRun>(items_.epoch(epoch), epoch, first_batch);
    if (options_.num_threads > 0) {
      run->prefetcher = std::make_unique<OrderedPrefetcher<MiniBatch>>(
          pool_,
          OrderedPrefetcher<MiniBatch>::Range{first_batch, num_batches},
          options_.num_threads + options_.prefetch,
          [this, each = run.get()](int64_t index) { return make(*each, index); }
      );
      if (!options_.device.is_cpu()) start_copier(*run);
    }
    const std::lock_guard lock(mutex_);
    run_ = std::move(run);
    return {};
  }

  Result<std::optional<MiniBatch>> next() {
    const std::shared_ptr<EpochRun> run = current();
    if (run == nullptr) return fail(ErrorKind::Cancelled, "no epoch is under way");
    if (run->prefetcher == nullptr) return make_next(*run);
    if (run->prepared == nullptr) return run->prefetcher->next();
    const auto start = std::chrono::steady_clock::now();
    auto batch = run->prepared->pop();
    add([&](LoaderStats& stats) { stats.loader_stall_seconds += seconds_since(start); });
    return batch;
  }

  void end_epoch() {
    std::shared_ptr<EpochRun> run;
    {
      const std::lock_guard lock(mutex_);
      run.swap(run_);
      if (run != nullptr) stats_ = with_stalls(stats_, *run);
    }
    if (run == nullptr) return;
    if (run->prepared != nullptr) run->prepared->cancel();
    if (run->prefetcher != nullptr) run->prefetcher->stop();
    if (run->copier.joinable()) run->copier.join();
  }

  [[nodiscard]] LoaderStats stats() const {
    LoaderStats stats;
    {
      const std::lock_guard lock(mutex_);
      stats = run_ == nullptr ? stats_ : with_stalls(stats_, *run_);
    }
    stats.sampler_bytes =
        sampler_->state_bytes_per_thread() * std::max<int64_t>(1, options_.num_threads);
    return stats;
  }

 private:
  struct EpochRun {
    EpochRun(sampling::EpochItems items_of_epoch, int64_t number, int64_t first)
        : items(std::move(items_of_epoch)), epoch(number), next_batch(first) {}

    sampling::EpochItems items;
    int64_t epoch;
    int64_t next_batch;  // of a loader without threads
    std::unique_ptr<OrderedPrefetcher<MiniBatch>> prefetcher;
    std::unique_ptr<BoundedQueue<MiniBatch>> prepared;  // on the device, where that is not the CPU
    std::thread copier;
  };

  [[nodiscard]] std::shared_ptr<EpochRun> current() const {
    const std::lock_guard lock(mutex_);
    return run_;
  }

  template <class Change>
  void add(const Change& change) {
    const std::lock_guard lock(mutex_);
    change(stats_);
  }

  static LoaderStats with_stalls(LoaderStats stats, const EpochRun& run) {
    if (run.prefetcher == nullptr) return stats;
    const PrefetchStalls stalls = run.prefetcher->stalls();
    stats.consumer_stall_seconds = stalls.producer_seconds;
    // The prefetcher's reader is the copy to the device, where there is one.
    (run.prepared == nullptr ? stats.loader_stall_seconds : stats.copy_stall_seconds) =
        stalls.reader_seconds;
    return stats;
  }

  void start_copier(EpochRun& run) {
    run.prepared = std::make_unique<BoundedQueue<MiniBatch>>(
        static_cast<size_t>(std::max<int64_t>(1, options_.prefetch))
    );
    run.copier = std::thread([this, &run] {
      try {
        copy_all(run);
      } catch (const std::exception& error) {
        run.prepared->fail_with(copy_error(error, error.what()));
      }
    });
  }

  void copy_all(EpochRun& run) {
    while (true) {
      auto batch = run.prefetcher->next();
      if (!batch) return run.prepared->fail_with(std::move(batch).error());
      if (!batch->has_value()) return run.prepared->close();
      if (const Status copied = copy(**batch); !copied)
        return run.prepared->fail_with(copied.error());
      if (!run.prepared->push(std::move(**batch))) return;
    }
  }

  static Error copy_error(const std::exception& error, const std::string& what) {
    return {
        .kind = is_out_of_memory(error) ? ErrorKind::OutOfMemory : ErrorKind::Internal,
        .message = "copy to the device: " + what
    };
  }

  Result<std::optional<MiniBatch>> make_next(EpochRun& run) {
    if (run.next_batch == items_.num_batches()) return std::optional<MiniBatch>();
    const auto start = std::chrono::steady_clock::now();
    GNN_ASSIGN_OR_RETURN(MiniBatch batch, make(run, run.next_batch));
    GNN_RETURN_IF_ERROR(copy(batch));
    ++run.next_batch;
    add([&](LoaderStats& stats) { stats.loader_stall_seconds += seconds_since(start); });
    return std::optional<MiniBatch>(std::move(batch));
  }

  Status copy(MiniBatch& batch) {
    if (options_.device.is_cpu()) return {};
    const auto start = std::chrono::steady_clock::now();
    try {
      DeviceCopy(options_.device).move(batch);
    } catch (const c10::Error& error) {
      return tl::unexpected(copy_error(error, error.what_without_backtrace()));
    } catch (const std::exception& error) {
      return tl::unexpected(copy_error(error, error.what()));
    }
    add([&](LoaderStats& stats) { stats.copy_seconds += seconds_since(start); });
    return {};
  }

  Result<MiniBatch> make(const EpochRun& run, int64_t index) {
    MiniBatch batch;
    batch.batch_index = index;
    const std::span<const int64_t> items = run.items.batch(index);
    batch.seeds = at::empty({static_cast<int64_t>(items.size())}, at::kLong);
    const int64_t* const all_seeds = seeds_.const_data_ptr<int64_t>();
    std::transform(
        items.begin(),
        items.end(),
        batch.seeds.mutable_data_ptr<int64_t>(),
        [all_seeds](int64_t item) { return all_seeds[item]; }
    );

    const auto sample_start = std::chrono::steady_clock::now();
    const sampling::StreamPosition position{
        .seed = options_.items.seed,
        .epoch = static_cast<uint64_t>(run.epoch),
        .batch = static_cast<uint64_t>(run.items.stream(index))
    };
    GNN_ASSIGN_OR_RETURN(batch.subgraph, sampler_->submit({batch.seeds, position}).get());
    const double sample_seconds = seconds_since(sample_start);

    const auto fetch_start = std::chrono::steady_clock::now();
    std::future<Result<at::Tensor>> rows;
    if (features_ != nullptr) rows = features_->submit(batch.subgraph.node_ids.front());
    if (labels_ != nullptr) {
      GNN_ASSIGN_OR_RETURN(batch.y, labels_->fetch(batch.seeds));
    }
    if (features_ != nullptr) {
      GNN_ASSIGN_OR_RETURN(batch.x, rows.get());
    }
    const double fetch_seconds = seconds_since(fetch_start);

    add([&](LoaderStats& stats) {
      ++stats.batches;
      for (const int64_t edges : batch.subgraph.edges_per_hop.front()) stats.sampled_edges += edges;
      if (batch.x.defined()) stats.gathered_bytes += static_cast<int64_t>(batch.x.nbytes());
      stats.sample_seconds += sample_seconds;
      stats.fetch_seconds += fetch_seconds;
    });
    return batch;
  }

  const NodeLoaderOptions options_;
  const sampling::ItemSampler items_;
  const std::shared_ptr<sampling::Sampler> sampler_;
  const at::Tensor seeds_;
  const std::shared_ptr<FeatureFetcher> features_;
  const std::shared_ptr<LocalFeatureFetcher> labels_;
  mutable std::mutex mutex_;
  std::shared_ptr<EpochRun> run_;
  LoaderStats stats_;
  ThreadPool pool_;
};

Result<std::unique_ptr<NodeLoader>> NodeLoader::create(
    const NodeLoaderOptions& options,
    const graph::CscGraph& graph,
    const at::Tensor& seeds,
    std::shared_ptr<FeatureFetcher> features,
    const at::Tensor& labels
) {
  GNN_RETURN_IF_ERROR(check_ids(seeds, "seeds", graph.num_dst_nodes()));
  GNN_ASSIGN_OR_RETURN(auto sampler, sampling::NeighborSampler::create(options.sampling, graph));
  return create(
      options,
      std::make_shared<sampling::LocalSampler>(std::move(sampler)),
      seeds,
      std::move(features),
      labels
  );
}

Result<std::unique_ptr<NodeLoader>> NodeLoader::create(
    const NodeLoaderOptions& options,
    std::shared_ptr<sampling::Sampler> sampler,
    const at::Tensor& seeds,
    std::shared_ptr<FeatureFetcher> features,
    const at::Tensor& labels
) {
  if (options.num_threads < 0 || options.prefetch < 1) {
    return fail(
        ErrorKind::Configuration,
        "loader: expected num_threads >= 0 and prefetch >= 1, found " +
            std::to_string(options.num_threads) + " and " + std::to_string(options.prefetch)
    );
  }
  std::shared_ptr<LocalFeatureFetcher> label_rows;
  if (labels.defined()) {
    GNN_RETURN_IF_ERROR(check_ids(seeds, "seeds", labels.size(0)));
    GNN_ASSIGN_OR_RETURN(auto rows, LocalFeatureFetcher::create(labels));
    label_rows = std::make_shared<LocalFeatureFetcher>(std::move(rows));
  }
  sampling::ItemSamplerOptions item_options = options.items;
  item_options.num_items = seeds.numel();
  GNN_ASSIGN_OR_RETURN(auto items, sampling::ItemSampler::create(item_options));
  return std::unique_ptr<NodeLoader>(new NodeLoader(std::make_unique<Impl>(
      options, items, std::move(sampler), seeds, std::move(features), std::move(label_rows)
  )));
}

NodeLoader::NodeLoader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
NodeLoader::~NodeLoader() = default;

int64_t NodeLoader::num_batches() const {
  return impl_->items().num_batches();
}
int64_t NodeLoader::max_batches() const {
  return impl_->items().max_batches();
}
Status NodeLoader::start_epoch(int64_t epoch, int64_t first_batch) {
  return impl_->start_epoch(epoch, first_batch);
}
Result<std::optional<MiniBatch>> NodeLoader::next() {
  return impl_->next();
}
void NodeLoader::stop() {
  impl_->end_epoch();
}
LoaderStats NodeLoader::stats() const {
  return impl_->stats();
}

}  // namespace gnn::training
