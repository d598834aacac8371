#include "tests/integration/controller/gangs.h"
#include "tests/support/group_crds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <string>

// The plugin Coscheduling of kubernetes-sigs/scheduler-plugins, in a real scheduler.
namespace gnn::testing {
namespace {

using ::testing::HasSubstr;

// No event wakes a gang that the plugin rejected: the scheduler looks for such pods every 30 seconds.
constexpr std::chrono::seconds kPatience(120);

Gangs::Options coscheduling() {
  return {
      .plane = {.programs = ControlPlanePrograms::Coscheduling},
      .group_api = kCoschedulingApi,
      .provider = "Coscheduling",
      .more = {"--coscheduling-scheduler=coscheduling"},
      .crds = "podgroups.yaml",
      .changes = {{"workers", {{"template", {{"schedulerName", "coscheduling"}}}}}},
  };
}

TEST(Coscheduling, OfTwoGangsOneIsWholeAndNoneIsPartial) {
  const Gangs gangs(coscheduling());
  gangs.create("a");
  ASSERT_TRUE(eventually([&] { return gangs.runs("a"); })) << gangs.log();
  gangs.create("b");
  ASSERT_TRUE(eventually([&] {
    const std::string why = gangs.cluster().condition("b", "Scheduled")["message"];
    return gangs.why_not_scheduled("b") == "GangPending" && why.find("b-1") != std::string::npos;
  })) << gangs.log();
  EXPECT_THAT(
      gangs.cluster().condition("b", "Scheduled")["message"].get<std::string>(),
      HasSubstr("gets rejected")
  );
  EXPECT_EQ(gangs.placed("a"), 3);
  EXPECT_EQ(gangs.placed("b"), 0);
  EXPECT_EQ(gangs.groups(), "a-1 b-1");
  EXPECT_EQ(
      gangs.status("a")["scheduling"], (Json{{"provider", "Coscheduling"}, {"group", "a-1"}})
  );

  expect_turns(gangs, kPatience);
}

// How long the scheduler leaves places empty between two gangs that want them all.
TEST(Coscheduling, OfGangsThatWantOnePlaceEachComesToItsEnd) {
  const Gangs gangs(coscheduling());
  double serial = 0;
  for (const std::string job : {"a", "b"}) {
    const auto alone = gangs.run_through({job}, kPatience);
    ASSERT_TRUE(alone) << gangs.log();
    serial += *alone;
  }
  const auto together = gangs.run_through({"c", "d"}, 2 * kPatience);
  ASSERT_TRUE(together) << gangs.groups();
  std::cout << "two gangs at once: " << *together << " s, one alone after the other: " << serial
            << " s, ratio " << *together / serial << "\n";
}

}  // namespace
}  // namespace gnn::testing
