#pragma once

#include "common/page_buffer.h"
#include "common/recycler.h"
#include "common/result.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <future>

namespace gnn::loader {

/// Fetches feature rows by global node id, wherever they lie.
class FeatureFetcher {
 public:
  virtual ~FeatureFetcher() = default;
  /// The future holds the rows in the order of the ids, or an error.
  /// Shapes: global_ids int64 [K], CPU, contiguous; rows [K, ...].
  /// Threads: any.
  [[nodiscard]] virtual std::future<Result<at::Tensor>> submit(at::Tensor global_ids) = 0;
};

/// Rows in this process's memory, read or mapped: gathers on the calling thread, so the future is
/// ready at once. Results live in recycled buffers: drop them with their batch.
class LocalFeatureFetcher final : public FeatureFetcher {
 public:
  /// `rows`: [N, ...], CPU, contiguous, any dtype.
  /// Errors: Configuration naming what was found.
  [[nodiscard]] static Result<LocalFeatureFetcher> create(at::Tensor rows);
  // Not inline: GCC 12 warns of a wrong free when it inlines them into a Result's destructor.
  LocalFeatureFetcher(LocalFeatureFetcher&&) noexcept;
  LocalFeatureFetcher& operator=(LocalFeatureFetcher&&) noexcept;
  ~LocalFeatureFetcher() override;

  /// Errors: Data naming the first id outside [0, N).
  [[nodiscard]] std::future<Result<at::Tensor>> submit(at::Tensor global_ids) override;

  /// What submit() does, without the future.
  [[nodiscard]] Result<at::Tensor> fetch(const at::Tensor& global_ids) const;

 private:
  explicit LocalFeatureFetcher(at::Tensor rows);

  at::Tensor rows_;
  mutable Recycler<PageBuffer> buffers_;
};

}  // namespace gnn::loader
