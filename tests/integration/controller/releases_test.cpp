#include "tests/integration/controller/fixture.h"
#include "tests/integration/controller/release.h"

#include <gtest/gtest.h>

#include <chrono>

namespace gnn::testing {
namespace {

using namespace std::chrono_literals;

TEST(Releases, TwoOfThemEachRunTheJobsOfTheirOwnNamespace) {
  Cluster eastern;
  Cluster western;
  FakeKubelets east_kubelets(eastern.plane(), eastern.name_space(), 0ms);
  FakeKubelets west_kubelets(western.plane(), western.name_space(), 0ms);
  const Release east("east", eastern);
  const Release west("west", western);
  eastern.create_job("j");
  western.create_job("j");
  for (const Cluster* cluster : {&eastern, &western}) {
    ASSERT_TRUE(eventually([&] { return cluster->holds("j", "Running"); }, 90s))
        << cluster->describe("j") << east.log() << west.log();
  }
  east_kubelets.let_finish();
  west_kubelets.let_finish();
  for (const Cluster* cluster : {&eastern, &western}) {
    ASSERT_TRUE(eventually([&] { return cluster->holds("j", "Complete"); }, 90s))
        << cluster->describe("j") << east.log() << west.log();
    EXPECT_EQ(cluster->job("j")["status"]["attempt"], 1);
  }
  EXPECT_EQ(east.forbidden(), "");
  EXPECT_EQ(west.forbidden(), "");
  EXPECT_EQ(east.writes_elsewhere(eastern.name_space()), "");
  EXPECT_EQ(west.writes_elsewhere(western.name_space()), "");
}

}  // namespace
}  // namespace gnn::testing
