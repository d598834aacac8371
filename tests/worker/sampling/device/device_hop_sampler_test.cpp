#include "worker/sampling/device/device_hop_sampler.h"

#include "tests/support/emulated_sampling_device.h"
#include "tests/worker/sampling/device/parts_cases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <future>
#include <thread>
#include <utility>
#include <vector>

namespace gnn::sampling::device {
namespace {

using testing::EmulatedSamplingDevice;
using ::testing::HasSubstr;
using testing::must;

TEST(DeviceHopSampler, SamplesInEachPartWhatOneProcessSamples) {
  for (const PartsCase& each : parts_cases()) {
    // One part has all; the second of four has nothing, and is sent all that it needs.
    for (const int64_t parts : {1, 4}) {
      SCOPED_TRACE(std::to_string(parts) + " parts");
      const shards::Shop shop(parts);
      for (const bool extracted : {false, true}) {
        const shards::Job job(shop, each.sampling, extracted, /*most_reply_bytes=*/3000);
        for (int64_t part = extracted ? 0 : parts - 1; part < parts; ++part)
          expect_the_bits_of_one(each, shop, job, part, std::make_shared<EmulatedSamplingDevice>());
      }
    }
  }
}

// Several batches on this one thread wait for replies at the same time, each with a sampler.
TEST(DeviceHopSampler, HoldsNoThreadWhileOthersAnswer) {
  const PartsCase each = parts_cases().front();
  const shards::Shop shop(3);
  const shards::Job job(shop, each.sampling, /*extracted=*/true);
  const NeighborSampler whole = shards::local_sampler(shop.whole(), each.sampling);
  const auto device = std::make_shared<EmulatedSamplingDevice>();
  const auto sampler = device_part_sampler(job, 0, device);
  job.peer(2).hold();
  std::vector<std::future<Result<SampledSubgraph>>> sampled;
  for (uint64_t batch = 0; batch < 3; ++batch)
    sampled.push_back(sampler->submit(request_of(each, whole, batch)));
  job.peer(2).wait_for_held(3);
  EXPECT_EQ(device->samplers(), 3);
  job.peer(2).release();
  for (uint64_t batch = 0; batch < 3; ++batch) {
    const SampleRequest request = request_of(each, whole, batch);
    expect_equal(must(sampled[batch].get()), must(whole.sample(request.seeds, request.position)));
  }
  must(sampler->submit(request_of(each, whole, 4)).get());
  EXPECT_EQ(device->samplers(), 3) << "samplers are used again";
}

TEST(DeviceHopSampler, HasASamplerForTheNextBatchWhenOneIsDone) {
  const PartsCase each = parts_cases().front();
  const shards::Shop shop(2);
  const shards::Job job(shop, each.sampling, /*extracted=*/true);
  const NeighborSampler whole = shards::local_sampler(shop.whole(), each.sampling);
  const auto device = std::make_shared<EmulatedSamplingDevice>();
  const auto sampler = device_part_sampler(job, 1, device);
  std::promise<Result<SampledSubgraph>> sampled;
  sampler->start(
      request_of(each, whole, 0),
      [](const auto& task) { task(); },
      [&](const Result<SampledSubgraph>& first) {
        must(first);
        sampler->start(
            request_of(each, whole, 1),
            [](const auto& task) { task(); },
            [&](Result<SampledSubgraph> second) { sampled.set_value(std::move(second)); }
        );
      }
  );
  must(sampled.get_future().get());
  EXPECT_EQ(device->samplers(), 1);
}

TEST(DeviceHopSampler, NeverHasMoreSamplersThanAreAllowed) {
  const PartsCase each = parts_cases().front();
  const shards::Shop shop(2);
  const shards::Job job(shop, each.sampling, /*extracted=*/true);
  const NeighborSampler whole = shards::local_sampler(shop.whole(), each.sampling);
  const auto device = std::make_shared<EmulatedSamplingDevice>();
  const auto sampler = device_part_sampler(job, 1, device, {.in_flight = 2});
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (uint64_t batch = thread; batch < 12; batch += 4) {
        const SampleRequest request = request_of(each, whole, batch);
        expect_equal(
            must(sampler->submit(request).get()),
            must(whole.sample(request.seeds, request.position))
        );
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(device->samplers(), 2);
}

// Of a whole data set the lists of all parts but the first begin behind others' edges.
TEST(DeviceHopSampler, HasAPartsListsOnceForAllItsSamplers) {
  const PartsCase each = parts_cases().front();
  const shards::Shop shop(3);
  const shards::Job job(shop, each.sampling, /*extracted=*/false);
  const auto evaluation = must(shards::PartSampler::create(job.part(2), job.spec(2)));
  const auto graph = std::make_shared<DeviceGraph>(std::make_shared<EmulatedSamplingDevice>());
  int64_t bytes = 0;
  for (const shards::PartRelation& relation : job.spec(2).relations) {
    const data::IdRange own = job.part(2)->own(relation.destination_type);
    const auto* const indptr = relation.lists.indptr.const_data_ptr<int64_t>();
    ASSERT_GT(indptr[0], 0);
    bytes += (own.size() + 1) * 8 + (indptr[own.size()] - indptr[0]) *
                                        static_cast<int64_t>(relation.lists.indices.element_size());
  }
  const std::vector<const shards::PartSampler*> samplers{
      &job.own(2), evaluation.get(), evaluation.get()
  };
  for (const shards::PartSampler* const sampler : samplers) {
    must(DeviceHopSampler::create(
        sampler->options(), sampler->part().num_nodes(), must(sampler->own_relations()), graph
    ));
    EXPECT_EQ(graph->bytes(), bytes);
  }
}

TEST(DeviceHopSampler, NamesAPeerThatIsLostOrAnswersWronglyAsTheCpuDoes) {
  const PartsCase each = parts_cases().front();
  const shards::Shop shop(2);
  const shards::Job job(shop, each.sampling, /*extracted=*/true);
  const SampleRequest request =
      request_of(each, shards::local_sampler(shop.whole(), each.sampling), 1);
  const auto on_device = device_part_sampler(job, 0, std::make_shared<EmulatedSamplingDevice>());
  const auto on_cpu = job.sampler(0);
  const auto error_of = [&](const std::shared_ptr<Sampler>& sampler) {
    const auto sample = sampler->submit(request).get();
    return sample ? Error{} : sample.error();
  };

  job.peer(1).spoil([](auto& bytes) { bytes[bytes.size() - 1] = std::byte{0xFF}; });
  EXPECT_THAT(error_of(on_device).message, HasSubstr("node 1: hop: "));
  EXPECT_EQ(error_of(on_device), error_of(on_cpu));
  job.peer(1).spoil(nullptr);
  must(on_device->submit(request).get());  // the batch that ended left nothing behind

  SampleRequest outside = request;
  outside.seeds[1] = at::tensor({int64_t{5}, shards::Shop::kItems}, at::kLong);
  EXPECT_EQ(
      on_device->submit(outside).get().error().message,
      "seeds[1]: expected a node in [0, 300), found 300"
  );

  job.peer(1).lose();
  EXPECT_EQ(error_of(on_device), (Error{ErrorKind::PeerLost, "node 1: closed the connection"}));
}

}  // namespace
}  // namespace gnn::sampling::device
