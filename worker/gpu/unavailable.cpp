// Linked in place of the .cu files where GNN_WITH_CUDA_KERNELS is off.
#include "worker/gpu/gather.h"
#include "worker/gpu/memory.h"
#include "worker/gpu/neighbor_sampler.h"

#include <utility>

namespace gnn::gpu {

namespace {

tl::unexpected<Error> refused() {
  return fail(
      ErrorKind::Configuration,
      "this worker was built without CUDA kernels (GNN_WITH_CUDA_KERNELS), and can't use a GPU"
  );
}

}  // namespace

class NeighborSampler::Impl {};

NeighborSampler::NeighborSampler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
NeighborSampler::~NeighborSampler() = default;
NeighborSampler::NeighborSampler(NeighborSampler&&) noexcept = default;
NeighborSampler& NeighborSampler::operator=(NeighborSampler&&) noexcept = default;
Result<NeighborSampler> NeighborSampler::create(
    std::vector<int64_t>, std::vector<sampling::core::RelationView>, NeighborSamplerOptions, Stream
) {
  return refused();
}
Status NeighborSampler::
    begin(std::span<const std::span<const int64_t>>, const sampling::core::StreamPosition&, std::span<const sampling::core::ExcludedPairs* const>) {
  return refused();
}
Status NeighborSampler::
    begin_hops(std::span<const std::span<const int64_t>>, const sampling::core::StreamPosition&, std::span<const sampling::core::ExcludedPairs* const>) {
  return refused();
}
std::span<const int64_t> NeighborSampler::destinations(size_t) const {
  return {};
}
Status NeighborSampler::add_hop(std::span<const sampling::core::DrawnLists>) {
  return refused();
}
Result<SampledBatch> NeighborSampler::wait() {
  return refused();
}
size_t NeighborSampler::device_bytes() const {
  return 0;
}

Status gather_rows(const GatherTask&, Stream) {
  return refused();
}

class RowGatherer::Impl {};

RowGatherer::RowGatherer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RowGatherer::~RowGatherer() = default;
RowGatherer::RowGatherer(RowGatherer&&) noexcept = default;
RowGatherer& RowGatherer::operator=(RowGatherer&&) noexcept = default;
Result<RowGatherer> RowGatherer::create(Stream) {
  return refused();
}
Result<int64_t>
RowGatherer::gather(const GatherTask&, std::span<const int64_t>, const ReceivedRows&) {
  return refused();
}

int device_count() {
  return 0;
}
Result<std::string> device_name() {
  return refused();
}

Result<DeviceMemory> DeviceMemory::allocate(size_t) {
  return refused();
}
Result<DeviceMemory> DeviceMemory::copy_of(std::span<const std::byte>) {
  return refused();
}
DeviceMemory::~DeviceMemory() = default;
DeviceMemory::DeviceMemory(DeviceMemory&&) noexcept = default;
DeviceMemory& DeviceMemory::operator=(DeviceMemory&&) noexcept = default;
Status copy_to_device(void*, std::span<const std::byte>) {
  return refused();
}
Status copy_to_host(std::span<std::byte>, const void*, Stream) {
  return refused();
}

Result<PinnedRange> PinnedRange::pin(std::span<const std::byte>) {
  return refused();
}
PinnedRange::~PinnedRange() = default;
PinnedRange::PinnedRange(PinnedRange&&) noexcept = default;
PinnedRange& PinnedRange::operator=(PinnedRange&&) noexcept = default;

Result<OwnStream> OwnStream::create() {
  return refused();
}
OwnStream::~OwnStream() = default;
OwnStream::OwnStream(OwnStream&&) noexcept = default;
OwnStream& OwnStream::operator=(OwnStream&&) noexcept = default;
Status OwnStream::wait() const {
  return refused();
}

}  // namespace gnn::gpu
