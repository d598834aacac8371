#include "tests/integration/controller/fixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace gnn::testing {
namespace {

using namespace std::chrono_literals;

// Jobs with sampling servers on data of one partition.
class Servers : public ::testing::Test {
 protected:
  void create(const std::string& name, int servers, int nodes = 2) {
    cluster_.create_job(
        name,
        nodes,
        {{"dataset", {{"format", "Native"}, {"path", "/data"}, {"synthetic", nullptr}}},
         {"placement", {{"partitions", 1}}},
         {"servers", {{"nodes", servers}, {"template", {{"image", "localhost/none:1"}}}}}}
    );
  }

  [[nodiscard]] std::set<std::string> pods(const std::string& job) const {
    std::set<std::string> names;
    for (const Json& pod : cluster_.pods_of(job)) names.insert(pod["metadata"]["name"]);
    return names;
  }

  bool has_pods(const std::string& job, const std::set<std::string>& wanted) const {
    return eventually([&] { return pods(job) == wanted && cluster_.holds(job, "ServersReady"); });
  }

  [[nodiscard]] Json servers_of(const std::string& job) const {
    return cluster_.job(job)["status"]["servers"];
  }

  void patch(const std::string& job, const Json& spec) {
    ASSERT_TRUE(cluster_.api().patch(cluster_.jobs() + "/" + job, {{"spec", spec}}));
  }

  [[nodiscard]] std::string said(const std::string& job) const {
    return cluster_.describe(job) + controller_.log();
  }

  Cluster cluster_;
  ControllerProcess controller_{cluster_.plane(), cluster_.arguments()};
  FakeKubelets kubelets_{cluster_.plane(), cluster_.name_space(), 0ms};
};

TEST_F(Servers, ThatAreLostAreReplacedAloneAndTheJobCompletes) {
  create("j", 2);
  ASSERT_TRUE(has_pods("j", {"j-1-0", "j-1-1", "j-s0-0", "j-s1-0"})) << said("j");
  kubelets_.fail("j-s1-0", 137);
  ASSERT_TRUE(has_pods("j", {"j-1-0", "j-1-1", "j-s0-0", "j-s1-1"})) << said("j");
  // By force, so that nothing but its absence tells of it.
  cluster_.api().remove(cluster_.pods() + "/j-s0-0", R"({"gracePeriodSeconds": 0})");
  ASSERT_TRUE(has_pods("j", {"j-1-0", "j-1-1", "j-s0-1", "j-s1-1"})) << said("j");
  kubelets_.let_finish();
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Complete"); })) << said("j");
  const Json status = cluster_.job("j")["status"];
  EXPECT_EQ(status["attempt"], 1);
  EXPECT_EQ(status["restarts"], 0);
  EXPECT_EQ(status["servers"]["restarts"], 2);
  EXPECT_EQ(controller_.terminate(), 0);
}

TEST_F(Servers, ScaleFromOneToThreeAndBackWhileTheJobRuns) {
  create("j", 1, 1);
  ASSERT_TRUE(has_pods("j", {"j-1-0", "j-s0-0"})) << said("j");
  const std::string config_map =
      cluster_.pods().substr(0, cluster_.pods().rfind('/')) + "/configmaps/j-gnn";
  const Json before = cluster_.api().get(config_map)["metadata"]["resourceVersion"];
  patch("j", {{"servers", {{"nodes", 3}}}});
  ASSERT_TRUE(has_pods("j", {"j-1-0", "j-s0-0", "j-s1-0", "j-s2-0"})) << said("j");
  EXPECT_EQ(servers_of("j")["summary"], "3/3");
  patch("j", {{"servers", {{"nodes", 1}}}});
  ASSERT_TRUE(has_pods("j", {"j-1-0", "j-s0-0"})) << said("j");
  patch("j", {{"servers", {{"nodes", 2}}}});
  ASSERT_TRUE(has_pods("j", {"j-1-0", "j-s0-0", "j-s1-1"})) << said("j");
  EXPECT_EQ(servers_of("j")["restarts"], 0);
  EXPECT_EQ(cluster_.job("j")["status"]["attempt"], 1);
  EXPECT_EQ(cluster_.api().get(config_map)["metadata"]["resourceVersion"], before);
}

TEST_F(Servers, LeaveWithASuspendedJobAndComeBackUnderNewNumbers) {
  create("j", 2, 1);
  ASSERT_TRUE(has_pods("j", {"j-1-0", "j-s0-0", "j-s1-0"})) << said("j");
  patch("j", {{"suspend", true}});
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Suspended"); })) << said("j");
  EXPECT_EQ(pods("j"), std::set<std::string>{});
  patch("j", {{"suspend", false}});
  ASSERT_TRUE(has_pods("j", {"j-2-0", "j-s0-1", "j-s1-1"})) << said("j");
  EXPECT_EQ(servers_of("j")["restarts"], 0);
}

}  // namespace
}  // namespace gnn::testing
