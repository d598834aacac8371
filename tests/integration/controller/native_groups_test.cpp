#include "tests/integration/controller/fixture.h"
#include "tests/support/must.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

// Kubernetes 1.37 with a real scheduler: kwok plays one node with eight GPUs, room for four pods with two.
namespace gnn::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kGate = "GenericWorkload";

std::unique_ptr<ControlPlane> start_plane(bool gate) {
  auto plane = must(ControlPlane::start(
      {.scheduler = true,
       .fake_nodes = 1,
       .api_server_flags = {"--runtime-config=scheduling.k8s.io/v1beta1=true"},
       .programs = ControlPlanePrograms::NativeGroups,
       .feature_gates = std::string(kGate) + (gate ? "=true" : "=false")}
  ));
  must(plane->apply(std::string(GNN_SOURCE_DIR) + "/manifests/crds/gnnjobs.gnn.dev.yaml"));
  return plane;
}

class NativeGroups {
 public:
  explicit NativeGroups(bool gate)
      : plane_(start_plane(gate)),
        api_(*plane_),
        name_space_(must(plane_->create_namespace("gangs"))),
        controller_(*plane_, {plane_->kubeconfig_file(), name_space_, {"--gang-provider=Native"}}) {
  }

  // A gang of three, each of which takes two of the node's GPUs.
  void create(const std::string& name, const Json& changes = Json::object()) const {
    Json job = {
        {"apiVersion", "gnn.dev/v1alpha1"},
        {"kind", "GNNJob"},
        {"metadata", {{"name", name}, {"namespace", name_space_}}},
        {"spec",
         {{"task", {{"type", "NodeClassification"}}},
          {"dataset",
           {{"format", "Synthetic"}, {"synthetic", {{"shape", "Arxiv"}, {"scale", "0.01"}}}}},
          {"model", {{"type", "GraphSAGE"}, {"graphSage", {{"layers", 2}}}}},
          {"sampling", {{"fanout", {5, 5}}}},
          {"scheduling", Json::object()},
          {"workers",
           {{"nodes", 3},
            {"processesPerNode", 2},
            {"gpusPerProcess", 1},
            {"template", {{"image", "localhost/none:1"}}}}}}}
    };
    job["spec"].merge_patch(changes);
    api_.create(jobs(), job);
  }
  void create_priority_class(const std::string& name, int value) const {
    api_.create(
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        {{"metadata", {{"name", name}}}, {"value", value}}
    );
  }

  [[nodiscard]] Json status(const std::string& name) const {
    const Json job = api_.find(jobs() + "/" + name);
    return job.is_object() ? job.value("status", Json::object()) : Json::object();
  }
  [[nodiscard]] Json condition(const std::string& name, const std::string& type) const {
    const Json found = status(name);
    for (const Json& each : found.value("conditions", Json::array())) {
      if (each["type"] == type) return each;
    }
    return {{"status", ""}, {"reason", ""}, {"message", ""}};
  }
  [[nodiscard]] bool runs(const std::string& name) const {
    return condition(name, "Running")["status"] == "True";
  }
  [[nodiscard]] std::string why_not_scheduled(const std::string& name) const {
    return condition(name, "Scheduled")["reason"];
  }
  [[nodiscard]] std::vector<Json> pods(const std::string& job) const {
    const Json list = api_.get(
        "/api/v1/namespaces/" + name_space_ + "/pods?labelSelector=gnn.dev%2Fjob%3D" + job
    );
    return {list["items"].begin(), list["items"].end()};
  }
  [[nodiscard]] int placed(const std::string& job) const {
    int count = 0;
    for (const Json& pod : pods(job)) count += pod["spec"].contains("nodeName") ? 1 : 0;
    return count;
  }
  [[nodiscard]] std::string groups() const {
    const Json list =
        api_.find("/apis/scheduling.k8s.io/v1beta1/namespaces/" + name_space_ + "/podgroups");
    std::string names;
    if (!list.is_object()) return names;
    for (const Json& group : list["items"]) {
      if (group["metadata"].contains("deletionTimestamp")) continue;
      names += (names.empty() ? "" : " ") + group["metadata"]["name"].get<std::string>();
    }
    return names;
  }
  void suspend(const std::string& job, bool wanted) const {
    api_.patch(jobs() + "/" + job, {{"spec", {{"suspend", wanted}}}});
  }
  // As a kubelet would report it.
  void end_pod(const std::string& pod, int exit_code) const {
    api_.patch(
        "/api/v1/namespaces/" + name_space_ + "/pods/" + pod + "/status",
        {{"status",
          {{"phase", exit_code == 0 ? "Succeeded" : "Failed"},
           {"containerStatuses",
            {{{"name", "worker"},
              {"image", "x"},
              {"imageID", "x"},
              {"restartCount", 0},
              {"ready", false},
              {"state", {{"terminated", {{"exitCode", exit_code}}}}}}}}}}}
    );
  }
  [[nodiscard]] std::string log() const {
    return groups() + status("a").dump(1) + status("b").dump(1) + controller_.log();
  }

