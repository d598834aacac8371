#include "worker/tasks/run_training.h"

#include "tests/worker/comm/in_process_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

namespace gnn::tasks {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

graph::Dataset dataset_of(const std::string& digest) {
  graph::Dataset dataset;
  dataset.name = "arxiv";
  dataset.digest = digest;
  return dataset;
}

TEST(CheckSameDataset, AcceptsEqualDigests) {
  comm::run_ranks(2, [](const std::shared_ptr<comm::Communicator>& communicator) {
    EXPECT_TRUE(check_same_dataset(*communicator, dataset_of("xxh64:1")));
  });
}

TEST(CheckSameDataset, NamesRanksAndDigestsOnEveryRank) {
  comm::run_ranks(3, [](const std::shared_ptr<comm::Communicator>& communicator) {
    const bool stale = communicator->rank() == 1;
    const Status status =
        check_same_dataset(*communicator, dataset_of(stale ? "xxh64:2" : "xxh64:1"));
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().kind, ErrorKind::Data);
    EXPECT_THAT(
        status.error().message,
        AllOf(HasSubstr("spec.dataset"), HasSubstr("xxh64:1 on ranks 0, 2; xxh64:2 on rank 1"))
    );
  });
}

}  // namespace
}  // namespace gnn::tasks
