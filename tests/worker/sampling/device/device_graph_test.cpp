#include "worker/sampling/device/device_graph.h"

#include "tests/support/emulated_sampling_device.h"
#include "tests/worker/sampling/device/sampler_cases.h"

#include <gtest/gtest.h>

namespace gnn::sampling::device {
namespace {

using testing::EmulatedSamplingDevice;
using testing::must;

TEST(DeviceGraph, PlacesEachArrayOnceHoweverManySamplersReadIt) {
  SamplerCase training = sampler_cases().back();
  SamplerCase evaluation = training;
  evaluation.relations[0].ends = half_of(training.relations[0].graph);
  const auto device = std::make_shared<EmulatedSamplingDevice>();
  DeviceGraph graph(device);
  for (const SamplerCase* each : {&training, &evaluation, &training}) {
    for (size_t i = 0; i < each->relations.size(); ++i)
      must(graph.view_of(each->relations[i], i, false));
  }
  // Three relations' offsets and sources, and two cuts of the first.
  EXPECT_EQ(device->placed(), 3 * 2 + 2);

  std::vector<Relation> both = training.relations;
  both.insert(both.end(), evaluation.relations.begin(), evaluation.relations.end());
  EXPECT_EQ(graph.bytes(), graph_bytes(both));
  int64_t bytes = 0;
  for (const Relation& relation : training.relations) {
    bytes += 8 * (relation.graph.num_destinations() + 1);
    bytes +=
        relation.graph.num_edges() * static_cast<int64_t>(relation.graph.indices().element_size());
  }
  EXPECT_EQ(graph_bytes(both), bytes + 2 * 8 * training.num_nodes[1]);
}

TEST(DeviceGraph, ReadsARelationWithoutEdges) {
  const Relation none{
      .graph =
          must(graph::CscGraph::create(at::zeros({4}, at::kLong), at::empty({0}, at::kInt), 5)),
      .source_type = 0,
      .destination_type = 1
  };
  DeviceGraph graph(std::make_shared<EmulatedSamplingDevice>());
  const core::RelationView view = must(graph.view_of(none, 0, true));
  EXPECT_EQ(view.indices64, nullptr);
  EXPECT_EQ(view.edge_ids, nullptr);
  EXPECT_EQ(view.indptr[3], 0);
}

}  // namespace
}  // namespace gnn::sampling::device
