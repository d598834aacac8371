#include "common/out_of_memory.h"
#include "common/recycler.h"
#include "worker/gpu/gather.h"
#include "worker/gpu/memory.h"
#include "worker/loader/on_host.h"
#include "worker/loader/row_device.h"

#include <ATen/Functions.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <exception>
#include <string>
#include <utility>

namespace gnn::loader {
namespace {

// What `work` returns, or the error that LibTorch throws meanwhile.
template <class Work>
auto caught(const char* what, const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::exception& error) {
    return fail(
        is_out_of_memory(error) ? ErrorKind::OutOfMemory : ErrorKind::Internal,
        std::string(what) + ": " + error.what()
    );
  }
}

gpu::Stream handle_of(const c10::Stream& stream) {
  return static_cast<gpu::Stream>(stream.native_handle());
}

class GpuRowDevice final : public RowDevice {
 public:
  explicit GpuRowDevice(c10::Device device)
      : device_(device), lanes_([this] { return make_lane(); }) {}

  Result<std::shared_ptr<std::byte>> allocate(size_t bytes) override {
    const c10::DeviceGuard guard(device_);
    GNN_ASSIGN_OR_RETURN(gpu::DeviceMemory made, gpu::DeviceMemory::allocate(bytes));
    const auto memory = std::make_shared<gpu::DeviceMemory>(std::move(made));
    return std::shared_ptr<std::byte>(memory, memory->data());
  }
  Status upload(std::byte* to, std::span<const std::byte> from) override {
    const c10::DeviceGuard guard(device_);
    return gpu::copy_to_device(to, from);
  }
  Result<std::shared_ptr<const std::byte>> pin(std::span<const std::byte> bytes) override {
    const c10::DeviceGuard guard(device_);
    GNN_ASSIGN_OR_RETURN(gpu::PinnedRange made, gpu::PinnedRange::pin(bytes));
    const auto range = std::make_shared<gpu::PinnedRange>(std::move(made));
    return std::shared_ptr<const std::byte>(range, range->device_data());
  }

  Result<at::Tensor> host_memory(c10::IntArrayRef shape, at::ScalarType type) override {
    return caught("pinned memory for rows", [&]() -> Result<at::Tensor> {
      const c10::DeviceGuard guard(device_);
      return at::empty(shape, at::TensorOptions(type).pinned_memory(true));
    });
  }

  Result<at::Tensor> on_host(const at::Tensor& ids) override {
    return caught("copying ids to the host", [&]() -> Result<at::Tensor> {
      return loader::on_host(ids);
    });
  }

  Result<GatheredRows> gather(const GatherRequest& request) override {
    return caught("gathering rows on the GPU", [&]() -> Result<GatheredRows> {
      const std::shared_ptr<Lane> lane = lanes_.borrow();
      // The allocator gives memory out again in the order of the stream that it was given out on.
      const c10::StreamGuard guard(lane->stream);
      return gather(*lane, request);
    });
  }

 private:
  struct Lane {
    c10::Stream stream;
    gpu::RowGatherer gatherer;
  };

  [[nodiscard]] std::unique_ptr<Lane> make_lane() const {
    const c10::impl::VirtualGuardImpl guards(device_.type());
    const c10::Stream stream = guards.getStreamFromGlobalPool(device_, /*isHighPriority=*/true);
    const c10::StreamGuard guard(stream);
    auto gatherer = gpu::RowGatherer::create(handle_of(stream));
    GNN_ASSERT(gatherer.has_value(), "gpu_row_device() has made one");
    return std::make_unique<Lane>(Lane{.stream = stream, .gatherer = std::move(*gatherer)});
  }

  Result<GatheredRows> gather(Lane& lane, const GatherRequest& request) const {
    GatheredRows gathered{
        .rows = at::empty(request.shape, at::TensorOptions(request.type).device(device_))
    };
    gpu::GatherTask task = request.task;
    task.out = static_cast<std::byte*>(gathered.rows.mutable_data_ptr());
    std::span<const int64_t> host_ids;
    if (request.ids.is_cpu()) {
      host_ids = {request.ids.const_data_ptr<int64_t>(), static_cast<size_t>(request.ids.numel())};
    } else {
      task.ids = request.ids.const_data_ptr<int64_t>();
      task.size = request.ids.numel();
    }
    gpu::ReceivedRows received{.rows = nullptr, .places = request.places};
    if (request.received.defined())
      received.rows = static_cast<const std::byte*>(request.received.const_data_ptr());
    GNN_ASSIGN_OR_RETURN(gathered.first_bad, lane.gatherer.gather(task, host_ids, received));
    return gathered;
  }

  const c10::Device device_;
  Recycler<Lane> lanes_;
};

}  // namespace

Result<std::shared_ptr<RowDevice>> gpu_row_device(c10::Device device) {
  // LibTorch is not asked for a GPU in a build that cannot gather on one.
  GNN_ASSIGN_OR_RETURN([[maybe_unused]] const auto gatherer, gpu::RowGatherer::create(nullptr));
  return std::make_shared<GpuRowDevice>(device);
}

}  // namespace gnn::loader
