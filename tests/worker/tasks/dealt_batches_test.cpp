#include "worker/tasks/dealt_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

namespace gnn::tasks {
namespace {

using ::testing::HasSubstr;

// Two nodes with two ranks each, and a partition for either: 20 and 50 items in batches of 4.
sampling::core::ItemSampler two_partitions() {
  std::vector<int64_t> nodes(70);
  for (size_t i = 0; i < nodes.size(); ++i) nodes[i] = static_cast<int64_t>(i);
  const std::vector<int64_t> bounds{0, 20, 70};
  return sampling::core::ItemSampler::create({.num_items = 70,
                                              .batch_size = 4,
                                              .world_size = 4,
                                              .split = sampling::core::SplitRule::Owner,
                                              .shuffle = true,
                                              .parts =
                                                  std::make_shared<const sampling::core::ItemParts>(
                                                      sampling::core::items_by_part(nodes, bounds)
                                                  ),
                                              .ranks_per_node = 2})
      .value();
}

TEST(BatchRequests, AreThoseOfTheServersOwnDealOrRefused) {
  const auto sampler = two_partitions();
  const BatchName name{.epoch = 3, .rank = 2, .index = 1};
  const servers::BatchRequest right = request_of(sampler, name);
  EXPECT_EQ(right.partition, 1);
  EXPECT_EQ(right.first_position, 20 + 4);
  EXPECT_EQ(right.count, 4);
  EXPECT_TRUE(check_request(sampler, right, 1));
  using Change = std::function<void(servers::BatchRequest&)>;
  for (const Change& change : std::vector<Change>{
           [](auto& request) { request.partition = 0; },
           [](auto& request) { request.partition = -1; },
           [](auto& request) { ++request.first_position; },
           [](auto& request) { --request.count; },
           [](auto& request) { request.rank = 4; },
           [](auto& request) { request.rank = -1; },
           [](auto& request) { request.index = 7; },
           [](auto& request) { request.index = -1; },
           [](auto& request) { request.epoch = -1; },
       }) {
    servers::BatchRequest wrong = right;
    change(wrong);
    const Status refused = check_request(sampler, wrong, 1);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::Data);
    EXPECT_THAT(refused.error().message, HasSubstr("expected"));
  }
  EXPECT_FALSE(check_request(sampler, right, 0)) << "another server holds that partition";
}

TEST(EpochOrders, AreMadeOnceForTheRanksThatShareThem) {
  const EpochOrders orders(two_partitions());
  const auto first = orders.order(2, 5);
  EXPECT_EQ(orders.order(3, 5), first);
  EXPECT_NE(orders.order(0, 5), first);
  EXPECT_EQ(orders.order(2, 5), first) << "the one that was used last stays";
  EXPECT_EQ(orders.sampler().order_for(2, 5).items, first->items);
  (void)orders.order(2, 6);
  (void)orders.order(2, 7);
  EXPECT_NE(orders.order(2, 5), first) << "two are kept";
}

}  // namespace
}  // namespace gnn::tasks
