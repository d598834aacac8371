#pragma once

#include "common/result.h"
#include "worker/gpu/stream.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace gnn::gpu {

/// The number of GPUs that this process can use; 0 without a driver, and in a build without CUDA
/// kernels.
[[nodiscard]] int device_count();
/// The current GPU's name.
[[nodiscard]] Result<std::string> device_name();

/// Memory of the current GPU.
class DeviceMemory {
 public:
  /// Errors: OutOfMemory, naming the size; Configuration in a build without CUDA kernels.
  [[nodiscard]] static Result<DeviceMemory> allocate(size_t bytes);
  /// As above, holding a copy of `bytes`, which are on the host. Waits for the copy.
  [[nodiscard]] static Result<DeviceMemory> copy_of(std::span<const std::byte> bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] size_t size() const { return size_; }

 private:
  DeviceMemory(std::byte* data, size_t size) : data_(data), size_(size) {}
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// Copies to memory of the GPU, and waits for the copy.
[[nodiscard]] Status copy_to_device(void* device, std::span<const std::byte> host);

/// Copies from memory of the GPU, after what was given to the stream, and waits for it.
[[nodiscard]] Status copy_to_host(std::span<std::byte> host, const void* device, Stream stream);

/// Memory of the host, pinned where it is for as long as this lives, so that a GPU reads it in place.
class PinnedRange {
 public:
  /// Read-only mappings, as of files, are pinned for reading where the driver can.
  /// Errors: Configuration where the driver or the limit of locked memory does not let it be pinned,
  /// saying what to do; OutOfMemory.
  [[nodiscard]] static Result<PinnedRange> pin(std::span<const std::byte> bytes);
  ~PinnedRange();
  PinnedRange(PinnedRange&& other) noexcept;
  PinnedRange& operator=(PinnedRange&& other) noexcept;

  /// Where a GPU reads the bytes.
  [[nodiscard]] const std::byte* device_data() const { return device_data_; }

 private:
  PinnedRange(const std::byte* host, const std::byte* device) : host_(host), device_data_(device) {}
  [[maybe_unused]] const std::byte* host_ = nullptr;  // a build without CUDA kernels pins nothing
  const std::byte* device_data_ = nullptr;
};

/// A stream of the current GPU.
class OwnStream {
 public:
  /// Errors: Configuration in a build without CUDA kernels; Internal with CUDA's reason.
  [[nodiscard]] static Result<OwnStream> create();
  ~OwnStream();
  OwnStream(OwnStream&& other) noexcept;
  OwnStream& operator=(OwnStream&& other) noexcept;

  [[nodiscard]] Stream get() const { return stream_; }
  [[nodiscard]] Status wait() const;

 private:
  explicit OwnStream(Stream stream) : stream_(stream) {}
  Stream stream_ = nullptr;
};

}  // namespace gnn::gpu
