#include "worker/tasks/items.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace gnn::tasks {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Status check(const sampling::core::ItemSamplerOptions& options) {
  return check_training_batches(batches_of_ranks(options).value(), "cora", options);
}

sampling::core::ItemSamplerOptions items_of(int64_t num_items, int64_t batch_size) {
  sampling::core::ItemSamplerOptions options;
  options.num_items = num_items;
  options.batch_size = batch_size;
  return options;
}

TEST(CheckTrainingBatches, AcceptsABatchOfTheWholeSet) {
  EXPECT_TRUE(check(items_of(140, 140)));
}

TEST(CheckTrainingBatches, RefusesABatchLargerThanTheSetAndNamesTheField) {
  const Status status = check(items_of(140, 141));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(
      status.error().message,
      AllOf(HasSubstr("spec.training.batchSize"), HasSubstr("140 training items"), HasSubstr("141"))
  );
}

// A rank may have less than one batch of what the set has plenty of: its batch is then smaller.
TEST(CheckTrainingBatches, AcceptsARankWithLessThanABatch) {
  sampling::core::ItemSamplerOptions options = items_of(140, 100);
  options.world_size = 4;
  EXPECT_TRUE(check(options));
}

TEST(CheckTrainingBatches, RefusesADataSetWithoutItems) {
  const Status status = check(items_of(0, 10));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::Data);
  EXPECT_THAT(status.error().message, HasSubstr("cora"));
}

TEST(CheckTrainingBatches, RefusesDropLastThatLeavesNoBatch) {
  sampling::core::ItemSamplerOptions options = items_of(140, 100);
  options.world_size = 4;
  options.split = sampling::core::SplitRule::PaddedStride;
  options.drop_last = true;
  const Status status = check(options);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("spec.training.dropLast"));
}

}  // namespace
}  // namespace gnn::tasks
