#pragma once

#include "common/executor.h"
#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/gpu/kernels/gather_rows.h"
#include "worker/loader/feature_fetcher.h"
#include "worker/loader/row_device.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace gnn::loader {

/// Rows of one node type, and those that are to lie in memory of a device.
struct DeviceRowsOptions {
  at::Tensor rows;  ///< [n, ...], CPU, contiguous: those of the nodes from `first` on
  int64_t first = 0;
  int64_t num_nodes = 0;  ///< of the type
  RowType type = RowType::AsStored;
  /// int64 [H], distinct nodes with rows here: those that lie on the device; undefined: none.
  at::Tensor hot_ids{};
  /// Other nodes' rows that lie there, too: int64 [C], distinct, and [C, ...] as `rows`; undefined: none.
  at::Tensor cached_ids{};
  at::Tensor cached_rows{};
  /// Threads that read host memory at once; 0: as many as the device runs.
  int64_t most_reading_threads = kDefaultReadingThreads;

  /// Enough for what a bus gives, and few of a GPU's (docs/benchmarks.md).
  static constexpr int64_t kDefaultReadingThreads = 8'192;
};

/// Rows that arrived from elsewhere for a batch.
struct ArrivedRows {
  at::Tensor rows{};  ///< in the device's host_memory()
  std::span<const int64_t> places{};
};

/// Feature rows that a device gathers: hot ones from its own memory, the rest in place from pinned
/// memory of the host.
/// Threads: any.
class DeviceRows {
 public:
  /// Copies the hot rows to the device with a word to `progress` for each piece, and pins the rows unless
  /// all of them are hot.
  /// Errors: Configuration, naming what was found; those of the device.
  [[nodiscard]] static Result<std::shared_ptr<const DeviceRows>> create(
      std::shared_ptr<RowDevice> device, const DeviceRowsOptions& options, ProgressBar& progress
  );

  /// The rows of `ids`, int64 [K] on the CPU or the device, without those that arrived for others.
  /// Errors: Data naming the first id that is no node; those of the device.
  [[nodiscard]] Result<at::Tensor> gather(const at::Tensor& ids, const ArrivedRows& arrived = {})
      const;

  [[nodiscard]] RowDevice& device() const { return *device_; }

 private:
  DeviceRows(std::shared_ptr<RowDevice> device, const DeviceRowsOptions& options);

  Status copy_hot(ProgressBar& progress);
  Status map_hot();
  [[nodiscard]] size_t row_bytes() const;

  const std::shared_ptr<RowDevice> device_;
  DeviceRowsOptions options_;
  at::ScalarType type_;  // of what is gathered
  gpu::RowsView view_{};
  std::shared_ptr<std::byte> hot_;
  std::shared_ptr<std::byte> places_;
  std::shared_ptr<const std::byte> pinned_;
};

/// What batches read of DeviceRows.
class DeviceFeatureFetcher final : public FeatureFetcher {
 public:
  explicit DeviceFeatureFetcher(std::shared_ptr<const DeviceRows> rows) : rows_(std::move(rows)) {}

  /// Waits for the device. Ids may be on it, and rows are.
  /// Errors: Data naming the first id that is no node; those of the device.
  void start(at::Tensor global_ids, const Executor& /*executor*/, Done done) override {
    done(rows_->gather(global_ids));
  }

 private:
  const std::shared_ptr<const DeviceRows> rows_;
};

}  // namespace gnn::loader
