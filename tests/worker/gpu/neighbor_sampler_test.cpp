// The CPU's results are the reference for the GPU's. Skipped, with the reason, where there is no GPU
// or no kernel.
#include "worker/gpu/neighbor_sampler.h"

#include "tests/support/must.h"
#include "tests/worker/gpu/on_gpu.h"
#include "tests/worker/gpu/sampling_cases.h"
#include "worker/gpu/memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

namespace gnn::gpu {
namespace {

using sampling::core::RelationView;
using sampling::core::StreamPosition;

enum class Place { Device, Host };

class NeighborSamplerOnGpu : public OnGpu {
 protected:
  // A case's lists where the GPU reads them.
  template <class T>
  const T* placed(const T* data, int64_t size, Place place) {
    if (data == nullptr) return nullptr;
    const auto bytes = std::as_bytes(std::span(data, static_cast<size_t>(size)));
    if (place == Place::Device) {
      copies_.push_back(testing::must(DeviceMemory::copy_of(bytes)));
      // reinterpret_cast: what was copied has its type still.
      return reinterpret_cast<const T*>(copies_.back().data());
    }
    pinned_.push_back(testing::must(PinnedRange::pin(bytes)));
    return reinterpret_cast<const T*>(pinned_.back().device_data());
  }

  std::vector<RelationView> placed(
      std::vector<RelationView> relations, const std::vector<ListSizes>& sizes, Place place
  ) {
    for (size_t i = 0; i < relations.size(); ++i) {
      RelationView& relation = relations[i];
      const auto lists = static_cast<int64_t>(sizes[i].lists);
      const auto edges = static_cast<int64_t>(sizes[i].edges);
      relation.indptr = placed(relation.indptr, lists + 1, place);
      relation.ends = placed(relation.ends, lists, place);
      relation.indices32 = placed(relation.indices32, edges, place);
      relation.indices64 = placed(relation.indices64, edges, place);
      relation.edge_ids = placed(relation.edge_ids, edges, place);
    }
    return relations;
  }

  void expect_the_same(const SamplingCase& each, Place place) {
    SCOPED_TRACE(each.name);
    const OwnStream stream = testing::must(OwnStream::create());
    NeighborSampler sampler = testing::must(NeighborSampler::create(
        each.num_nodes,
        placed(each.relations(), each.sizes(), place),
        {.kernel = each.options},
        stream.get()
    ));
    for (uint64_t batch = 0; batch < 3; ++batch) {
      const StreamPosition at{.seed = 3, .epoch = 1, .batch = batch};
      testing::must(sampler.begin(each.seed_spans(), at, each.excluded_pairs()));
      ASSERT_EQ(read(each, testing::must(sampler.wait()), stream), each.by_the_cpu(at))
          << "batch " << batch;
    }
  }

  void expect_the_same_in_parts(const SamplingCase& each, size_t part) {
    SCOPED_TRACE(each.name);
    const PartsOfCase parts(each);
    const OwnStream stream = testing::must(OwnStream::create());
    NeighborSampler sampler = testing::must(NeighborSampler::create(
        each.num_nodes,
        placed(parts.relations(part), parts.sizes(part), Place::Device),
        {.kernel = each.options},
        stream.get()
    ));
    for (uint64_t batch = 0; batch < 3; ++batch) {
      const StreamPosition at{.seed = 3, .epoch = 1, .batch = batch};
      testing::must(sampler.begin_hops(each.seed_spans(), at, each.excluded_pairs()));
      testing::must(parts.add_hops(sampler, part, at, each.options.fanout.size()));
      ASSERT_EQ(read(each, testing::must(sampler.wait()), stream), each.by_the_cpu(at))
          << "batch " << batch;
    }
  }

 private:
  static SampledLists read(
      const SamplingCase& each, const SampledBatch& batch, const OwnStream& stream
  ) {
    return each.lists_of(batch, [&]<class T>(const T* data, int64_t size) {
      std::vector<T> host(static_cast<size_t>(size));
      testing::must(copy_to_host(std::as_writable_bytes(std::span(host)), data, stream.get()));
      return host;
    });
  }

  std::vector<DeviceMemory> copies_;
  std::vector<PinnedRange> pinned_;
};

TEST_F(NeighborSamplerOnGpu, SamplesWhatTheCpuSamples) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    expect_the_same(CaseMaker(seed).any(), Place::Device);
    if (HasFatalFailure()) return;
  }
}

TEST_F(NeighborSamplerOnGpu, SamplesWhatTheCpuSamplesWhereSamplersTrip) {
  for (const SamplingCase& each : named_cases()) expect_the_same(each, Place::Device);
}

TEST_F(NeighborSamplerOnGpu, SamplesWhatTheCpuSamplesWhereListsLieElsewhere) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    expect_the_same_in_parts(CaseMaker(seed).any(), seed % PartsOfCase::kParts);
    if (HasFatalFailure()) return;
  }
}

TEST_F(NeighborSamplerOnGpu, SamplesFromPinnedMemory) {
  SamplingCase each = homogeneous_case("", 5000, 20, {15, 10, 5});
  each.seeds = {CaseMaker(1).some_nodes(300, 5000)};
  expect_the_same(each, Place::Host);
}

TEST_F(NeighborSamplerOnGpu, SamplesWideHops) {
  for (const int64_t memory : {int64_t{0}, sampling::core::kSamplerMemoryBytes}) {
    SamplingCase each = homogeneous_case("", 20'000, 30, {15, 10, 3});
    each.seeds = {CaseMaker(1).some_nodes(256, 20'000)};
    each.options.sampler_memory_bytes = memory;
    expect_the_same(each, Place::Device);
  }
}

TEST_F(NeighborSamplerOnGpu, RefusesSeedsOutsideTheGraph) {
  SamplingCase each = homogeneous_case("", 100, 4, {3});
  each.seeds = {{7, 100}};
  NeighborSampler sampler = testing::must(NeighborSampler::create(
      each.num_nodes,
      placed(each.relations(), each.sizes(), Place::Device),
      {.kernel = each.options},
      nullptr
  ));
  const Status refused = sampler.begin(each.seed_spans(), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::Data);
  EXPECT_EQ(
      refused.error().message, "seed 100 is not in the graph, whose nodes of its type are 0 to 99"
  );
}

}  // namespace
}  // namespace gnn::gpu
