#include "controller/runtime/memory_budget.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

namespace gnn::runtime {
namespace {

// How many objects of that size the namespace gets.
size_t fill(
    MemoryBudget& budget,
    const std::string& name_space,
    int64_t bytes,
    std::vector<MemoryBudget::Charge>& charges
) {
  size_t count = 0;
  while (auto charge = budget.admit(name_space, bytes, 0)) {
    charges.push_back(std::move(*charge));
    ++count;
  }
  return count;
}

void keep_only(size_t count, std::vector<MemoryBudget::Charge>& charges) {
  while (charges.size() > count) charges.pop_back();
}

TEST(MemoryBudget, LeavesAQuarterToOthersWhateverOneNamespaceMakes) {
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    MemoryBudget budget(1'000'000);
    std::vector<MemoryBudget::Charge> charges;
    for (int j = 0; j < 2000; ++j) {
      const auto bytes = static_cast<int64_t>(1 + random() % 100'000);
      const auto instead_of = static_cast<int64_t>(random() % 2 == 0 ? 0 : random() % 1000);
      if (auto charge = budget.admit("filled", bytes, instead_of)) {
        charges.push_back(std::move(*charge));
      }
    }
    ASSERT_LE(budget.used(), 750'000 + 1000);
    ASSERT_TRUE(budget.admit("other", 100'000, 0));
  }
}

TEST(MemoryBudget, HasRoomForTheNextNamespaceHoweverManyFillIt) {
  MemoryBudget budget(1'000'000);
  std::vector<MemoryBudget::Charge> charges;
  for (const char* name_space : {"a", "b", "c", "d"}) {
    EXPECT_GT(fill(budget, name_space, 100, charges), 10U) << name_space;
  }
}

TEST(MemoryBudget, TakesChargesBackWithTheirObjects) {
  MemoryBudget budget(10'000);
  std::vector<MemoryBudget::Charge> charges;
  const size_t count = fill(budget, "a", 100, charges);
  EXPECT_FALSE(budget.admit("a", 100, 0));
  keep_only(count - 1, charges);
  EXPECT_TRUE(budget.admit("a", 100, 0));
  charges.clear();
  EXPECT_EQ(budget.used(), 0);
  EXPECT_EQ(budget.used_by("a"), 0);
}

// Else a running job's status could not be followed once new objects have filled the namespace.
TEST(MemoryBudget, LetsObjectsGrowWhereNewOnesHaveNoRoom) {
  MemoryBudget budget(10'000);
  std::vector<MemoryBudget::Charge> charges;
  fill(budget, "a", 100, charges);
  EXPECT_FALSE(budget.admit("a", 100, 0));
  EXPECT_TRUE(budget.admit("a", 150, 100));
}

TEST(MemoryBudget, RemembersWhatWasLeftOutUntilItIsAdmittedOrGone) {
  MemoryBudget budget(10'000);
  EXPECT_EQ(budget.complaint("a"), "");
  budget.leave_out("pods", {"a", "x"});
  budget.leave_out("pods", {"a", "x"});
  budget.leave_out("services", {"a", "x"});
  EXPECT_TRUE(budget.is_left_out("pods", {"a", "x"}));
  EXPECT_FALSE(budget.is_left_out("pods", {"b", "x"}));
  EXPECT_EQ(budget.left_out("pods"), 1U);
  EXPECT_NE(budget.complaint("a").find("pods, services"), std::string::npos);
  EXPECT_EQ(budget.complaint("b"), "");
  budget.not_left_out("pods", {"a", "x"});
  budget.replace_left_out("services", "", {});
  EXPECT_EQ(budget.complaint("a"), "");
}

TEST(MemoryBudget, ComplainsOfMoreThanItRemembersUntilTheNextList) {
  MemoryBudget budget(10'000);
  for (int i = 0; i < 20'000; ++i) budget.leave_out("pods", {"a", std::to_string(i)});
  EXPECT_LT(budget.left_out("pods"), 20'000U);
  for (int i = 0; i < 20'000; ++i) budget.not_left_out("pods", {"a", std::to_string(i)});
  EXPECT_NE(budget.complaint("a"), "");
  budget.replace_left_out("pods", "a", {});
  EXPECT_EQ(budget.complaint("a"), "");
}

TEST(MemoryBudget, HasRoomAgainOnceANamespaceIsDownToHalfOfItsShare) {
  MemoryBudget budget(10'000);
  std::vector<MemoryBudget::Charge> charges;
  fill(budget, "a", 100, charges);
  budget.leave_out("pods", {"a", "x"});
  EXPECT_FALSE(budget.has_room_again("pods"));
  keep_only(charges.size() / 3, charges);
  EXPECT_TRUE(budget.has_room_again("pods"));
  EXPECT_FALSE(budget.has_room_again("services"));
}

}  // namespace
}  // namespace gnn::runtime
