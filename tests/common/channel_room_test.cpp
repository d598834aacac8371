#include "common/channel_room.h"

#include <gtest/gtest.h>

namespace gnn {
namespace {

TEST(ChannelRoom, LetsItemsWaitThatFindNoRoomUntilAnotherIsTaken) {
  ChannelRoom room(10);
  room.made(0, 4);
  room.made(1, 6);
  EXPECT_EQ(room.waiting(), 0);
  room.made(2, 1);
  room.made(3, 1);
  EXPECT_EQ(room.waiting(), 2);
  room.taken();
  EXPECT_EQ(room.waiting(), 0);
}

TEST(ChannelRoom, HoldsOneItemOfAnySize) {
  ChannelRoom room(10);
  room.made(0, 1000);
  EXPECT_EQ(room.waiting(), 0);
  room.made(1, 1000);
  EXPECT_EQ(room.waiting(), 1);
  room.taken();
  EXPECT_EQ(room.waiting(), 0);
}

TEST(ChannelRoom, GivesTheRoomToWhatIsTakenNextThoughItIsMadeLast) {
  ChannelRoom room(10);
  for (const int64_t index : {3, 1, 2}) room.made(index, 5);
  EXPECT_EQ(room.waiting(), 1);  // 3
  room.made(0, 50);
  EXPECT_EQ(room.waiting(), 3);  // all but 0
  room.taken();
  EXPECT_EQ(room.waiting(), 1);
}

TEST(ChannelRoom, HoldsAllWithoutABound) {
  ChannelRoom room(ChannelRoom::kUnbounded);
  for (int64_t index = 0; index < 9; ++index) room.made(index, int64_t{1} << 62);
  EXPECT_EQ(room.waiting(), 0);
}

}  // namespace
}  // namespace gnn
