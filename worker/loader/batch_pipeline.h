#pragma once

#include "common/bounded_queue.h"
#include "common/executor.h"
#include "common/guarded.h"
#include "common/ordered_prefetcher.h"
#include "common/out_of_memory.h"
#include "common/result.h"
#include "common/stopwatch.h"
#include "common/thread_pool.h"
#include "worker/loader/device_copy.h"
#include "worker/loader/loader_stats.h"

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
  at::Device device = at::kCPU;
};

/// Errors: Configuration naming what was found.
[[nodiscard]] inline Status check_pipeline(const PipelineOptions& options) {
  if (options.num_threads >= 0 && options.concurrency >= 1 && options.prefetch >= 1) return {};
  return fail(
      ErrorKind::Configuration,
      "loader: expected num_threads >= 0, concurrency >= 1 and prefetch >= 1, found " +
          std::to_string(options.num_threads) + ", " + std::to_string(options.concurrency) +
          " and " + std::to_string(options.prefetch)
  );
}

/// Makes the batches of an epoch on several threads, none of which waits for what a batch asks of
/// other nodes, copies them to the device on one more, and
/// hands them out in order. `move_tensors(Batch&, const DeviceCopy&)` says what of a batch is
/// copied; it is found by argument-dependent lookup.
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
      : options_(options), pool_(static_cast<size_t>(options.num_threads)) {}
  ~BatchPipeline() { end_epoch(); }
  BatchPipeline(const BatchPipeline&) = delete;
  BatchPipeline& operator=(const BatchPipeline&) = delete;

  /// Ends the epoch under way, resets stats() and starts one of the batches in `range`. `make` and
  /// the tasks of its executor run on any of the pipeline's threads; what they refer to outlives the
  /// epoch.
  void start_epoch(Range range, Make make) {
    end_epoch();
    state_.lock()->stats = {};  // before the first thread adds to it
    auto epoch = std::make_shared<Epoch>(range, std::move(make));
    if (options_.num_threads > 0) {
      epoch->prefetcher = std::make_unique<OrderedPrefetcher<Batch>>(
          pool_,
          typename OrderedPrefetcher<Batch>::Range{range.begin, range.end},
          typename OrderedPrefetcher<Batch>::Limits{
              .window = under_way() + options_.prefetch, .under_way = under_way()
          },
          epoch->make
      );
      if (!options_.device.is_cpu()) start_copier(*epoch);
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
    auto batch = epoch->copied->pop();
    add([&](LoaderStats& stats) { stats.training_stall_seconds += seconds_since(start); });
    return batch;
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
  [[nodiscard]] int64_t under_way() const {
    return std::max<int64_t>(1, options_.num_threads) * options_.concurrency;
  }

 private:
  struct Epoch {
    Epoch(Range range, Make make_batch)
        : make(std::move(make_batch)), next_index(range.begin), end(range.end) {}

    const Make make;
    int64_t next_index;  // of a pipeline without threads
    const int64_t end;
    std::unique_ptr<OrderedPrefetcher<Batch>> prefetcher;  // null without threads
    std::unique_ptr<BoundedQueue<Batch>> copied;           // null where the device is the CPU
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
    epoch.copied = std::make_unique<BoundedQueue<Batch>>(static_cast<size_t>(options_.prefetch));
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
      auto batch = epoch.prefetcher->next();
      if (!batch) return epoch.copied->fail_with(std::move(batch).error());
      if (!batch->has_value()) return epoch.copied->close();
      if (const Status done = copy(**batch); !done) return epoch.copied->fail_with(done.error());
      if (!epoch.copied->push(std::move(**batch))) return;
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
    GNN_RETURN_IF_ERROR(copy(batch));
    ++epoch.next_index;
    add([&](LoaderStats& stats) { stats.training_stall_seconds += seconds_since(start); });
    return std::optional<Batch>(std::move(batch));
  }

  Status copy(Batch& batch) {
    if (options_.device.is_cpu()) return {};
    const auto start = std::chrono::steady_clock::now();
    try {
      move_tensors(batch, DeviceCopy(options_.device));
    } catch (const c10::Error& error) {
      return tl::unexpected(copy_error(error, error.what_without_backtrace()));
    } catch (const std::exception& error) {
      return tl::unexpected(copy_error(error, error.what()));
    }
    add([&](LoaderStats& stats) { stats.copy_seconds += seconds_since(start); });
    return {};
  }

  static Error copy_error(const std::exception& error, const std::string& what) {
    return {
        .kind = is_out_of_memory(error) ? ErrorKind::OutOfMemory : ErrorKind::Internal,
        .message = "copy to the device: " + what
    };
  }

  const PipelineOptions options_;
  mutable Guarded<State> state_;
  ThreadPool pool_;
};

}  // namespace gnn::loader
