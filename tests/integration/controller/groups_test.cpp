#include "tests/integration/controller/fixture.h"
#include "tests/support/must.h"

#include <gtest/gtest.h>

#include <string>

namespace gnn::testing {
namespace {

using namespace std::chrono_literals;

// The shape of the plugin's resource, as far as the contract goes.
constexpr const char* kCoschedulingCrd = R"({
  "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
  "metadata": {
    "name": "podgroups.scheduling.x-k8s.io",
    "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}},
  "spec": {
    "group": "scheduling.x-k8s.io", "scope": "Namespaced",
    "names": {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup"},
    "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
      "type": "object", "properties": {"spec": {"type": "object", "required": ["minMember"],
        "properties": {"minMember": {"type": "integer", "minimum": 1}}}}}}}]}
})";

TEST(Groups, ComeBeforeThePodsOfAnAttemptAndGoAfterThem) {
  Cluster cluster;
  ASSERT_TRUE(cluster.plane().apply("-", kCoschedulingCrd));
  ControllerProcess controller(
      cluster.plane(),
      cluster.arguments({"--gang-provider=Coscheduling", "--coscheduling-scheduler=mine"})
  );
  FakeKubelets kubelets(cluster.plane(), cluster.name_space(), 0ms);
  const std::string groups =
      "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/" + cluster.name_space() + "/podgroups";
  const auto names = [&] {
    std::string all;
    const Json list = cluster.api().get(groups);
    for (const Json& group : list["items"]) {
      all += (all.empty() ? "" : " ") + group["metadata"]["name"].get<std::string>();
    }
    return all;
  };
  cluster.create_job(
      "j",
      2,
      {{"scheduling", Json::object()}, {"workers", {{"template", {{"schedulerName", "mine"}}}}}}
  );
  ASSERT_TRUE(eventually([&] { return cluster.holds("j", "Running"); }))
      << cluster.describe("j") << controller.log();
  EXPECT_EQ(names(), "j-1");
  EXPECT_EQ(cluster.api().get(groups + "/j-1")["spec"]["minMember"], 2);
  for (const Json& pod : cluster.pods_of("j")) {
    EXPECT_EQ(pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"], "j-1");
  }
  const Json scheduling = cluster.job("j")["status"]["scheduling"];
  EXPECT_EQ(scheduling, (Json{{"provider", "Coscheduling"}, {"group", "j-1"}}));

  cluster.fail_pod("j-1-1", 70);
  ASSERT_TRUE(eventually([&] { return names() == "j-2" && cluster.holds("j", "Running"); }))
      << names() << cluster.describe("j") << controller.log();
  cluster.api().patch(cluster.jobs() + "/j", {{"spec", {{"suspend", true}}}});
  ASSERT_TRUE(eventually([&] { return cluster.holds("j", "Suspended") && names().empty(); }))
      << names() << cluster.describe("j") << controller.log();
  cluster.api().patch(cluster.jobs() + "/j", {{"spec", {{"suspend", false}}}});
  ASSERT_TRUE(eventually([&] { return names() == "j-3"; })) << names() << cluster.describe("j");
  kubelets.let_finish();
  ASSERT_TRUE(eventually([&] { return cluster.holds("j", "Complete") && names().empty(); }))
      << names() << cluster.describe("j") << controller.log();
  EXPECT_EQ(controller.terminate(), 0);
}

}  // namespace
}  // namespace gnn::testing
