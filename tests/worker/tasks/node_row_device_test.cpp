#include "worker/tasks/node_row_device.h"

#include "tests/worker/comm/in_process_ranks.h"
#include "tests/worker/loader/emulated_row_device.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

namespace gnn::tasks {
namespace {

TEST(NodeRowDevice, PinsMemoryAsItIsOrACopyOfTheNodeWhereAnyRankMayNot) {
  std::vector<std::byte> rows(5000);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::byte>(i % 251);
  for (const int64_t refusing : {0, 1, 2}) {
    SCOPED_TRACE(refusing);
    comm::run_ranks_of_nodes(1, 2, [&](const comm::RankGroups& groups) {
      SilentProgressBar silent;
      auto emulated = std::make_shared<loader::EmulatedRowDevice>();
      if (groups.node->rank() < refusing) {
        emulated->refuse_pin({.kind = ErrorKind::Configuration, .message = "the driver refuses"});
      }
      const auto pinned = comm::require(node_row_device(emulated, groups, silent)->pin(rows));
      EXPECT_EQ(pinned.get() == rows.data(), refusing == 0);
      EXPECT_EQ(std::memcmp(pinned.get(), rows.data(), rows.size()), 0);
    });
  }
}

TEST(NodeRowDevice, EndsOnAllRanksWhereOneHasNoMemoryToPin) {
  const std::vector<std::byte> rows(100);
  comm::run_ranks_of_nodes(1, 2, [&](const comm::RankGroups& groups) {
    SilentProgressBar silent;
    auto emulated = std::make_shared<loader::EmulatedRowDevice>();
    if (groups.node->rank() == 1)
      emulated->refuse_pin({.kind = ErrorKind::OutOfMemory, .message = "ulimit -l"});
    const auto pinned = node_row_device(emulated, groups, silent)->pin(rows);
    ASSERT_FALSE(pinned);
    EXPECT_EQ(pinned.error().kind, ErrorKind::OutOfMemory);
  });
}

}  // namespace
}  // namespace gnn::tasks
