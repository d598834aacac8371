#include "controller/runtime/store.h"

#include "controller/objects/pod.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace gnn::runtime {
namespace {

using objects::Pod;

Store<Pod>::Pointer pod(
    const std::string& name, const std::string& version, const std::string& job = "j"
) {
  Pod pod;
  pod.metadata.namespace_ = "ns";
  pod.metadata.name = name;
  pod.metadata.resource_version = version;
  pod.metadata.labels["job"] = job;
  return std::make_shared<const Pod>(std::move(pod));
}

class StoreTest : public ::testing::Test {
 protected:
  StoreTest() {
    store_.on_change([this](const Store<Pod>::Pointer& before, const Store<Pod>::Pointer& after) {
      changes_.push_back(
          (before ? before->metadata.name + before->metadata.resource_version : "-") + ">" +
          (after ? after->metadata.name + after->metadata.resource_version : "-")
      );
    });
  }

  Store<Pod> store_{[](const Pod& pod) { return pod.metadata.labels.at("job"); }};
  std::vector<std::string> changes_;
};

TEST_F(StoreTest, IsSyncedAfterTheFirstList) {
  store_.upsert(pod("a", "1"));
  EXPECT_FALSE(store_.synced());
  store_.replace({});
  EXPECT_TRUE(store_.synced());
}

TEST_F(StoreTest, AListShowsWhatWasDeletedMeanwhile) {
  store_.replace({pod("a", "1"), pod("b", "2"), pod("c", "3")});
  changes_.clear();
  store_.replace({pod("a", "1"), pod("b", "5"), pod("d", "6")});
  std::sort(changes_.begin(), changes_.end());
  EXPECT_EQ(changes_, (std::vector<std::string>{"->d6", "b2>b5", "c3>-"}));
  EXPECT_EQ(store_.size(), 3U);
  EXPECT_EQ(store_.group("j").size(), 3U);
}

TEST_F(StoreTest, AListOfOneNamespaceLeavesTheOthersAlone) {
  Pod other;
  other.metadata.namespace_ = "other";
  other.metadata.name = "x";
  other.metadata.labels["job"] = "j";
  store_.replace({std::make_shared<const Pod>(other)}, "other");
  EXPECT_FALSE(store_.synced("ns"));
  store_.replace({pod("a", "1")}, "ns");
  EXPECT_TRUE(store_.synced("ns"));
  EXPECT_EQ(store_.size(), 2U);
  store_.replace({}, "ns");
  EXPECT_EQ(store_.size(), 1U);
}

TEST_F(StoreTest, GroupsFollowTheObject) {
  store_.upsert(pod("a", "1", "x"));
  store_.upsert(pod("b", "1", "x"));
  store_.upsert(pod("a", "2", "y"));
  EXPECT_EQ(store_.group("x").size(), 1U);
  EXPECT_EQ(store_.group("y").size(), 1U);
  store_.erase({"ns", "a"}, "3");
  EXPECT_TRUE(store_.group("y").empty());
  EXPECT_EQ(store_.find({"ns", "a"}), nullptr);
}

TEST_F(StoreTest, ReadsWhatItWroteBeforeTheWatchShowsIt) {
  store_.expect({"ns", "a"});
  store_.fulfil(pod("a", "3"));
  ASSERT_NE(store_.find({"ns", "a"}), nullptr);
  EXPECT_TRUE(changes_.empty());
  store_.upsert(pod("a", "3"));
  EXPECT_TRUE(changes_.empty()) << "the reader knows what it wrote";
  store_.upsert(pod("a", "4"));
  EXPECT_EQ(changes_, std::vector<std::string>{"a3>a4"});
}

TEST_F(StoreTest, TheWatchWinsOverAnAnswerThatComesLate) {
  store_.expect({"ns", "a"});
  store_.upsert(pod("a", "4"));
  store_.fulfil(pod("a", "3"));
  EXPECT_EQ(store_.find({"ns", "a"})->metadata.resource_version, "4");

  store_.expect({"ns", "b"});
  store_.upsert(pod("b", "5"));
  store_.erase({"ns", "b"}, "6");
  store_.fulfil(pod("b", "5"));
  EXPECT_EQ(store_.find({"ns", "b"}), nullptr);

  store_.expect({"ns", "c"});
  store_.replace({});
  store_.fulfil(pod("c", "6"));
  EXPECT_EQ(store_.find({"ns", "c"}), nullptr);
}

TEST_F(StoreTest, TheWatchDoesNotTakeBackWhatAReaderWroteSince) {
  store_.upsert(pod("a", "9"));
  store_.expect({"ns", "a"});
  store_.fulfil(pod("a", "12"));
  changes_.clear();

  store_.upsert(pod("a", "11"));
  EXPECT_EQ(store_.find({"ns", "a"})->metadata.resource_version, "12");
  store_.erase({"ns", "a"}, "11");  // of the object that had the name before
  EXPECT_NE(store_.find({"ns", "a"}), nullptr);
  EXPECT_TRUE(changes_.empty());

  store_.upsert(pod("a", "12"));
  store_.erase({"ns", "a"}, "13");
  EXPECT_EQ(store_.find({"ns", "a"}), nullptr);
  EXPECT_EQ(changes_, std::vector<std::string>{"a12>-"});
}

TEST_F(StoreTest, AnAnswerCountsIfItIsNewerThanWhatTheWatchSaidMeanwhile) {
  store_.upsert(pod("a", "9"));
  store_.expect({"ns", "a"});
  store_.upsert(pod("a", "11"));
  store_.fulfil(pod("a", "12"));
  EXPECT_EQ(store_.find({"ns", "a"})->metadata.resource_version, "12");

  store_.expect({"ns", "b"});
  store_.erase({"ns", "b"}, "");
  store_.fulfil(pod("b", "13"));
  EXPECT_EQ(store_.find({"ns", "b"}), nullptr);
}

TEST_F(StoreTest, AListDoesNotTakeBackWhatAReaderWroteSince) {
  store_.replace({pod("a", "5")}, "", "6");
  store_.expect({"ns", "a"});
  store_.fulfil(pod("a", "12"));
  changes_.clear();
  store_.replace({pod("a", "5")}, "", "9");
  EXPECT_EQ(store_.find({"ns", "a"})->metadata.resource_version, "12");
  EXPECT_TRUE(changes_.empty());
  store_.replace({pod("a", "14")}, "", "15");
  EXPECT_EQ(store_.find({"ns", "a"})->metadata.resource_version, "14");
  EXPECT_EQ(store_.group("j").size(), 1U);
}

TEST_F(StoreTest, AListThatIsOlderThanWhatAReaderMadeDoesNotTakeItAway) {
  // The answer came before the list, the list was read before the create.
  store_.expect({"ns", "a"});
  store_.fulfil(pod("a", "12"));
  store_.replace({}, "", "9");
  EXPECT_NE(store_.find({"ns", "a"}), nullptr);
  EXPECT_EQ(store_.group("j").size(), 1U);
  store_.replace({}, "other", "13");
  EXPECT_NE(store_.find({"ns", "a"}), nullptr);
  store_.replace({}, "", "13");
  EXPECT_EQ(store_.find({"ns", "a"}), nullptr);

  // The answer comes after the list: it counts if it is newer.
  store_.expect({"ns", "b"});
  store_.replace({}, "", "14");
  store_.fulfil(pod("b", "15"));
  EXPECT_NE(store_.find({"ns", "b"}), nullptr);
  store_.expect({"ns", "c"});
  store_.replace({}, "", "17");
  store_.fulfil(pod("c", "16"));
  EXPECT_EQ(store_.find({"ns", "c"}), nullptr);
}

TEST_F(StoreTest, AListTakesAwayWhatTheWatchHasShownBefore) {
  store_.expect({"ns", "a"});
  store_.fulfil(pod("a", "12"));
  store_.upsert(pod("a", "12"));
  // Older than the object, as after a restore of etcd: the list is the truth.
  store_.replace({}, "", "9");
  EXPECT_EQ(store_.find({"ns", "a"}), nullptr);
}

}  // namespace
}  // namespace gnn::runtime
