#pragma once

#include "common/executor.h"
#include "common/page_buffer.h"
#include "common/recycler.h"
#include "common/result.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <vector>

namespace gnn::loader {

/// Fetches feature rows by global node id, wherever they lie.
class FeatureFetcher {
 public:
  using Done = std::function<void(Result<at::Tensor>)>;

  virtual ~FeatureFetcher() = default;
  /// Calls `done` with the rows in the order of the ids, or an error: before it returns, or in a task
  /// of `executor`, where what it computes on replies of other nodes runs, too.
  /// Shapes: global_ids int64 [K], contiguous, on the CPU, or on a device that the fetcher knows; rows
  /// [K, ...], on the CPU, or on that device and complete.
  /// Threads: any.
  virtual void start(at::Tensor global_ids, const Executor& executor, Done done) = 0;
  /// The same for one who waits: what is computed on replies runs on the threads that receive them.
  [[nodiscard]] std::future<Result<at::Tensor>> submit(at::Tensor global_ids);
};

/// Fetches the rows of several node types at once, and calls `done` with all of them, or the first
/// error. `fetchers` by type, null: undefined rows; `global_ids` by type.
/// Threads: any.
void fetch_all(
    const std::vector<std::shared_ptr<FeatureFetcher>>& fetchers,
    const std::vector<at::Tensor>& global_ids,
    const Executor& executor,
    std::function<void(Result<std::vector<at::Tensor>>)> done
);

/// Where gathered rows lie.
enum class HostMemory {
  Pageable,
  Pinned,  ///< a GPU reads it by itself; LibTorch keeps it, and gives it out by powers of two
};

/// Where rows that are to be copied to `device` lie before.
[[nodiscard]] inline HostMemory memory_before(c10::Device device) {
  return device.is_cuda() ? HostMemory::Pinned : HostMemory::Pageable;
}

/// What gathered rows are.
enum class RowType {
  AsStored,
  BFloat16,  ///< rounded while they are gathered, where stored as float32
};

/// The type of rows that are gathered from such of type `stored`.
[[nodiscard]] inline at::ScalarType gathered_type(at::ScalarType stored, RowType type) {
  return type == RowType::BFloat16 && stored == at::kFloat ? at::kBFloat16 : stored;
}

/// Of a batch whose id at `position` is none of the nodes' [0, num_nodes).
[[nodiscard]] tl::unexpected<Error> no_such_row(int64_t position, int64_t num_nodes, int64_t found);

/// Rows in this process's memory, read or mapped: gathers on the calling thread, before start()
/// returns. Results live in recycled buffers: drop them with their batch.
class LocalFeatureFetcher final : public FeatureFetcher {
 public:
  /// `rows`: [N, ...], CPU, contiguous, any dtype.
  /// Errors: Configuration naming what was found.
  [[nodiscard]] static Result<LocalFeatureFetcher> create(
      at::Tensor rows, HostMemory memory = HostMemory::Pageable, RowType type = RowType::AsStored
  );
  // Not inline: GCC 12 warns of a wrong free when it inlines them into a Result's destructor.
  LocalFeatureFetcher(LocalFeatureFetcher&&) noexcept;
  LocalFeatureFetcher& operator=(LocalFeatureFetcher&&) noexcept;
  ~LocalFeatureFetcher() override;

  /// Errors: Data naming the first id outside [0, N).
  void start(at::Tensor global_ids, const Executor& executor, Done done) override;

  /// What start() does, for the caller.
  [[nodiscard]] Result<at::Tensor> fetch(const at::Tensor& global_ids) const;

 private:
  LocalFeatureFetcher(at::Tensor rows, HostMemory memory, RowType type);

  // Memory for rows of that shape.
  [[nodiscard]] at::Tensor room_for(at::IntArrayRef shape) const;

  at::Tensor rows_;
  HostMemory memory_;
  at::ScalarType type_;  // of what is gathered
  mutable Recycler<PageBuffer> buffers_;
};

}  // namespace gnn::loader
