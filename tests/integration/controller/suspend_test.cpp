#include "tests/integration/controller/fixture.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace gnn::testing {
namespace {

using namespace std::chrono_literals;

// Every third time the job is suspended while its pods are still being created.
TEST(Suspend, AndResumeManyTimes) {
  const int times = std::getenv("GNN_FULL") != nullptr ? 50 : 5;
  Cluster cluster;
  ControllerProcess controller(cluster.plane(), cluster.arguments());
  FakeKubelets kubelets(cluster.plane(), cluster.name_space(), 0ms);
  cluster.create_job("j", 2, {{"runPolicy", {{"maxRestarts", 0}}}});
  const auto suspend = [&](bool wanted) {
    ASSERT_TRUE(cluster.api().patch(cluster.jobs() + "/j", {{"spec", {{"suspend", wanted}}}}));
  };
  const auto attempt = [&] {
    return cluster.job("j").value(Json::json_pointer("/status/attempt"), 0);
  };
  for (int i = 1; i <= times; ++i) {
    const bool early = i % 3 == 0;
    ASSERT_TRUE(eventually([&] {
      return attempt() == i && (early || cluster.holds("j", "Running"));
    })) << "attempt "
        << i << "\n"
        << cluster.describe("j") << controller.log();
    suspend(true);
    ASSERT_TRUE(eventually([&] { return cluster.holds("j", "Suspended"); }))
        << "attempt " << i << "\n"
        << cluster.describe("j") << controller.log();
    EXPECT_TRUE(cluster.pods_of("j").empty()) << "Suspended says that no pod is left";
    EXPECT_FALSE(cluster.job("j")["status"].contains("startTime")) << "no deadline runs meanwhile";
    suspend(false);
  }
  kubelets.let_finish();
  ASSERT_TRUE(eventually([&] { return cluster.holds("j", "Complete"); }))
      << cluster.describe("j") << controller.log();
  const Json status = cluster.job("j")["status"];
  EXPECT_EQ(status["attempt"], times + 1);
  EXPECT_EQ(status["restarts"], 0);
  // Two pods for each attempt, none twice.
  EXPECT_LE(kubelets.seen().size(), static_cast<size_t>(2 * (times + 1)));
  EXPECT_EQ(controller.terminate(), 0);
}

// Whichever comes first, the end of the last pod or the change of mind.
TEST(Suspend, TakenBackWhileThePodsStopIsNoFailure) {
  Cluster cluster;
  ControllerProcess controller(cluster.plane(), cluster.arguments());
  FakeKubelets kubelets(cluster.plane(), cluster.name_space(), 0ms);
  const Json rule = {{"reasons", {"PodDeleted", "Preempted", "Error"}}, {"action", "Fail"}};
  cluster.create_job("j", 2, {{"runPolicy", {{"failurePolicy", {{"rules", {rule}}}}}}});
  for (int attempt = 1; attempt <= 4; ++attempt) {
    ASSERT_TRUE(eventually([&] {
      return cluster.holds("j", "Running") && cluster.job("j")["status"]["attempt"] == attempt;
    })) << cluster.describe("j")
        << controller.log();
    ASSERT_TRUE(cluster.api().patch(cluster.jobs() + "/j", {{"spec", {{"suspend", true}}}}));
    ASSERT_TRUE(eventually([&] { return !cluster.holds("j", "Running"); }));
    ASSERT_TRUE(cluster.api().patch(cluster.jobs() + "/j", {{"spec", {{"suspend", false}}}}));
  }
  kubelets.let_finish();
  ASSERT_TRUE(eventually([&] { return cluster.holds("j", "Complete"); }))
      << cluster.describe("j") << controller.log();
  EXPECT_FALSE(cluster.job("j")["status"].contains("failures")) << cluster.job("j")["status"];
}

}  // namespace
}  // namespace gnn::testing
