#include "common/contract.h"
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

TEST_F(Servers, AndWorkersMountOneDataKeyThatOnlyASecretHolds) {
  create("j", 2, 1);
  ASSERT_TRUE(has_pods("j", {"j-1-0", "j-s0-0", "j-s1-0"})) << said("j");
  const std::string base = cluster_.pods().substr(0, cluster_.pods().rfind('/'));
  const Json job = cluster_.job("j");
  const std::string name = job["status"]["dataKeySecret"];
  ASSERT_TRUE(contract::suffix_of_data_key("j", name)) << name;
  const Json secret = cluster_.api().get(base + "/secrets/" + name);
  EXPECT_EQ(secret["type"], "Opaque");
  EXPECT_EQ(secret["immutable"], true);
  EXPECT_EQ(secret["metadata"]["ownerReferences"][0]["uid"], job["metadata"]["uid"]);
  ASSERT_EQ(secret["data"].size(), 1U);
  const std::string key = secret["data"]["data.key"];
  EXPECT_EQ(key.size(), 88U) << "64 digits, in base64";
  const Json config = cluster_.api().get(base + "/configmaps/j-gnn")["data"];
  EXPECT_EQ(config.size(), 1U) << config;
  for (const char* pod : {"j-1-0", "j-s0-0", "j-s1-0"}) {
    const Json spec = cluster_.api().get(cluster_.pods() + "/" + pod)["spec"];
    EXPECT_EQ(spec["volumes"][0]["projected"]["sources"][1]["secret"]["name"], name) << pod;
  }
  EXPECT_EQ(controller_.log().find(key), std::string::npos);

  // Pods that another attempt makes have the same one.
  kubelets_.fail("j-1-0", 137);
  ASSERT_TRUE(has_pods("j", {"j-2-0", "j-s0-0", "j-s1-0"})) << said("j");
  EXPECT_EQ(cluster_.job("j")["status"]["dataKeySecret"], name);
  EXPECT_EQ(cluster_.api().get(base + "/secrets")["items"].size(), 1U);
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