 private:
  [[nodiscard]] std::string jobs() const {
    return "/apis/gnn.dev/v1alpha1/namespaces/" + name_space_ + "/gnnjobs";
  }

  std::unique_ptr<ControlPlane> plane_;
  Api api_;
  std::string name_space_;
  ControllerProcess controller_;
};

TEST(NativeGroups, OfTwoGangsOneIsWholeAndNoneIsPartial) {
  const NativeGroups cluster(true);
  cluster.create("a");
  ASSERT_TRUE(eventually([&] { return cluster.runs("a"); })) << cluster.log();
  cluster.create("b");
  ASSERT_TRUE(eventually([&] { return cluster.why_not_scheduled("b") == "GangPending"; }))
      << cluster.log();
  EXPECT_THAT(
      cluster.condition("b", "Scheduled")["message"].get<std::string>(), HasSubstr("minCount (3)")
  );
  EXPECT_EQ(cluster.placed("a"), 3);
  EXPECT_EQ(cluster.placed("b"), 0);
  EXPECT_EQ(cluster.groups(), "a-1 b-1");
  EXPECT_EQ(cluster.status("a")["scheduling"], (Json{{"provider", "Native"}, {"group", "a-1"}}));
  for (const Json& pod : cluster.pods("b")) {
    EXPECT_EQ(pod["spec"]["schedulingGroup"]["podGroupName"], "b-1");
  }

  // Suspended, the first gives its places to the second, and takes its turn when it is resumed.
  cluster.suspend("a", true);
  ASSERT_TRUE(eventually([&] { return cluster.runs("b") && cluster.groups() == "b-1"; }))
      << cluster.log();
  EXPECT_EQ(cluster.condition("a", "Suspended")["status"], "True");
  cluster.suspend("a", false);
  ASSERT_TRUE(eventually([&] { return cluster.why_not_scheduled("a") == "GangPending"; }))
      << cluster.log();
  EXPECT_EQ(cluster.placed("a"), 0);

  // A restart has a group of its own, and so has the place of what ended.
  cluster.end_pod("b-1-1", 70);
  ASSERT_TRUE(eventually([&] { return cluster.groups() == "a-2 b-2"; })) << cluster.log();
  ASSERT_TRUE(eventually([&] { return cluster.runs("a") != cluster.runs("b"); })) << cluster.log();
  const std::string first = cluster.runs("a") ? "a" : "b";
  const std::string second = first == "a" ? "b" : "a";
  for (int node = 0; node < 3; ++node) cluster.end_pod(first + "-2-" + std::to_string(node), 0);
  ASSERT_TRUE(eventually([&] { return cluster.runs(second); })) << cluster.log();
  EXPECT_EQ(cluster.condition(first, "Complete")["status"], "True");
  EXPECT_EQ(cluster.groups(), second + "-2");
}

TEST(NativeGroups, AGangOfHigherPriorityTakesThePlacesOfAWholeOneWhichRestartsFree) {
  const NativeGroups cluster(true);
  cluster.create_priority_class("urgent", 1000);
  cluster.create("a", {{"scheduling", {{"disruptionMode", {{"all", Json::object()}}}}}});
  ASSERT_TRUE(eventually([&] { return cluster.runs("a"); })) << cluster.log();
  cluster.create("b", {{"workers", {{"template", {{"priorityClassName", "urgent"}}}}}});
  ASSERT_TRUE(eventually([&] { return cluster.runs("b"); })) << cluster.log();
  ASSERT_TRUE(eventually([&] { return cluster.why_not_scheduled("a") == "GangPending"; }))
      << cluster.log();
  EXPECT_EQ(cluster.placed("a"), 0);
  EXPECT_EQ(cluster.groups(), "a-2 b-1");
  const Json status = cluster.status("a");
  EXPECT_EQ(status["restarts"], 0);
  EXPECT_EQ(status["lastFailure"]["reason"], "Disrupted");
}

TEST(NativeGroups, WithoutTheGatePodsArePlacedOneByOneAndTheJobSaysSo) {
  const NativeGroups cluster(false);
  cluster.create("a");
  ASSERT_TRUE(eventually([&] { return cluster.runs("a"); })) << cluster.log();
  EXPECT_EQ(cluster.status("a")["scheduling"]["provider"], "None");
  EXPECT_THAT(
      cluster.status("a")["scheduling"]["message"].get<std::string>(),
      HasSubstr("scheduling.k8s.io/v1beta1")
  );
  EXPECT_EQ(cluster.groups(), "");
}

}  // namespace
}  // namespace gnn::testing
