#pragma once

#include "common/bounded_queue.h"
#include "common/channel_room.h"
#include "common/executor.h"
#include "common/guarded.h"
#include "common/ordered_prefetcher.h"
#include "common/out_of_memory.h"
#include "common/result.h"
#include "common/stopwatch.h"
#include "common/thread_pool.h"
#include "worker/loader/device_copy.h"
#include "worker/loader/loader_stats.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace gnn::loader {

/// How far ahead of the reader batches are made, and where they are delivered.
struct PipelineOptions {
  int64_t num_threads = 1;  ///< batches computed at the same time; 0 = made inside next()
  /// Batches under way per thread: while one waits for other nodes, its thread works for the others.
  int64_t concurrency = 1;
  int64_t prefetch = 2;  ///< batches ready or under way beyond those
  /// Bytes of batches that lie ready; one beyond them counts as under way until the reader has taken
  /// others. Absent: `prefetch` alone bounds them.
  std::optional<int64_t> channel_bytes = {};
  at::Device device = at::kCPU;
};

/// The most batches that are sampled at the same time.
[[nodiscard]] inline int64_t under_way(const PipelineOptions& options) {
  return std::max<int64_t>(1, options.num_threads) * options.concurrency;
}

/// Bytes of what for_each_tensor() visits.
template <class Batch>
[[nodiscard]] int64_t bytes_of(Batch& batch) {
  int64_t bytes = 0;
  for_each_tensor(batch, [&bytes](const at::Tensor& tensor) {
    if (tensor.defined()) bytes += static_cast<int64_t>(tensor.nbytes());
  });
  return bytes;
}

/// Errors: Configuration naming what was found.
[[nodiscard]] inline Status check_pipeline(const PipelineOptions& options) {
  const int64_t channel_bytes = options.channel_bytes.value_or(1);
  if (options.num_threads >= 0 && options.concurrency >= 1 && options.prefetch >= 1 &&
      channel_bytes >= 1) {
    return {};
  }
  return fail(
      ErrorKind::Configuration,
      "loader: expected num_threads >= 0, concurrency, prefetch and channel_bytes >= 1, found " +
          std::to_string(options.num_threads) + ", " + std::to_string(options.concurrency) + ", " +
          std::to_string(options.prefetch) + " and " + std::to_string(channel_bytes)
  );
}

