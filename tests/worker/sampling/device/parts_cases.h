#pragma once

#include "tests/support/must.h"
#include "tests/worker/sampling/device/sampler_cases.h"
#include "tests/worker/shards/parts.h"
#include "worker/sampling/async_sampler.h"
#include "worker/sampling/device/device_graph.h"
#include "worker/sampling/device/device_hop_sampler.h"
#include "worker/sampling/device/sampling_device.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gnn::sampling::device {

/// What the parts of a job sample, and whose edges a batch leaves out.
struct PartsCase {
  shards::ShopSampling sampling;
  bool excludes = false;
};

/// Both rules, with and without replacement, lists that are taken whole or seen in part, fan-outs of
/// edge types, and edges that are left out.
inline std::vector<PartsCase> parts_cases() {
  std::vector<PartsCase> cases(4);
  cases[0].sampling.options.fanout = {4, 40, 2};
  cases[1].sampling.options = {.fanout = {4, 3}, .replace = true, .rule = SamplingRule::AllSeen};
  cases[2].sampling.options.fanout = {-1, 3, 0};
  cases[2].sampling.fanouts = {{}, {2, -1, 5}, {0, 70, 1}};
  cases[3].sampling.options.fanout = {8, 8};
  cases[3].sampling.with_ends = true;
  cases[3].excludes = true;
  for (const size_t with_edge_ids : {1, 2, 3})
    cases[with_edge_ids].sampling.options.with_edge_ids = true;
  return cases;
}

/// Around seeds of both types of a shop, some of them twice, without edges that they would draw.
inline SampleRequest request_of(
    const PartsCase& each, const NeighborSampler& whole, uint64_t batch
) {
  SampleRequest request{
      .seeds =
          {at::arange(static_cast<int64_t>(batch), shards::Shop::kUsers, 37, at::kLong) % 600,
           at::tensor({5, 299, 0, 5, 17}, at::kLong)},
      .position = {.seed = 7, .epoch = 2, .batch = batch}
  };
  if (!each.excludes) return request;
  const SampledSubgraph drawn = testing::must(whole.sample(request.seeds, request.position));
  const graph::Block& block = drawn.blocks.back()[1];  // from items to users
  const at::Tensor rows = at::repeat_interleave(
      at::arange(block.num_destinations), block.indptr.diff(), 0, block.indices.numel()
  );
  request.excluded.push_back(
      {.relation = 1,
       .sources = drawn.node_ids[1].index_select(0, block.indices).slice(0, 0, {}, 3).contiguous(),
       .destinations = drawn.node_ids[0].index_select(0, rows).slice(0, 0, {}, 3).contiguous()}
  );
  return request;
}

/// A sampler of one part of a job that draws from its lists, and relabels, on a device.
inline std::shared_ptr<Sampler> device_part_sampler(
    const shards::Job& job,
    int64_t part,
    std::shared_ptr<SamplingDevice> device,
    const BatchLimits& limits = {}
) {
  const shards::PartSampler& own = job.own(part);
  return job.sampler(
      part,
      testing::must(DeviceHopSampler::create(
          own.options(),
          own.part().num_nodes(),
          testing::must(own.own_relations()),
          std::make_shared<DeviceGraph>(std::move(device)),
          limits
      ))
  );
}

/// What the part samples on the device is what one process samples on a CPU that has the whole graph.
inline void expect_the_bits_of_one(
    const PartsCase& each,
    const shards::Shop& shop,
    const shards::Job& job,
    int64_t part,
    std::shared_ptr<SamplingDevice> device
) {
  SCOPED_TRACE("part " + std::to_string(part));
  const NeighborSampler whole = shards::local_sampler(shop.whole(), each.sampling);
  const auto sampler = device_part_sampler(job, part, std::move(device));
  for (uint64_t batch = 0; batch < 2; ++batch) {
    const SampleRequest request = request_of(each, whole, batch);
    expect_equal(
        testing::must(sampler->submit(request).get()),
        testing::must(whole.sample(request.seeds, request.position, request.excluded))
    );
  }
}

}  // namespace gnn::sampling::device
