// Skipped where there is no GPU.
#include "tests/worker/sampling/device/parts_cases.h"
#include "tests/worker/sampling/device/sampler_cases.h"
#include "worker/gpu/memory.h"
#include "worker/sampling/device/cuda_device.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace gnn::sampling::device {
namespace {

using testing::must;

TEST(DeviceSamplerOnGpu, SamplesWhatTheCpuSamplesFromEitherMemory) {
  if (gpu::device_count() == 0) GTEST_SKIP() << "no CUDA device";
  for (const GraphMemory memory : {GraphMemory::Device, GraphMemory::ZeroCopy}) {
    const auto device = must(cuda_device(c10::Device(c10::kCUDA, 0), memory));
    for (const SamplerCase& each : sampler_cases()) {
      SCOPED_TRACE(each.name);
      const auto sampler = device_sampler(each, device, 2);
      std::vector<std::thread> threads;
      for (uint64_t thread = 0; thread < 3; ++thread) {
        threads.emplace_back([&, thread] {
          for (uint64_t batch = thread; batch < 12; batch += 3) {
            const SampledSubgraph sampled = must(sampler->submit(request_of(each, batch)).get());
            EXPECT_TRUE(sampled.node_ids.front().is_cuda());
            expect_equal(sampled, by_the_cpu(each, batch));
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
    }
  }
}

TEST(DeviceSamplerOnGpu, SamplesWhatOneCpuSamplesWhereListsLieApart) {
  if (gpu::device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const auto device = must(cuda_device(c10::Device(c10::kCUDA, 0), GraphMemory::Device));
  for (const PartsCase& each : parts_cases()) {
    const shards::Shop shop(4);
    const shards::Job job(shop, each.sampling, /*extracted=*/true);
    for (int64_t part = 0; part < 4; ++part) expect_the_bits_of_one(each, shop, job, part, device);
  }
}

}  // namespace
}  // namespace gnn::sampling::device
