#include "controller/runtime/own_writes.h"

#include <gtest/gtest.h>

namespace gnn::runtime {
namespace {

using objects::ObjectKey;

const ObjectKey kKey{"ns", "a"};

TEST(OwnWrites, StoresWhatTheWatchShowsWhereNothingWasWritten) {
  OwnWrites writes;
  EXPECT_TRUE(writes.show(kKey, "3", ""));
  EXPECT_TRUE(writes.show(kKey, "2", "3")) << "as after a restore of etcd";
  EXPECT_FALSE(writes.fulfil(kKey, "9")) << "that nobody expects";
  EXPECT_TRUE(writes.keys("").empty());
}

TEST(OwnWrites, AKnownWriteOutlastsAWatchThatIsBehindUntilItIsShown) {
  OwnWrites writes;
  writes.expect(kKey);
  EXPECT_TRUE(writes.fulfil(kKey, "12"));
  EXPECT_FALSE(writes.show(kKey, "11", "12"));
  EXPECT_TRUE(writes.show(kKey, "12", "12"));
  EXPECT_TRUE(writes.show(kKey, "11", "12")) << "it is no longer held";
}

TEST(OwnWrites, AReplyCountsIfItIsNewerThanWhatWasShownSince) {
  OwnWrites writes;
  for (const auto& [reply, counts] : {std::pair("10", false), {"11", false}, {"12", true}}) {
    writes.expect(kKey);
    EXPECT_TRUE(writes.show(kKey, "11", "9"));
    EXPECT_EQ(writes.fulfil(kKey, reply), counts) << reply;
  }
}

TEST(OwnWrites, WhatIsShownBeforeAWriteIsExpectedSaysNothingOfIt) {
  OwnWrites writes;
  EXPECT_TRUE(writes.show(kKey, "11", "9"));
  writes.expect(kKey);
  EXPECT_TRUE(writes.fulfil(kKey, "10"));
}

TEST(OwnWrites, AFailedWriteOrOneOfUnknownAgeHasNoReplyThatCounts) {
  OwnWrites writes;
  writes.expect(kKey);
  writes.forget(kKey);
  EXPECT_FALSE(writes.fulfil(kKey, "12"));
  writes.expect(kKey);
  EXPECT_TRUE(writes.show(kKey, "", "9"));
  EXPECT_FALSE(writes.fulfil(kKey, "12"));
}

TEST(OwnWrites, AKnownWriteStaysWhileAnotherOneFails) {
  OwnWrites writes;
  writes.expect(kKey);
  EXPECT_TRUE(writes.fulfil(kKey, "12"));
  writes.expect(kKey);
  writes.forget(kKey);
  EXPECT_FALSE(writes.show(kKey, "11", "12"));
}

TEST(OwnWrites, NamesTheObjectsWithWritesByNamespace) {
  OwnWrites writes;
  const ObjectKey other{"other", "b"};
  writes.expect(kKey);
  writes.expect(other);
  EXPECT_TRUE(writes.fulfil(other, "1"));
  EXPECT_EQ(writes.keys(""), (std::vector<ObjectKey>{kKey, other}));
  EXPECT_EQ(writes.keys("ns"), std::vector<ObjectKey>{kKey});
}

}  // namespace
}  // namespace gnn::runtime
