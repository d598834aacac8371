#pragma once

#include "worker/gpu/cuda_error.h"
#include "worker/gpu/device_thread.cuh"
#include "worker/gpu/kernels/launch_shape.h"

#include <cstddef>
#include <cuda_runtime.h>
#include <string>

namespace gnn::gpu {

/// Errors: CudaFailure saying what was tried, and what CUDA says.
inline void check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  (void)cudaGetLastError();  // an error that is not sticky is over with this report
  const ErrorKind kind =
      code == cudaErrorMemoryAllocation ? ErrorKind::OutOfMemory : ErrorKind::Internal;
  throw CudaFailure(kind, std::string(what) + ": " + cudaGetErrorString(code));
}

/// The Device of worker/gpu/kernels: a stream of the current GPU, and that GPU's memory.
class DeviceStream {
 public:
  explicit DeviceStream(cudaStream_t stream) : stream_(stream) {}

  template <class Body>
  void launch(const Body& body, const LaunchShape& shape) {
    run_gnn_body<<<
        static_cast<unsigned>(shape.blocks),
        shape.threads,
        shape.shared_bytes,
        stream_>>>(body);
    check(cudaGetLastError(), "launching a kernel");
  }

  [[nodiscard]] void* allocate(size_t bytes) {
    void* memory = nullptr;
    check(
        cudaMalloc(&memory, bytes == 0 ? 1 : bytes),
        ("allocating " + std::to_string(bytes) + " bytes on the GPU").c_str()
    );
    return memory;
  }
  void free(void* memory) noexcept { (void)cudaFree(memory); }
  [[nodiscard]] void* allocate_host(size_t bytes) {
    void* memory = nullptr;
    check(
        cudaMallocHost(&memory, bytes == 0 ? 1 : bytes),
        ("allocating " + std::to_string(bytes) + " bytes of pinned memory").c_str()
    );
    return memory;
  }
  void free_host(void* memory) noexcept { (void)cudaFreeHost(memory); }

  void copy_within(void* to, const void* from, size_t bytes) {
    copy(to, from, bytes, cudaMemcpyDeviceToDevice);
  }
  void upload(void* to, const void* from, size_t bytes) {
    copy(to, from, bytes, cudaMemcpyHostToDevice);
  }
  void download(void* to, const void* from, size_t bytes) {
    copy(to, from, bytes, cudaMemcpyDeviceToHost);
  }
  void fill(void* memory, int byte, size_t bytes) {
    if (bytes > 0)
      check(cudaMemsetAsync(memory, byte, bytes, stream_), "filling memory of the GPU");
  }
  void wait() { check(cudaStreamSynchronize(stream_), "waiting for the GPU"); }

 private:
  void copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    if (bytes > 0)
      check(cudaMemcpyAsync(to, from, bytes, kind, stream_), "copying to or from the GPU");
  }

  cudaStream_t stream_;
};

}  // namespace gnn::gpu
