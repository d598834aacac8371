#include "worker/tasks/placement.h"

#include "tests/common/api/sample_job.h"
#include "tests/worker/comm/in_process_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gnn::tasks {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kNodes = 4;

graph::Dataset data_of_two_partitions() {
  graph::Dataset dataset;
  dataset.name = "products";
  dataset.digest = "xxh64:1";
  dataset.partitions.emplace();
  dataset.partitions->book.parts = 2;
  dataset.partitions->book.offsets = {{0, 3, 5}};
  return dataset;
}

using ChangeNode = std::function<void(int64_t node, api::GnnJobSpec& spec, graph::Dataset& data)>;

// What all ranks of four nodes say; "" if they find nothing wrong.
std::string checked(const ChangeNode& change) {
  std::vector<std::string> said(2 * kNodes);
  comm::run_ranks_of_nodes(kNodes, 2, [&](const comm::RankGroups& groups) {
    api::GnnJobSpec spec = api::sample_partitioned_job().spec;
    spec.workers.nodes = kNodes;
    graph::Dataset dataset = data_of_two_partitions();
    change(groups.all->rank() / 2, spec, dataset);
    const Status status = check_placement(spec, dataset, groups);
    if (status) return;
    said[static_cast<size_t>(groups.all->rank())] =
        std::string(to_string(status.error().kind)) + ": " + status.error().message;
  });
  for (const std::string& each : said) EXPECT_EQ(each, said.front());
  return said.front();
}

TEST(CheckPlacement, TakesWhatFitsAndNamesTheNodeAndPathOfWhatDoesNot) {
  EXPECT_EQ(checked([](int64_t, auto&, auto&) {}), "");
  EXPECT_EQ(
      checked([](int64_t node, auto&, auto& data) {
        if (node != 1) data.partitions->only = node % 2;
      }),
      ""
  );
  EXPECT_EQ(
      checked([](int64_t, auto& spec, auto& data) {
        spec.placement.reset();
        data.partitions.reset();
      }),
      ""
  );

  const std::string place = "spec.dataset.path /data/products, node ";
  EXPECT_THAT(
      checked([](int64_t node, auto&, auto& data) {
        if (node == 2) data.partitions.reset();
      }),
      AllOf(HasSubstr("Configuration: " + place + "2"), HasSubstr("found data without partitions"))
  );
  EXPECT_THAT(
      checked([](int64_t, auto& spec, auto&) { spec.placement->partitions = 4; }),
      AllOf(
          HasSubstr("Configuration: " + place + "0"), HasSubstr("expected 4"), HasSubstr("found 2")
      )
  );
  EXPECT_THAT(
      checked([](int64_t, auto&, auto& data) { data.partitions->only = 0; }),
      AllOf(
          HasSubstr("Data: " + place + "1"),
          HasSubstr("expected partition 1 or the whole data set, found partition 0 alone")
      )
  );
  for (const auto replicated : {&api::Placement::topology, &api::Placement::features}) {
    EXPECT_THAT(
        checked([&](int64_t node, auto& spec, auto& data) {
          (*spec.placement).*replicated = api::PlacementMode::Replicated;
          if (node == 3) data.partitions->only = 1;
        }),
        AllOf(HasSubstr("Configuration: " + place + "3"), HasSubstr("expected the whole data set"))
    );
  }
  EXPECT_THAT(
      checked([](int64_t node, auto&, auto& data) {
        if (node == 3) data.digest = "xxh64:2";
      }),
      AllOf(
          HasSubstr("Data: spec.dataset.path /data/products"),
          HasSubstr("xxh64:1 on nodes 0, 1, 2; xxh64:2 on node 3")
      )
  );
}

}  // namespace
}  // namespace gnn::tasks
