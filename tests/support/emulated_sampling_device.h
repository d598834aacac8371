#pragma once

#include "common/guarded.h"
#include "tests/support/gpu_emulator.h"
#include "worker/gpu/kernels/neighbor_steps.h"
#include "worker/gpu/kernels/sampler_memory.h"
#include "worker/sampling/device/sampling_device.h"

#include <ATen/Functions.h>

#include <algorithm>
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
    auto sampler = std::make_unique<Sampler>(spec, ++samplers_, counts_);
    if (spec.largest) GNN_RETURN_IF_ERROR(sampler->reserve(shape_of(spec)));
    return sampler;
  }

  /// Arrays that were placed, and samplers that were made.
  [[nodiscard]] int placed() const { return placed_; }
  [[nodiscard]] int samplers() const { return samplers_; }
  /// The most samplers that there were at the same time, and the most bytes that they all held.
  [[nodiscard]] int most_samplers() const { return counts_->lock()->most_samplers; }
  [[nodiscard]] int64_t most_bytes() const { return counts_->lock()->most_bytes; }

  /// What a sampler with a largest batch is, for gpu::sampler_memory().
  [[nodiscard]] static gpu::SamplerShape shape_of(const sampling::device::SamplerSpec& spec) {
    return {
        .num_nodes = spec.num_nodes,
        .relations = spec.relations,
        .options = spec.options,
        .largest = *spec.largest
    };
  }
  /// How the samplers use it.
  static constexpr gpu::StepOptions kSteps{
      .threads = 32, .scan_threads = 32, .most_blocks = 4, .most_reading_blocks = 4
  };

 private:
  // Of the samplers that there are.
  struct Counts {
    int samplers = 0;
    int most_samplers = 0;
    int64_t bytes = 0;
    int64_t most_bytes = 0;

    void add(int more_samplers, int64_t more_bytes) {
      samplers += more_samplers;
      bytes += more_bytes;
      most_samplers = std::max(most_samplers, samplers);
      most_bytes = std::max(most_bytes, bytes);
    }
  };
  using SharedCounts = std::shared_ptr<Guarded<Counts>>;

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
    Sampler(const sampling::device::SamplerSpec& spec, int seed, SharedCounts counts)
        : counts_(std::move(counts)),
          emulator_({.seed = static_cast<uint64_t>(seed), .schedule = Schedule::Forward}),
          steps_(emulator_, spec.num_nodes, spec.relations, spec.options, kSteps) {
      counts_->lock()->add(1, 0);
      count_bytes();
    }
    ~Sampler() override { counts_->lock()->add(-1, -bytes_); }
    Sampler(const Sampler&) = delete;
    Sampler& operator=(const Sampler&) = delete;

    Status reserve(const gpu::SamplerShape& shape) {
      GNN_RETURN_IF_ERROR(gpu::reserve_largest(steps_, shape, kSteps));
      count_bytes();
      return {};
    }

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
      count_bytes();
      for (const CopyBytes& copy : copies_) emulator_.launch(copy, {.blocks = 1, .threads = 32});
      copies_.clear();
      return {};
    }

   private:
    void count_bytes() {
      const auto now = static_cast<int64_t>(steps_.bytes());
      counts_->lock()->add(0, now - std::exchange(bytes_, now));
    }

    const SharedCounts counts_;
    int64_t bytes_ = 0;
    GpuEmulator emulator_;
    gpu::NeighborSteps<GpuEmulator> steps_;
    std::vector<CopyBytes> copies_;
  };

  std::atomic<int> placed_ = 0;
  std::atomic<int> samplers_ = 0;
  const SharedCounts counts_ = std::make_shared<Guarded<Counts>>();
};

}  // namespace gnn::testing
