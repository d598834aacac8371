#include "worker/sampling/device/device_sampler.h"

#include "tests/support/emulated_sampling_device.h"
#include "tests/worker/sampling/device/sampler_cases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace gnn::sampling::device {
namespace {

using testing::EmulatedSamplingDevice;
using ::testing::HasSubstr;
using testing::must;

TEST(DeviceSampler, SamplesWhatTheCpuSamples) {
  for (const SamplerCase& each : sampler_cases()) {
    SCOPED_TRACE(each.name);
    const auto sampler = device_sampler(each, std::make_shared<EmulatedSamplingDevice>(), 1);
    // A batch is read after the next one was sampled.
    const SampledSubgraph first = must(sampler->submit(request_of(each, 0)).get());
    const SampledSubgraph second = must(sampler->submit(request_of(each, 1)).get());
    expect_equal(first, by_the_cpu(each, 0));
    expect_equal(second, by_the_cpu(each, 1));
  }
}

TEST(DeviceSampler, GivesEachSamplerOneBatchAtATime) {
  const SamplerCase each = sampler_cases().front();
  for (const size_t in_flight : {1, 2}) {
    const auto device = std::make_shared<EmulatedSamplingDevice>();
    const auto sampler = device_sampler(each, device, in_flight);
    EXPECT_EQ(device->samplers(), static_cast<int>(in_flight));
    std::vector<std::thread> threads;
    for (uint64_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        for (uint64_t batch = thread; batch < 40; batch += 4)
          expect_equal(
              must(sampler->submit(request_of(each, batch)).get()), by_the_cpu(each, batch)
          );
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(DeviceSampler, RefusesWhatTheCpuRefuses) {
  SamplerCase each = sampler_cases().front();
  const auto create = [](const SamplerCase& bad) {
    return DeviceSampler::create(
        bad.options,
        bad.num_nodes,
        bad.relations,
        std::make_shared<DeviceGraph>(std::make_shared<EmulatedSamplingDevice>())
    );
  };
  SamplerCase without_hops = each;
  without_hops.options.fanout = {};
  EXPECT_EQ(create(without_hops).error().kind, ErrorKind::Configuration);
  SamplerCase of_others = each;
  of_others.num_nodes = {121};
  EXPECT_EQ(create(of_others).error().kind, ErrorKind::Data);

  const auto sampler = must(create(each));
  SampleRequest outside = request_of(each, 0);
  outside.seeds = {at::tensor({5, 120}, at::kLong)};
  const auto refused = sampler->submit(outside).get();
  EXPECT_EQ(refused.error().message, "seeds[1]: expected a node in [0, 120), found 120");
}

// Of which every other batch cannot be begun, or copied.
class StumblingDevice final : public SamplingDevice {
 public:
  Result<Placed> place(std::span<const std::byte> bytes) override { return device_.place(bytes); }
  Result<std::unique_ptr<BatchSampler>> make_sampler(SamplerSpec spec) override {
    GNN_ASSIGN_OR_RETURN(auto sampler, device_.make_sampler(std::move(spec)));
    return std::make_unique<Stumbling>(std::move(sampler));
  }

 private:
  class Stumbling final : public BatchSampler {
   public:
    explicit Stumbling(std::unique_ptr<BatchSampler> sampler) : sampler_(std::move(sampler)) {}
    Status begin(
        std::span<const std::span<const int64_t>> seeds,
        const core::StreamPosition& position,
        std::span<const core::ExcludedPairs* const> excluded
    ) override {
      if (++batches_ % 3 == 1) return fail(ErrorKind::Configuration, "too large");
      return sampler_->begin(seeds, position, excluded);
    }
    Status begin_hops(
        std::span<const std::span<const int64_t>> seeds,
        const core::StreamPosition& position,
        std::span<const core::ExcludedPairs* const> excluded
    ) override {
      return sampler_->begin_hops(seeds, position, excluded);
    }
    [[nodiscard]] std::span<const int64_t> destinations(size_t relation) const override {
      return sampler_->destinations(relation);
    }
    Status add_hop(std::span<const core::DrawnLists> drawn) override {
      return sampler_->add_hop(drawn);
    }
    Result<gpu::SampledBatch> wait() override { return sampler_->wait(); }
    at::Tensor copy_of(const void* array, int64_t count, at::ScalarType dtype) override {
      if (batches_ % 3 == 2) throw std::runtime_error("CUDA out of memory");
      return sampler_->copy_of(array, count, dtype);
    }
    Status finish() override { return sampler_->finish(); }

   private:
    std::unique_ptr<BatchSampler> sampler_;
    int batches_ = 0;
  };

  EmulatedSamplingDevice device_;
};

TEST(DeviceSampler, GoesOnAfterABatchThatItCannotSample) {
  const SamplerCase each = sampler_cases().front();
  const auto sampler = device_sampler(each, std::make_shared<StumblingDevice>(), 1);
  const auto sample = [&] { return sampler->submit(request_of(each, 0)).get(); };
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(sample().error().kind, ErrorKind::Configuration);
    EXPECT_EQ(sample().error().kind, ErrorKind::OutOfMemory);
    expect_equal(must(sample()), by_the_cpu(each, 0));
  }
}

TEST(DeviceSampler, SaysWhatTakesLessMemory) {
  class FullDevice final : public SamplingDevice {
   public:
    Result<Placed> place(std::span<const std::byte> bytes) override {
      return Placed{.owner = nullptr, .data = bytes.data()};
    }
    Result<std::unique_ptr<BatchSampler>> make_sampler(SamplerSpec) override {
      return fail(ErrorKind::OutOfMemory, "allocating 10 bytes on the GPU: out of memory");
    }
  };
  const SamplerCase each = sampler_cases().front();
  const auto made = DeviceSampler::create(
      each.options,
      each.num_nodes,
      each.relations,
      std::make_shared<DeviceGraph>(std::make_shared<FullDevice>())
  );
  EXPECT_EQ(made.error().kind, ErrorKind::OutOfMemory);
  EXPECT_THAT(made.error().message, HasSubstr("sampling.topologyMemory: ZeroCopy"));
}

}  // namespace
}  // namespace gnn::sampling::device
