#include "worker/servers/directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace gnn::servers {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> numbers_of(const std::vector<LiveServer>& servers) {
  std::vector<int64_t> numbers;
  for (const LiveServer& each : servers) numbers.push_back(each.server);
  return numbers;
}

TEST(Directory, NamesTheHoldersOfAPartAndTellsOfEachChangeOnce) {
  Directory directory;
  SystemClock clock;
  EXPECT_EQ(directory.read()->version, 0);
  int64_t told = 0;
  auto subscription = directory.subscribe([&] { ++told; });

  directory.update({{4, 0, "e:1"}, {1, 1, "b:2"}, {0, 0, "a:1"}, {1, 0, "b:1"}, {3, 2, "d:1"}});
  EXPECT_THAT(numbers_of(directory.holders_of(0, 3)), ElementsAre(0, 3));
  EXPECT_THAT(numbers_of(directory.holders_of(1, 3)), ElementsAre(1, 4));
  EXPECT_THAT(numbers_of(directory.holders_of(2, 3)), ElementsAre());
  EXPECT_THAT(numbers_of(directory.holders_of(-1, 3)), ElementsAre(0, 1, 3, 4));
  // Of two pods of one server the later one is asked.
  EXPECT_EQ(directory.holders_of(1, 3).front().address, "b:2");

  // The same servers in another order are no news.
  directory.update({{3, 2, "d:1"}, {0, 0, "a:1"}, {1, 1, "b:2"}, {4, 0, "e:1"}});
  EXPECT_EQ(directory.read()->version, 1);
  EXPECT_EQ(told, 1);

  std::thread updating([&] { directory.update({}); });
  const auto changed =
      directory.wait_for_change(1, clock, clock.monotonic() + std::chrono::minutes(1));
  updating.join();
  EXPECT_EQ(changed->version, 2);
  EXPECT_TRUE(changed->servers.empty());
  EXPECT_EQ(told, 2);
  EXPECT_EQ(directory.wait_for_change(2, clock, clock.monotonic())->version, 2);

  subscription.reset();
  directory.update({{0, 0, "a:1"}});
  EXPECT_EQ(told, 2);
}

}  // namespace
}  // namespace gnn::servers
