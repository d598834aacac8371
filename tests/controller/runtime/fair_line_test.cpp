#include "controller/runtime/fair_line.h"

#include <gtest/gtest.h>

#include <map>
#include <rapidcheck.h>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gnn::runtime {
namespace {

// Takes all that may be taken, as "owner item".
std::vector<std::string> take_all(FairLine<int>& line) {
  std::vector<std::string> taken;
  while (const auto next = line.take()) {
    taken.push_back(next->owner + std::to_string(next->item));
  }
  return taken;
}

TEST(FairLine, OwnersTakeTurnsAndKeepTheirOrder) {
  FairLine<int> line;
  for (int i = 1; i <= 3; ++i) line.push("a", i);
  line.push("b", 1);
  EXPECT_EQ(line.turns_before("a"), 4U);
  EXPECT_EQ(line.turns_before("b"), 2U);
  EXPECT_EQ(line.turns_before("c"), 2U);
  EXPECT_EQ(take_all(line), (std::vector<std::string>{"a1", "b1", "a2", "a3"}));
  EXPECT_TRUE(line.empty());
}

TEST(FairLine, AnOwnerThatHoldsItsShareIsPassedOverUntilItGivesBack) {
  FairLine<int> line(2);
  for (int i = 1; i <= 4; ++i) line.push("a", i);
  EXPECT_EQ(take_all(line), (std::vector<std::string>{"a1", "a2"}));
  EXPECT_EQ(line.held_back(), std::set<std::string>{"a"});
  EXPECT_FALSE(line.ready());
  line.push("b", 1);
  EXPECT_EQ(take_all(line), std::vector<std::string>{"b1"});
  line.done("a");
  EXPECT_EQ(take_all(line), std::vector<std::string>{"a3"});
}

TEST(FairLine, OwnersThatHoldAllTheyMayLeaveAPlaceToOneThatHoldsNone) {
  for (const size_t first : {1U, 3U, 6U}) {
    FairLine<int> line(6, 8);
    for (size_t i = 0; i < first; ++i) line.push("a", 0);
    EXPECT_EQ(take_all(line).size(), first);
    for (int i = 0; i < 10; ++i) {
      line.push("a", 0);
      line.push("b", 0);
    }
    EXPECT_EQ(take_all(line).size(), 7 - first) << first;
    EXPECT_TRUE(line.holds_share("a"));
    EXPECT_TRUE(line.holds_share("b"));
    EXPECT_EQ(line.held_back(), (std::set<std::string>{"a", "b"}));
    line.push("c", 1);
    line.push("c", 2);
    EXPECT_EQ(take_all(line), std::vector<std::string>{"c1"}) << first;
    line.done("c");
    EXPECT_EQ(take_all(line), std::vector<std::string>{"c2"}) << "not for those that hold some";
  }
}

TEST(FairLine, DropsTheNewestOfTheOwnerWithTheMost) {
  FairLine<int> line;
  line.push("b", 1);
  for (int i = 1; i <= 3; ++i) line.push("a", i);
  EXPECT_EQ(line.drop_from_longest(), 3);
  EXPECT_EQ(line.drop_from_longest(), 2);
  EXPECT_EQ(line.size(), 2U);
  EXPECT_EQ(take_all(line), (std::vector<std::string>{"b1", "a1"}));
}

TEST(FairLine, AShareLeavesOthersAQuarter) {
  EXPECT_EQ(share_of(8), 6U);
  EXPECT_EQ(share_of(4), 3U);
  EXPECT_EQ(share_of(3), 2U);
  EXPECT_EQ(share_of(2), 1U);
  EXPECT_GT(share_of(1), 1U) << "nobody else could use what is left";
}

// In any order of calls.
void check_turns(const std::vector<std::pair<int, int>>& steps, size_t owners) {
  constexpr size_t kShare = 2;
  FairLine<int> line(kShare);
  std::map<std::string, size_t> waiting;
  std::map<std::string, size_t> held;
  std::map<std::string, size_t> passed_over;
  for (const auto& [step, number] : steps) {
    const std::string owner(1, static_cast<char>('a' + number));
    if (step <= 1) {
      line.push(owner, 0);
      ++waiting[owner];
    } else if (step == 2 && held[owner] > 0) {
      line.done(owner);
      --held[owner];
    } else if (const auto taken = line.take()) {
      passed_over[taken->owner] = 0;
      --waiting[taken->owner];
      RC_ASSERT(++held[taken->owner] <= kShare);
      for (auto& [other, count] : waiting) {
        if (other == taken->owner || count == 0 || held[other] >= kShare) continue;
        RC_ASSERT(++passed_over[other] < owners);
      }
    }
    bool may_take = false;
    for (const auto& [each, count] : waiting) may_take |= count > 0 && held[each] < kShare;
    RC_ASSERT(line.ready() == may_take);
  }
}

TEST(FairLine, NobodyWaitsForMoreThanOneTurnOfEachOther) {
  constexpr int kOwners = 4;
  EXPECT_TRUE(rc::check([] {
    const auto steps = *rc::gen::container<std::vector<std::pair<int, int>>>(
        rc::gen::pair(rc::gen::inRange(0, 4), rc::gen::inRange(0, kOwners))
    );
    check_turns(steps, kOwners);
  }));
}

}  // namespace
}  // namespace gnn::runtime
