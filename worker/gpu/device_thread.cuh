#pragma once

#include "worker/gpu/kernels/launch_shape.h"

#include <cstdint>
#include <cstdlib>

namespace gnn::gpu {

// The bodies are templates for CPU and GPU alike, so that nvcc also makes those of this thread for
// the CPU, where nothing calls them.
#ifdef __CUDA_ARCH__
#define GNN_ON_DEVICE(...) __VA_ARGS__
#else
#define GNN_ON_DEVICE(...) std::abort()
#endif

/// One thread of a GPU, as bodies see it.
class DeviceThread {
 public:
  __host__ __device__ int index() const { GNN_ON_DEVICE(return static_cast<int>(threadIdx.x)); }
  __host__ __device__ int64_t block() const { GNN_ON_DEVICE(return int64_t{blockIdx.x}); }
  __host__ __device__ int block_size() const { GNN_ON_DEVICE(return static_cast<int>(blockDim.x)); }
  __host__ __device__ int64_t num_blocks() const { GNN_ON_DEVICE(return int64_t{gridDim.x}); }
  __host__ __device__ void* shared() const {
    GNN_ON_DEVICE(extern __shared__ int64_t block_memory[]; return block_memory);
  }

  template <class T>
  __host__ __device__ T load([[maybe_unused]] const T* from) const {
    GNN_ON_DEVICE(return *static_cast<const volatile T*>(from));
  }
  template <class T>
  __host__ __device__ void store([[maybe_unused]] T* to, [[maybe_unused]] T value) const {
    GNN_ON_DEVICE(*static_cast<volatile T*>(to) = value);
  }
  __host__ __device__ uint32_t
  atomic_min([[maybe_unused]] uint32_t* at, [[maybe_unused]] uint32_t value) const {
    GNN_ON_DEVICE(return atomicMin(at, value));
  }
  __host__ __device__ uint32_t
  atomic_add([[maybe_unused]] uint32_t* at, [[maybe_unused]] uint32_t value) const {
    GNN_ON_DEVICE(return atomicAdd(at, value));
  }
  __host__ __device__ uint64_t atomic_cas(
      [[maybe_unused]] uint64_t* at,
      [[maybe_unused]] uint64_t expected,
      [[maybe_unused]] uint64_t value
  ) const {
    using Word = unsigned long long;  // CUDA's 64-bit word
    static_assert(sizeof(Word) == sizeof(uint64_t));
    GNN_ON_DEVICE(return atomicCAS(reinterpret_cast<Word*>(at), Word{expected}, Word{value}));
  }

  __host__ __device__ int64_t
  shuffle_up([[maybe_unused]] int64_t value, [[maybe_unused]] int distance) const {
    GNN_ON_DEVICE(return __shfl_up_sync(kAllLanes, value, static_cast<unsigned>(distance)));
  }
  template <class T>
  __host__ __device__ T shuffle_xor([[maybe_unused]] T value, [[maybe_unused]] int bits) const {
    GNN_ON_DEVICE(return __shfl_xor_sync(kAllLanes, value, bits));
  }
  __host__ __device__ uint32_t ballot([[maybe_unused]] bool value) const {
    GNN_ON_DEVICE(return __ballot_sync(kAllLanes, value));
  }
  __host__ __device__ void sync_warp() const { GNN_ON_DEVICE(__syncwarp()); }
  __host__ __device__ void sync() const { GNN_ON_DEVICE(__syncthreads()); }

 private:
  static constexpr unsigned kAllLanes = 0xFFFFFFFFU;
};

/// The only kernel: it runs a body for each thread.
template <class Body>
__global__ void run_gnn_body(const Body body) {
  DeviceThread thread;
  body(thread);
}

}  // namespace gnn::gpu
