#pragma once

#include "common/result.h"
#include "worker/progress/collective_activity.h"

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::comm {

/// A c10d group, opaque outside this folder.
struct C10dGroupHandle;

enum class ReduceOp { Sum, Max, Min };

/// A group of ranks that call the same collectives in the same order.
/// Shapes: tensors are contiguous, of the same shape, dtype and device on every rank; on the CPU,
/// or on this rank's CUDA device if the backend is NCCL.
/// Errors: PeerLost if a rank is gone or does not come in time; the group is unusable after that.
/// Threads: one of each rank at a time.
class Communicator {
 public:
  using Timeout = std::chrono::milliseconds;

  virtual ~Communicator() = default;

  [[nodiscard]] virtual int64_t rank() const = 0;
  [[nodiscard]] virtual int64_t world_size() const = 0;
  /// "single", "gloo" or "nccl".
  [[nodiscard]] virtual const char* backend() const = 0;

  /// Replaces `tensor` on every rank by the reduction over all ranks, in place. `timeout` is for
  /// waits that may be longer than the group's own, e.g. after work whose length differs by rank.
  [[nodiscard]] virtual Status all_reduce(
      at::Tensor tensor, ReduceOp op = ReduceOp::Sum, std::optional<Timeout> timeout = std::nullopt
  ) = 0;
  /// Replaces `tensor` on every rank by that of `root`, in place.
  [[nodiscard]] virtual Status broadcast(at::Tensor tensor, int64_t root) = 0;
  /// The tensors of all ranks, by rank.
  [[nodiscard]] virtual Result<std::vector<at::Tensor>> all_gather(const at::Tensor& tensor) = 0;
  /// Returns when every rank has called it.
  [[nodiscard]] virtual Status barrier(std::optional<Timeout> timeout = std::nullopt) = 0;

  /// What is told when a collective starts and ends; may be null.
  [[nodiscard]] virtual std::shared_ptr<progress::CollectiveActivity> activity() const {
    return nullptr;
  }
  /// The c10d group behind it; null for a single process.
  [[nodiscard]] virtual const C10dGroupHandle* process_group() const { return nullptr; }

 protected:
  Communicator() = default;
  Communicator(const Communicator&) = default;
  Communicator& operator=(const Communicator&) = default;
};

/// Sums `values` (counts, losses) over all ranks, in float64 on the CPU. Every rank gets the sums.
[[nodiscard]] Result<std::vector<double>> all_reduce_sums(
    Communicator& communicator,
    const std::vector<double>& values,
    std::optional<Communicator::Timeout> timeout = std::nullopt
);

/// The bytes of all ranks, by rank; lengths may differ.
[[nodiscard]] Result<std::vector<std::string>> all_gather_bytes(
    Communicator& communicator, const std::string& bytes
);

/// Who holds what, where not all ranks hold the same: "cpu on ranks 0, 2; cuda on rank 1". At most
/// eight ranks of each value are named. Empty if all values are equal. The values may be those of
/// others than ranks: `holder` is their word.
[[nodiscard]] std::string describe_differences(
    const std::vector<std::string>& values_by_rank, std::string_view holder = "rank"
);

/// A group of this process alone: every collective is done at once.
[[nodiscard]] std::shared_ptr<Communicator> make_single_communicator();

}  // namespace gnn::comm
