#include "worker/gpu/cuda_error.h"
#include "worker/gpu/device_stream.cuh"
#include "worker/gpu/memory.h"

#include <cuda_runtime.h>
#include <utility>

namespace gnn::gpu {

namespace {

// The page of the range's start to that of its end: what is registered is whole pages.
cudaError_t register_range(std::span<const std::byte> bytes, unsigned flags) {
  // const_cast: CUDA takes no pointer to const; with the flag ReadOnly it does not write either.
  return cudaHostRegister(const_cast<std::byte*>(bytes.data()), bytes.size(), flags);
}

tl::unexpected<Error> cannot_pin(std::span<const std::byte> bytes, cudaError_t code) {
  if (code == cudaErrorMemoryAllocation) {
    return fail(
        ErrorKind::OutOfMemory,
        "pinning " + std::to_string(bytes.size()) +
            " bytes of host memory for the GPU: the memory, or the limit of locked memory "
            "(ulimit -l), is used up"
    );
  }
  return fail(
      ErrorKind::Configuration,
      "pinning " + std::to_string(bytes.size()) +
          " bytes of host memory for the GPU: the driver "
          "refuses (" +
          cudaGetErrorString(code) +
          "). Where the bytes are a read-only mapping of a file, copy the data to memory (a tmpfs, "
          "or topologyMemory: Device) first"
  );
}

}  // namespace

int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  (void)cudaGetLastError();
  return 0;
}

Result<std::string> device_name() {
  return caught([]() -> Result<std::string> {
    int device = 0;
    check(cudaGetDevice(&device), "asking for the current GPU");
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, device), "asking for the GPU's properties");
    return std::string(properties.name);
  });
}

Result<DeviceMemory> DeviceMemory::allocate(size_t bytes) {
  return caught([&]() -> Result<DeviceMemory> {
    return DeviceMemory(static_cast<std::byte*>(DeviceStream(nullptr).allocate(bytes)), bytes);
  });
}

Result<DeviceMemory> DeviceMemory::copy_of(std::span<const std::byte> bytes) {
  GNN_ASSIGN_OR_RETURN(DeviceMemory memory, allocate(bytes.size()));
  GNN_RETURN_IF_ERROR(copy_to_device(memory.data(), bytes));
  return memory;
}

DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) DeviceStream(nullptr).free(data_);
}
DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Status copy_to_device(void* device, std::span<const std::byte> host) {
  return caught([&]() -> Status {
    check(
        cudaMemcpy(device, host.data(), host.size(), cudaMemcpyHostToDevice), "copying to the GPU"
    );
    // From memory that is not pinned, the last piece may be under way still, and streams like OwnStream
    // don't wait for it.
    check(cudaStreamSynchronize(nullptr), "copying to the GPU");
    return {};
  });
}

Status copy_to_host(std::span<std::byte> host, const void* device, Stream stream) {
  return caught([&]() -> Status {
    DeviceStream on(stream);
    on.download(host.data(), device, host.size());
    on.wait();
    return {};
  });
}

Result<PinnedRange> PinnedRange::pin(std::span<const std::byte> bytes) {
  if (bytes.empty()) return PinnedRange(nullptr, nullptr);
  cudaError_t code = register_range(bytes, cudaHostRegisterMapped);
  if (code != cudaSuccess) {
    (void)cudaGetLastError();
    code = register_range(bytes, cudaHostRegisterMapped | cudaHostRegisterReadOnly);
  }
  if (code != cudaSuccess) {
    (void)cudaGetLastError();
    return cannot_pin(bytes, code);
  }
  PinnedRange range(bytes.data(), nullptr);
  return caught([&]() -> Result<PinnedRange> {
    void* device = nullptr;
    check(
        cudaHostGetDevicePointer(&device, const_cast<std::byte*>(bytes.data()), 0),
        "asking where the GPU sees pinned memory"
    );
    range.device_data_ = static_cast<const std::byte*>(device);
    return std::move(range);
  });
}

PinnedRange::~PinnedRange() {
  if (host_ != nullptr) (void)cudaHostUnregister(const_cast<std::byte*>(host_));
}
PinnedRange::PinnedRange(PinnedRange&& other) noexcept
    : host_(std::exchange(other.host_, nullptr)),
      device_data_(std::exchange(other.device_data_, nullptr)) {}
PinnedRange& PinnedRange::operator=(PinnedRange&& other) noexcept {
  std::swap(host_, other.host_);
  std::swap(device_data_, other.device_data_);
  return *this;
}

Result<OwnStream> OwnStream::create() {
  return caught([]() -> Result<OwnStream> {
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
    return OwnStream(stream);
  });
}
OwnStream::~OwnStream() {
  if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
}
OwnStream::OwnStream(OwnStream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
OwnStream& OwnStream::operator=(OwnStream&& other) noexcept {
  std::swap(stream_, other.stream_);
  return *this;
}
Status OwnStream::wait() const {
  return caught([&]() -> Status {
    DeviceStream(stream_).wait();
    return {};
  });
}

}  // namespace gnn::gpu
