#include "worker/sampling/device/cuda_device.h"

#include "common/log.h"
#include "common/page_buffer.h"
#include "worker/gpu/memory.h"
#include "worker/gpu/neighbor_sampler.h"

#include <ATen/Functions.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstring>
#include <string>
#include <utility>

namespace gnn::sampling::device {
namespace {

// Threads that read the host's memory at once: more read no faster (docs/benchmarks.md), and hold up
// what else the GPU has to do.
constexpr int64_t kHostReadingThreads = 8192;

class CudaSampler final : public BatchSampler {
 public:
  static Result<std::unique_ptr<BatchSampler>> create(
      c10::Device device, SamplerSpec spec, int64_t most_reading_threads
  ) {
    const c10::Stream stream =
        c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
    const c10::StreamGuard on(stream);
    GNN_ASSIGN_OR_RETURN(
        auto sampler,
        gpu::NeighborSampler::create(
            std::move(spec.num_nodes),
            std::move(spec.relations),
            {.kernel = std::move(spec.options),
             .most_reading_threads = most_reading_threads,
             .largest = std::move(spec.largest)},
            static_cast<gpu::Stream>(stream.native_handle())
        )
    );
    return std::unique_ptr<BatchSampler>(new CudaSampler(stream, std::move(sampler)));
  }

  Status begin(
      std::span<const std::span<const int64_t>> seeds,
      const core::StreamPosition& position,
      std::span<const core::ExcludedPairs* const> excluded
  ) override {
    const c10::StreamGuard on(stream_);
    return sampler_.begin(seeds, position, excluded);
  }

  Status begin_hops(
      std::span<const std::span<const int64_t>> seeds,
      const core::StreamPosition& position,
      std::span<const core::ExcludedPairs* const> excluded
  ) override {
    const c10::StreamGuard on(stream_);
    return sampler_.begin_hops(seeds, position, excluded);
  }
  [[nodiscard]] std::span<const int64_t> destinations(size_t relation) const override {
    return sampler_.destinations(relation);
  }
  Status add_hop(std::span<const core::DrawnLists> drawn) override {
    const c10::StreamGuard on(stream_);
    return sampler_.add_hop(drawn);
  }

  Result<gpu::SampledBatch> wait() override {
    const c10::StreamGuard on(stream_);
    return sampler_.wait();
  }

  at::Tensor copy_of(const void* array, int64_t count, at::ScalarType dtype) override {
    const c10::StreamGuard on(stream_);
    const auto options = at::TensorOptions().dtype(dtype).device(stream_.device());
    at::Tensor copy = at::empty({count}, options);
    // const_cast: from_blob takes no pointer to const.
    if (count > 0) copy.copy_(at::from_blob(const_cast<void*>(array), {count}, options), true);
    return copy;
  }

  Status finish() override {
    stream_.synchronize();
    return {};
  }

 private:
  CudaSampler(c10::Stream stream, gpu::NeighborSampler sampler)
      : stream_(stream), sampler_(std::move(sampler)) {}

  c10::Stream stream_;
  gpu::NeighborSampler sampler_;
};

// A pinned copy of bytes that the driver does not pin where they are.
struct PinnedCopy {
  PageBuffer memory;
  gpu::PinnedRange range;
};

class CudaDevice final : public SamplingDevice {
 public:
  CudaDevice(c10::Device device, GraphMemory memory) : device_(device), memory_(memory) {}

  Result<Placed> place(std::span<const std::byte> bytes) override {
    const c10::impl::VirtualGuardImpl guard(device_.type());
    const c10::StreamGuard on(guard.getDefaultStream(device_));  // and the device the current one
    return memory_ == GraphMemory::Device ? copied(bytes) : pinned(bytes);
  }

  Result<std::unique_ptr<BatchSampler>> make_sampler(SamplerSpec spec) override {
    return CudaSampler::create(
        device_, std::move(spec), memory_ == GraphMemory::ZeroCopy ? kHostReadingThreads : 0
    );
  }

 private:
  [[nodiscard]] static Result<Placed> copied(std::span<const std::byte> bytes) {
    auto copy = gpu::DeviceMemory::copy_of(bytes);
    if (!copy) {
      return tl::unexpected(with_context(
          std::move(copy).error(),
          "sampling.topologyMemory: Device expects room for an array of the graph of " +
              std::to_string(bytes.size()) +
              " bytes on the GPU; ZeroCopy reads it in the host's memory"
      ));
    }
    const auto owner = std::make_shared<gpu::DeviceMemory>(*std::move(copy));
    return Placed{.owner = owner, .data = owner->data()};
  }

  [[nodiscard]] static Result<Placed> pinned(std::span<const std::byte> bytes) {
    auto range = gpu::PinnedRange::pin(bytes);
    if (!range && range.error().kind == ErrorKind::Configuration) return pinned_copy(bytes);
    if (!range) return tl::unexpected(cannot_pin(std::move(range).error()));
    const auto owner = std::make_shared<gpu::PinnedRange>(*std::move(range));
    return Placed{.owner = owner, .data = owner->device_data()};
  }

  // Drivers refuse read-only mappings of files on some machines.
  [[nodiscard]] static Result<Placed> pinned_copy(std::span<const std::byte> bytes) {
    log_warning(
        "sampling.topologyMemory: ZeroCopy copies " + std::to_string(bytes.size()) +
        " bytes of the graph for this rank, because the driver does not pin the data set's files"
    );
    PageBuffer memory;
    memory.reserve(bytes.size());
    std::memcpy(memory.data(), bytes.data(), bytes.size());
    auto range =
        gpu::PinnedRange::pin({static_cast<const std::byte*>(memory.data()), bytes.size()});
    if (!range) return tl::unexpected(cannot_pin(std::move(range).error()));
    const auto owner = std::make_shared<PinnedCopy>(
        PinnedCopy{.memory = std::move(memory), .range = *std::move(range)}
    );
    return Placed{.owner = owner, .data = owner->range.device_data()};
  }

  [[nodiscard]] static Error cannot_pin(Error error) {
    return with_context(
        std::move(error), "sampling.topologyMemory: ZeroCopy (Device keeps the graph on the GPU)"
    );
  }

  const c10::Device device_;
  const GraphMemory memory_;
};

}  // namespace

Result<std::shared_ptr<SamplingDevice>> cuda_device(c10::Device device, GraphMemory memory) {
  const int count = gpu::device_count();
  if (device.is_cuda() && device.index() < count)
    return std::make_shared<CudaDevice>(device, memory);
  const auto named = gpu::device_name();
  if (!named && named.error().kind == ErrorKind::Configuration)
    return tl::unexpected(named.error());  // of a build without kernels
  return fail(
      ErrorKind::Configuration,
      "sampling on a GPU: expected one of " + std::to_string(count) + " GPUs, found " + device.str()
  );
}

}  // namespace gnn::sampling::device
