#pragma once

#include "tests/support/gpu_emulator.h"
#include "worker/gpu/kernels/gather_steps.h"
#include "worker/loader/row_device.h"

#include <ATen/Functions.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

namespace gnn::loader {

/// A RowDevice whose memory and tensors are the host's, and whose kernels the emulator runs.
class EmulatedRowDevice final : public RowDevice {
 public:
  /// `ids_lie_there`: ids count as such on the device.
  explicit EmulatedRowDevice(bool ids_lie_there = false, uint64_t seed = 7)
      : ids_lie_there_(ids_lie_there), emulator_({.seed = seed}), steps_(emulator_) {}

  Result<std::shared_ptr<std::byte>> allocate(size_t bytes) override {
    const std::scoped_lock lock(mutex_);
    allocated_bytes_ += bytes;
    return std::shared_ptr<std::byte>(
        static_cast<std::byte*>(emulator_.allocate(bytes)),
        [this](std::byte* memory) { emulator_.free(memory); }
    );
  }
  Status upload(std::byte* to, std::span<const std::byte> from) override {
    const std::scoped_lock lock(mutex_);
    emulator_.upload(to, from.data(), from.size());
    return {};
  }
  Result<std::shared_ptr<const std::byte>> pin(std::span<const std::byte> bytes) override {
    if (refused_) return tl::unexpected<Error>(*std::exchange(refused_, std::nullopt));
    pinned_bytes_ += bytes.size();
    return std::shared_ptr<const std::byte>(bytes.data(), [](const std::byte*) {});
  }
  Result<at::Tensor> host_memory(c10::IntArrayRef shape, at::ScalarType type) override {
    return at::empty(shape, type);
  }
  Result<at::Tensor> on_host(const at::Tensor& ids) override { return ids; }

  Result<GatheredRows> gather(const GatherRequest& request) override {
    const std::scoped_lock lock(mutex_);
    GatheredRows gathered{.rows = at::empty(request.shape, request.type)};
    gpu::GatherTask task = request.task;
    task.out = static_cast<std::byte*>(gathered.rows.mutable_data_ptr());
    // What a kernel does not write differs from any row.
    if (gathered.rows.numel() > 0) std::memset(task.out, 0xA5, gathered.rows.nbytes());
    std::span<const int64_t> ids(
        request.ids.const_data_ptr<int64_t>(), static_cast<size_t>(request.ids.numel())
    );
    if (ids_lie_there_) {
      task.ids = ids.data();
      task.size = static_cast<int64_t>(ids.size());
      ids = {};
    }
    gpu::ReceivedRows received{.rows = nullptr, .places = request.places};
    if (request.received.defined())
      received.rows = static_cast<const std::byte*>(request.received.const_data_ptr());
    steps_.begin(task, ids, received);
    gathered.first_bad = steps_.finish();
    ++gathers_;
    return gathered;
  }

  /// What the next pin() fails with.
  void refuse_pin(Error error) { refused_ = std::move(error); }

  [[nodiscard]] size_t allocated_bytes() const { return allocated_bytes_; }
  [[nodiscard]] size_t pinned_bytes() const { return pinned_bytes_; }
  [[nodiscard]] int gathers() const { return gathers_; }

 private:
  const bool ids_lie_there_;
  std::mutex mutex_;
  testing::GpuEmulator emulator_;
  gpu::GatherSteps<testing::GpuEmulator> steps_;
  std::optional<Error> refused_;
  size_t allocated_bytes_ = 0;
  size_t pinned_bytes_ = 0;
  int gathers_ = 0;
};

}  // namespace gnn::loader
