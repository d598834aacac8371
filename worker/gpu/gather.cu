#include "worker/gpu/cuda_error.h"
#include "worker/gpu/device_stream.cuh"
#include "worker/gpu/gather.h"

#include <utility>

namespace gnn::gpu {

Status gather_rows(const GatherTask& task, Stream stream) {
  return caught([&]() -> Status {
    DeviceStream device(stream);
    launch_gather(device, task);
    return {};
  });
}

class RowGatherer::Impl {
 public:
  explicit Impl(Stream stream) : device_(stream), steps_(device_) {}

  int64_t gather(
      const GatherTask& task, std::span<const int64_t> host_ids, const ReceivedRows& received
  ) {
    steps_.begin(task, host_ids, received);
    return steps_.finish();
  }

 private:
  DeviceStream device_;
  GatherSteps<DeviceStream> steps_;
};

RowGatherer::RowGatherer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RowGatherer::~RowGatherer() = default;
RowGatherer::RowGatherer(RowGatherer&&) noexcept = default;
RowGatherer& RowGatherer::operator=(RowGatherer&&) noexcept = default;

Result<RowGatherer> RowGatherer::create(Stream stream) {
  return RowGatherer(std::make_unique<Impl>(stream));
}

Result<int64_t> RowGatherer::gather(
    const GatherTask& task, std::span<const int64_t> host_ids, const ReceivedRows& received
) {
  return caught([&]() -> Result<int64_t> { return impl_->gather(task, host_ids, received); });
}

}  // namespace gnn::gpu
