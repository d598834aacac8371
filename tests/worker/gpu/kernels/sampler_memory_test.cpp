#include "worker/gpu/kernels/sampler_memory.h"

#include "tests/support/gpu_emulator.h"
#include "tests/worker/gpu/sampling_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

namespace gnn::gpu {
namespace {

SamplerShape shape_of(const SamplingCase& each) {
  SamplerShape shape{
      .num_nodes = each.num_nodes, .relations = each.relations(), .options = each.options
  };
  LargestBatch& largest = shape.largest;
  for (const auto& graph : each.graphs) largest.lists.emplace_back(graph.indptr);
  for (const auto& pairs : each.excluded)
    largest.excluded.push_back(static_cast<int64_t>(pairs.pairs().size()));
  for (const auto& seeds : each.seeds) largest.seeds.push_back(static_cast<int64_t>(seeds.size()));
  return shape;
}

// Any case whose seeds are all different.
SamplingCase case_of(uint64_t seed) {
  SamplingCase each = CaseMaker(seed).any();
  for (auto& seeds : each.seeds) {
    const std::set<int64_t> different(seeds.begin(), seeds.end());
    seeds.assign(different.begin(), different.end());
  }
  return each;
}

// The first half of the seeds of each type.
SamplingCase half_of(SamplingCase each) {
  for (auto& seeds : each.seeds) seeds.resize(seeds.size() / 2);
  return each;
}

constexpr auto kCopied = [](const auto* data, int64_t size) {
  return std::vector(data, data + size);
};

// One device's blocks are smaller than another's.
constexpr StepOptions kSteps{.threads = 64, .scan_threads = 64};

// Typed or not, with and without replacement, ids that are found by hashing, excluded edges, hops that take
// all neighbours.
TEST(SamplerMemory, IsWhatASamplerTakesForAllBatchesUpToTheLargest) {
  for (uint64_t seed = 0; seed < 24; ++seed) {
    const SamplingCase each = case_of(seed);
    SCOPED_TRACE(each.name);
    const Result<SamplerMemory> memory = sampler_memory(shape_of(each), kSteps);
    ASSERT_TRUE(memory);
    testing::GpuEmulator device({.seed = seed});
    NeighborSteps<testing::GpuEmulator> steps(
        device, each.num_nodes, each.relations(), each.options, kSteps
    );
    ASSERT_TRUE(reserve_largest(steps, shape_of(each), kSteps));
    EXPECT_EQ(steps.bytes(), memory->sampler);
    EXPECT_EQ(steps.host_bytes(), memory->pinned);
    const SamplingCase half = half_of(each);
    for (const SamplingCase* const batch : {&half, &each, &half, &each}) {
      ASSERT_TRUE(steps.begin(batch->seed_spans(), {}, batch->excluded_pairs()));
      device.wait();
      EXPECT_EQ(steps.bytes(), memory->sampler);
      EXPECT_EQ(steps.host_bytes(), memory->pinned);
    }
    EXPECT_EQ(each.lists_of(steps.batch(), kCopied), each.by_the_cpu({}));
    size_t batch = 0;
    const SampledBatch sampled = steps.batch();
    for (const auto& nodes : sampled.nodes)
      batch += static_cast<size_t>(nodes.up_to.back()) * sizeof(int64_t);
    for (const auto& edges : sampled.edges)
      batch += static_cast<size_t>(edges.up_to.back()) * sizeof(int32_t);
    EXPECT_LE(batch, memory->batch);
    EXPECT_LE(memory->batch, memory->sampler);
  }
}

TEST(SamplerMemory, IsWhatASamplerTakesThatIsSentWhatOthersDraw) {
  for (uint64_t seed = 0; seed < 24; ++seed) {
    const SamplingCase each = case_of(seed);
    SCOPED_TRACE(each.name);
    SamplerShape shape = shape_of(each);
    shape.largest.in_steps = true;
    const Result<SamplerMemory> memory = sampler_memory(shape, kSteps);
    ASSERT_TRUE(memory);
    const size_t part = seed % PartsOfCase::kParts;
    const SamplingCase half = half_of(each);
    testing::GpuEmulator device({.seed = seed});
    const PartsOfCase parts(each);
    const PartsOfCase parts_of_half(half);
    NeighborSteps<testing::GpuEmulator> steps(
        device, each.num_nodes, parts.relations(part), each.options, kSteps
    );
    ASSERT_TRUE(reserve_largest(steps, shape, kSteps));
    for (const bool whole : {false, true, false, true}) {
      const SamplingCase& batch = whole ? each : half;
      steps.begin_hops(batch.seed_spans(), {}, batch.excluded_pairs());
      ASSERT_TRUE(
          (whole ? parts : parts_of_half).add_hops(steps, part, {}, batch.options.fanout.size())
      );
      device.wait();
      EXPECT_EQ(steps.bytes(), memory->sampler);
      EXPECT_EQ(steps.host_bytes(), memory->pinned);
    }
    EXPECT_EQ(each.lists_of(steps.batch(), kCopied), each.by_the_cpu({}));
  }
}

// docs/distributed.md names these.
TEST(SamplerMemory, OfBatchesOfTheShapeOfOgbnProducts) {
  SamplerShape shape{
      .num_nodes = {2'449'029},
      .relations = {{}},
      .options = {.fanout = {15, 10, 5}},
      .largest = {.seeds = {1024}}
  };
  const Result<SamplerMemory> memory = sampler_memory(shape);
  ASSERT_TRUE(memory);
  EXPECT_NEAR(static_cast<double>(memory->sampler), 34e6, 0.5e6);
  EXPECT_NEAR(static_cast<double>(memory->batch), 12.6e6, 0.1e6);
}

TEST(SamplerMemory, RefusesWhatASamplerRefuses) {
  SamplingCase each = homogeneous_case("", 100, 4, {3, 4});
  each.options.fanout[1] = int64_t{1} << 30;
  const Result<SamplerMemory> refused = sampler_memory(shape_of(each));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::Configuration);
}

}  // namespace
}  // namespace gnn::gpu