/// Makes the batches of an epoch on several threads, none of which waits for what a batch asks of
/// other nodes, copies them to the device by one more, beside what the reader computes there, and
/// hands them out in order. `for_each_tensor(Batch&, VisitTensor)` says what of a batch is
/// copied; it is found by argument-dependent lookup.
/// On a GPU the reader's current stream waits for the copies of a batch; the host does not. It is to
/// queue what reads the batch on that stream.
/// Threads: one reader; end_epoch(), add() and stats() on any.
template <class Batch>
class BatchPipeline {
 public:
  using Done = typename OrderedPrefetcher<Batch>::Done;
  /// Begins a batch; see OrderedPrefetcher::Start.
  using Make = typename OrderedPrefetcher<Batch>::Start;
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
  };

  /// Precondition: check_pipeline() accepts the options.
  explicit BatchPipeline(const PipelineOptions& options)
      : options_(options), pool_(static_cast<size_t>(options.num_threads)) {
    if (!options.device.is_cpu()) device_copy_.emplace(options.device);
  }
  ~BatchPipeline() { end_epoch(); }
  BatchPipeline(const BatchPipeline&) = delete;
  BatchPipeline& operator=(const BatchPipeline&) = delete;

  /// Ends the epoch under way, resets stats() and starts one of the batches in `range`. `make` and
  /// the tasks of its executor run on any of the pipeline's threads; what they refer to outlives the
  /// epoch.
  void start_epoch(Range range, Make make) {
    end_epoch();
    state_.lock()->stats = {};  // before the first thread adds to it
    auto epoch =
        std::make_shared<Epoch>(range, from_pinned() ? pinned(std::move(make)) : std::move(make));
    if (options_.num_threads > 0) {
      epoch->prefetcher = std::make_unique<OrderedPrefetcher<Batch>>(
          pool_,
          typename OrderedPrefetcher<Batch>::Range{range.begin, range.end},
          typename OrderedPrefetcher<Batch>::Limits{
              .window = under_way() + options_.prefetch,
              .under_way = under_way(),
              .bytes = options_.channel_bytes.value_or(ChannelRoom::kUnbounded),
              .bytes_of = &bytes_of<Batch>
          },
          epoch->make
      );
      if (device_copy_) start_copier(*epoch);
    }
    state_.lock()->epoch = std::move(epoch);
  }

  /// The next batch, or std::nullopt after the last.
  /// Errors: what making or copying the batch met; Cancelled after end_epoch().
  [[nodiscard]] Result<std::optional<Batch>> next() {
    const std::shared_ptr<Epoch> epoch = state_.lock()->epoch;
    if (epoch == nullptr) return fail(ErrorKind::Cancelled, "no epoch is under way");
    if (epoch->prefetcher == nullptr) return make_next(*epoch);
    if (epoch->copied == nullptr) return epoch->prefetcher->next();
    const auto start = std::chrono::steady_clock::now();
    auto copied = epoch->copied->pop();
    add([&](LoaderStats& stats) { stats.training_stall_seconds += seconds_since(start); });
    if (!copied) return tl::unexpected(std::move(copied).error());
    if (!copied->has_value()) return std::optional<Batch>();
    epoch->prefetcher->taken();
    return deliver(std::move(**copied));
  }

  /// Ends the epoch under way: a waiting next() returns Cancelled. No thread works for it any more
  /// when this returns, and replies to its batches' requests are dropped when they come.
  void end_epoch() {
    std::shared_ptr<Epoch> epoch;
    {
      const auto state = state_.lock();
      epoch.swap(state->epoch);
      if (epoch != nullptr) state->stats = with_stalls(state->stats, *epoch);
    }
    if (epoch == nullptr) return;
    if (epoch->copied != nullptr) epoch->copied->cancel();
    if (epoch->prefetcher != nullptr) epoch->prefetcher->stop();
    if (epoch->copier.joinable()) epoch->copier.join();
  }

  /// Calls change(LoaderStats&) with the stats to itself.
  template <class Change>
  void add(const Change& change) {
    change(state_.lock()->stats);
  }

  [[nodiscard]] LoaderStats stats() const {
    const auto state = state_.lock();
    return state->epoch == nullptr ? state->stats : with_stalls(state->stats, *state->epoch);
  }

  /// The most batches that are sampled at the same time.
  [[nodiscard]] int64_t under_way() const { return loader::under_way(options_); }

 private:
  // A batch whose copies are queued, and what comes after them.
  struct Copied {
    Batch batch;
    std::optional<c10::Event> copied;
  };

  struct Epoch {
    Epoch(Range range, Make make_batch)
        : make(std::move(make_batch)), next_index(range.begin), end(range.end) {}

    const Make make;
    int64_t next_index;  // of a pipeline without threads
    const int64_t end;
    std::unique_ptr<OrderedPrefetcher<Batch>> prefetcher;  // null without threads
    std::unique_ptr<BoundedQueue<Copied>> copied;          // null where the device is the CPU
    std::thread copier;                                    // from prefetcher to copied
  };

  struct State {
    std::shared_ptr<Epoch> epoch;  // null: none is under way
    LoaderStats stats;
  };

  static LoaderStats with_stalls(LoaderStats stats, const Epoch& epoch) {
    if (epoch.prefetcher == nullptr) return stats;
    const PrefetchStalls stalls = epoch.prefetcher->stalls();
    stats.sample_stall_seconds = stalls.producer_stall_seconds;
    stats.reply_stall_seconds = stalls.reply_stall_seconds;
    // The prefetcher's reader is the copier, where there is one.
    (epoch.copied == nullptr ? stats.training_stall_seconds : stats.copy_stall_seconds) =
        stalls.reader_stall_seconds;
    return stats;
  }

  void start_copier(Epoch& epoch) {
    epoch.copied = std::make_unique<BoundedQueue<Copied>>(static_cast<size_t>(options_.prefetch));
    epoch.copier = std::thread([this, &epoch] {
      try {
        copy_all(epoch);
      } catch (const std::exception& error) {
        epoch.copied->fail_with(copy_error(error, error.what()));
      }
    });
  }

  void copy_all(Epoch& epoch) {
    while (true) {
      auto batch = epoch.prefetcher->read_ahead();
      if (!batch) return epoch.copied->fail_with(std::move(batch).error());
      if (!batch->has_value()) return epoch.copied->close();
      auto copied = copy(std::move(**batch));
      if (!copied) return epoch.copied->fail_with(std::move(copied).error());
      if (!epoch.copied->push(std::move(*copied))) return;
    }
  }

  // A pipeline without threads.
  Result<std::optional<Batch>> make_next(Epoch& epoch) {
    if (epoch.next_index == epoch.end) return std::optional<Batch>();
    const auto start = std::chrono::steady_clock::now();
    GNN_ASSIGN_OR_RETURN(
        Batch batch, run_here<Batch>([&](const Executor& executor, const Done& done) {
          epoch.make(epoch.next_index, executor, done);
        })
    );
    ++epoch.next_index;
    if (!device_copy_) {
      add([&](LoaderStats& stats) { stats.training_stall_seconds += seconds_since(start); });
      return std::optional<Batch>(std::move(batch));
    }
    GNN_ASSIGN_OR_RETURN(Copied copied, copy(std::move(batch)));
    add([&](LoaderStats& stats) { stats.training_stall_seconds += seconds_since(start); });
    return deliver(std::move(copied));
  }

  [[nodiscard]] bool from_pinned() const { return device_copy_ && device_copy_->from_pinned(); }

  // `make` with its batches in pinned memory: the copying into it is the makers' work, not the
  // copier's, which would be the bottleneck.
  static Make pinned(Make make) {
    return [make = std::move(make)](int64_t index, const Executor& executor, const Done& done) {
      make(index, executor, [done](Result<Batch> batch) {
        if (batch) for_each_tensor(*batch, &pin);
        done(std::move(batch));
      });
    };
  }

  Result<Copied> copy(Batch batch) {
    const auto start = std::chrono::steady_clock::now();
    try {
      std::optional<c10::Event> copied = device_copy_->copy(batch);
      add([&](LoaderStats& stats) { stats.copy_seconds += seconds_since(start); });
      return Copied{.batch = std::move(batch), .copied = std::move(copied)};
    } catch (const c10::Error& error) {
      return tl::unexpected(copy_error(error, error.what_without_backtrace()));
    } catch (const std::exception& error) {
      return tl::unexpected(copy_error(error, error.what()));
    }
  }

  Result<std::optional<Batch>> deliver(Copied copied) const {
    try {
      device_copy_->deliver(copied.batch, copied.copied);
      return std::optional<Batch>(std::move(copied.batch));
    } catch (const std::exception& error) {
      return tl::unexpected(copy_error(error, error.what()));
    }
  }

  static Error copy_error(const std::exception& error, const std::string& what) {
    return {
        .kind = is_out_of_memory(error) ? ErrorKind::OutOfMemory : ErrorKind::Internal,
        .message = "copy to the device: " + what
    };
  }

  const PipelineOptions options_;
  std::optional<DeviceCopy> device_copy_;  // nothing where the device is the CPU
  mutable Guarded<State> state_;
  ThreadPool pool_;
};

}  // namespace gnn::loader
