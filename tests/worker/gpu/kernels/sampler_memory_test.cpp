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
      .num_nodes = each.num_nodes,
      .relations = each.relations(),
      .num_edges = {},
      .options = each.options,
      .seeds = {},
      .excluded = {}
  };
  for (const auto& graph : each.graphs)
    shape.num_edges.push_back(static_cast<int64_t>(graph.indices.size()));
  for (const auto& pairs : each.excluded)
    shape.excluded.push_back(static_cast<int64_t>(pairs.pairs().size()));
  for (const auto& seeds : each.seeds) shape.seeds.push_back(static_cast<int64_t>(seeds.size()));
  return shape;
}

bool takes_all(const SamplingCase& each) {
  const auto has_all = [](const std::vector<int64_t>& fanout) {
    return std::find(fanout.begin(), fanout.end(), -1) != fanout.end();
  };
  return has_all(each.options.fanout) ||
         std::any_of(each.fanouts.begin(), each.fanouts.end(), has_all);
}

TEST(SamplerMemory, IsWhatASamplerAllocatesAndAtLeastWhatABatchTakes) {
  int exact = 0;
  for (uint64_t seed = 0; seed < 16; ++seed) {
    SamplingCase each = CaseMaker(seed).any();
    SCOPED_TRACE(each.name);
    for (auto& seeds : each.seeds) {
      const std::set<int64_t> different(seeds.begin(), seeds.end());
      seeds.assign(different.begin(), different.end());
    }
    const Result<SamplerMemory> memory = sampler_memory(shape_of(each));
    ASSERT_TRUE(memory);

    testing::GpuEmulator device({.seed = seed});
    NeighborSteps<testing::GpuEmulator> steps(
        device, each.num_nodes, each.relations(), each.options, {}
    );
    ASSERT_TRUE(steps.begin(each.seed_spans(), {}, each.excluded_pairs()));
    device.wait();
    if (takes_all(each)) {
      EXPECT_LE(steps.bytes(), memory->sampler);
    } else {
      EXPECT_EQ(steps.bytes(), memory->sampler);
      ++exact;
    }
    size_t batch = 0;
    const SampledBatch sampled = steps.batch();
    for (const auto& nodes : sampled.nodes)
      batch += static_cast<size_t>(nodes.up_to.back()) * sizeof(int64_t);
    for (const auto& edges : sampled.edges)
      batch += static_cast<size_t>(edges.up_to.back()) * sizeof(int32_t);
    EXPECT_LE(batch, memory->batch);
    EXPECT_LE(memory->batch, memory->sampler);
  }
  EXPECT_GT(exact, 5);
}

// docs/distributed.md names these.
TEST(SamplerMemory, OfBatchesOfTheShapeOfOgbnProducts) {
  SamplerShape shape{
      .num_nodes = {2'449'029},
      .relations = {{}},
      .num_edges = {123'718'280},
      .options = {.fanout = {15, 10, 5}},
      .seeds = {1024},
      .excluded = {}
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
