#pragma once

#include "worker/gpu/kernels/launch_shape.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace gnn::testing {

/// In which order the emulated threads go on.
enum class Schedule : uint8_t {
  Random,    ///< any of those that can, anew at each access that they share
  Forward,   ///< the first of those that can
  Backward,  ///< the last of those that can
};

struct EmulatorOptions {
  uint64_t seed = 0;
  Schedule schedule = Schedule::Random;
  int resident_blocks = 2;  ///< blocks whose threads run interleaved
};

/// Runs the bodies of kernels on the CPU, thread by thread, as a GPU might: each emulated thread has a
/// stack of its own, and another one goes on whenever it comes to what threads share (atomics,
/// shuffles, ballots, barriers). What a GPU leaves open, as the order of threads and blocks, is drawn
/// at random; what it forbids, as a barrier that not all threads of a block reach, throws
/// std::logic_error. Shared memory and new device memory hold garbage. It is the Device of
/// worker/gpu/kernels, with memory of the host.
/// Threads: one per thread.
class GpuEmulator {
 public:
  explicit GpuEmulator(EmulatorOptions options);
  ~GpuEmulator();
  GpuEmulator(const GpuEmulator&) = delete;
  GpuEmulator& operator=(const GpuEmulator&) = delete;

  class Thread;

  template <class Body>
  void launch(const Body& body, const gpu::LaunchShape& shape) {
    run([&body](Thread& thread) { body(thread); }, shape);
  }

  [[nodiscard]] void* allocate(size_t bytes);
  void free(void* memory);
  [[nodiscard]] void* allocate_host(size_t bytes) { return allocate(bytes); }
  void free_host(void* memory) { free(memory); }
  void copy_within(void* to, const void* from, size_t bytes);
  void upload(void* to, const void* from, size_t bytes) { copy_within(to, from, bytes); }
  void download(void* to, const void* from, size_t bytes) { copy_within(to, from, bytes); }
  void fill(void* memory, int byte, size_t bytes);
  void wait() { ++waits_; }

  /// How often the host has waited for the device.
  [[nodiscard]] int waits() const { return waits_; }
  /// Allocations that are not freed.
  [[nodiscard]] int64_t live_allocations() const { return live_; }

 private:
  class Impl;
  void run(const std::function<void(Thread&)>& body, const gpu::LaunchShape& shape);

  std::unique_ptr<Impl> impl_;
  int waits_ = 0;
  int64_t live_ = 0;
};

/// One emulated thread, as bodies see it.
class GpuEmulator::Thread {
 public:
  [[nodiscard]] int index() const { return index_; }
  [[nodiscard]] int64_t block() const { return block_; }
  [[nodiscard]] int block_size() const { return block_size_; }
  [[nodiscard]] int64_t num_blocks() const { return num_blocks_; }
  [[nodiscard]] void* shared() const { return shared_; }

  template <class T>
  T load(const T* from) {
    step();
    return *from;
  }
  template <class T>
  void store(T* to, T value) {
    step();
    *to = value;
  }
  uint32_t atomic_min(uint32_t* at, uint32_t value);
  uint32_t atomic_add(uint32_t* at, uint32_t value);
  uint64_t atomic_cas(uint64_t* at, uint64_t expected, uint64_t value);

  /// The value of the lane so far below; one's own where there is none.
  int64_t shuffle_up(int64_t value, int distance);
  /// The value of the lane whose number differs in these bits.
  int64_t shuffle_xor(int64_t value, int bits);
  float shuffle_xor(float value, int bits);
  /// The lanes for which it is true, a bit each.
  uint32_t ballot(bool value);
  void sync_warp();
  void sync();

 private:
  friend class GpuEmulator::Impl;

  void step();                               // lets others go on
  void meet_warp(int kind, uint64_t value);  // returns once all lanes are there
  [[nodiscard]] uint64_t met(int lane) const;

  Impl* impl_ = nullptr;
  int fiber_ = 0;
  int index_ = 0;
  int64_t block_ = 0;
  int block_size_ = 0;
  int64_t num_blocks_ = 0;
  void* shared_ = nullptr;
};

}  // namespace gnn::testing
