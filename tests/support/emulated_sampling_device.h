#pragma once

#include "tests/support/gpu_emulator.h"
#include "worker/gpu/kernels/neighbor_steps.h"
#include "worker/sampling/device/sampling_device.h"

#include <ATen/Functions.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace gnn::testing {

/// A sampling device that is emulated. Its tensors are in memory of the host; what is to be copied is
/// copied when finish() is called, and holds -1 before.
/// Threads: any.
class EmulatedSamplingDevice final : public sampling::device::SamplingDevice {
 public:
  Result<Placed> place(std::span<const std::byte> bytes) override {
    ++placed_;
    const auto copy = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
    return Placed{.owner = copy, .data = copy->data()};
  }

  Result<std::unique_ptr<sampling::device::BatchSampler>> make_sampler(
      sampling::device::SamplerSpec spec
  ) override {
    return std::make_unique<Sampler>(std::move(spec), ++samplers_);
  }

  /// Arrays that were placed, and samplers that were made.
  [[nodiscard]] int placed() const { return placed_; }
  [[nodiscard]] int samplers() const { return samplers_; }

 private:
  struct CopyBytes {
    const std::byte* from;
    std::byte* to;
    int64_t size;
    template <class Thread>
    void operator()(Thread& thread) const {
      for (int64_t i = thread.index(); i < size; i += thread.block_size())
        thread.store(to + i, thread.load(from + i));
    }
  };

  class Sampler final : public sampling::device::BatchSampler {
   public:
    Sampler(sampling::device::SamplerSpec spec, int seed)
        : emulator_({.seed = static_cast<uint64_t>(seed), .schedule = Schedule::Forward}),
          steps_(
              emulator_,
              std::move(spec.num_nodes),
              std::move(spec.relations),
              std::move(spec.options),
              {.threads = 32, .scan_threads = 32, .most_blocks = 4, .most_reading_blocks = 4}
          ) {}

    Status begin(
        std::span<const std::span<const int64_t>> seeds,
        const sampling::core::StreamPosition& position,
        std::span<const sampling::core::ExcludedPairs* const> excluded
    ) override {
      if (!copies_.empty()) throw std::logic_error("the batch before is not copied yet");
      return steps_.begin(seeds, position, excluded);
    }
    Status begin_hops(
        std::span<const std::span<const int64_t>> seeds,
        const sampling::core::StreamPosition& position,
        std::span<const sampling::core::ExcludedPairs* const> excluded
    ) override {
      if (!copies_.empty()) throw std::logic_error("the batch before is not copied yet");
      steps_.begin_hops(seeds, position, excluded);
      return {};
    }
    [[nodiscard]] std::span<const int64_t> destinations(size_t relation) const override {
      return steps_.destinations(relation);
    }
    Status add_hop(std::span<const sampling::core::DrawnLists> drawn) override {
      return steps_.add_hop(drawn);
    }
    Result<gpu::SampledBatch> wait() override {
      emulator_.wait();
      return steps_.batch();
    }
    at::Tensor copy_of(const void* array, int64_t count, at::ScalarType dtype) override {
      at::Tensor copy = at::full({count}, -1, dtype);
      copies_.push_back(
          {.from = static_cast<const std::byte*>(array),
           .to = static_cast<std::byte*>(copy.mutable_data_ptr()),
           .size = static_cast<int64_t>(copy.nbytes())}
      );
      return copy;
    }
    Status finish() override {
      for (const CopyBytes& copy : copies_) emulator_.launch(copy, {.blocks = 1, .threads = 32});
      copies_.clear();
      return {};
    }

   private:
    GpuEmulator emulator_;
    gpu::NeighborSteps<GpuEmulator> steps_;
    std::vector<CopyBytes> copies_;
  };

  std::atomic<int> placed_ = 0;
  std::atomic<int> samplers_ = 0;
};

}  // namespace gnn::testing
