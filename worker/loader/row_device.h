#pragma once

#include "common/result.h"
#include "worker/gpu/kernels/gather_steps.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/util/ArrayRef.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace gnn::loader {

/// Rows to gather on a device.
struct GatherRequest {
  /// Of what is gathered; its ids, size and out are those below.
  gpu::GatherTask task{};
  at::Tensor ids;  ///< int64 [K], contiguous, on the CPU or the device
  /// Of the result: K rows of task.row_bytes bytes.
  c10::IntArrayRef shape;
  at::ScalarType type = at::kFloat;
  /// Rows from elsewhere, in host_memory(), and their places in the result.
  at::Tensor received{};
  std::span<const int64_t> places{};
};

struct GatheredRows {
  at::Tensor rows;         ///< on the device
  int64_t first_bad = -1;  ///< the position of the first id that is none
};

/// A device that gathers rows: a GPU, or what stands for one.
/// Threads: any.
class RowDevice {
 public:
  virtual ~RowDevice() = default;

  /// Memory of the device, for as long as a copy of the pointer lives.
  /// Errors: OutOfMemory.
  [[nodiscard]] virtual Result<std::shared_ptr<std::byte>> allocate(size_t bytes) = 0;
  /// Copies to such memory, and waits for it.
  [[nodiscard]] virtual Status upload(std::byte* to, std::span<const std::byte> from) = 0;
  /// Where the device reads memory of the host in place, which stays where it is meanwhile.
  /// Errors: Configuration saying what to do; OutOfMemory.
  [[nodiscard]] virtual Result<std::shared_ptr<const std::byte>> pin(
      std::span<const std::byte> bytes
  ) = 0;
  /// A tensor of the host from which the device reads by itself.
  /// Errors: OutOfMemory.
  [[nodiscard]] virtual Result<at::Tensor> host_memory(
      c10::IntArrayRef shape, at::ScalarType type
  ) = 0;
  /// `ids`, wherever they are, on the host.
  [[nodiscard]] virtual Result<at::Tensor> on_host(const at::Tensor& ids) = 0;
  /// Gathers the rows and waits for it. Rows of bad ids, and such that neither lie there nor were
  /// received, hold anything.
  /// Errors: OutOfMemory; Internal.
  [[nodiscard]] virtual Result<GatheredRows> gather(const GatherRequest& request) = 0;
};

/// A GPU. Each batch that is gathered at a time has a stream of its own, so that nothing waits for
/// what the model computes.
/// Errors: Configuration in a build without CUDA kernels.
[[nodiscard]] Result<std::shared_ptr<RowDevice>> gpu_row_device(c10::Device device);

}  // namespace gnn::loader
