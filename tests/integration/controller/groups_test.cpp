#include "tests/integration/controller/fixture.h"
#include "tests/support/group_crds.h"
#include "tests/support/must.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string>

namespace gnn::testing {
namespace {

using namespace std::chrono_literals;

std::string groups_path(const Cluster& cluster, const std::string& api) {
  return "/apis/" + api + "/namespaces/" + cluster.name_space() + "/podgroups";
}

std::string provider_of(const Cluster& cluster, const std::string& job) {
  const Json::json_pointer provider("/status/scheduling/provider");
  const Json found = cluster.job(job);
  return found.is_object() ? found.value(provider, std::string()) : "";
}

const Json kGroupedByCoscheduling = {
    {"scheduling", Json::object()}, {"workers", {{"template", {{"schedulerName", "mine"}}}}}
};

TEST(Groups, ComeBeforeThePodsOfAnAttemptAndGoAfterThem) {
  Cluster cluster;
  ASSERT_TRUE(cluster.plane().apply("-", kCoschedulingCrd));
  ControllerProcess controller(
      cluster.plane(),
      cluster.arguments({"--gang-provider=Coscheduling", "--coscheduling-scheduler=mine"})
  );
  FakeKubelets kubelets(cluster.plane(), cluster.name_space(), 0ms);
  const auto names = [&] { return cluster.groups(kCoschedulingApi); };
  cluster.create_job("j", 2, kGroupedByCoscheduling);
  ASSERT_TRUE(eventually([&] { return cluster.holds("j", "Running"); }))
      << cluster.describe("j") << controller.log();
  EXPECT_EQ(names(), "j-1");
  EXPECT_EQ(
      cluster.api().get(groups_path(cluster, kCoschedulingApi) + "/j-1")["spec"]["minMember"], 2
  );
  for (const Json& pod : cluster.pods_of("j")) {
    EXPECT_EQ(pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"], "j-1");
  }
  const Json scheduling = cluster.job("j")["status"]["scheduling"];
  EXPECT_EQ(scheduling, (Json{{"provider", "Coscheduling"}, {"group", "j-1"}}));

  cluster.end_pod("j-1-1", 70);
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

// Volcano's contract: the test plays its scheduler, which admits groups to its queue and tells why they wait.
TEST(Groups, OfVolcanoSayWhatTheyNeedAndAreToldByTheirStatus) {
  Cluster cluster;
  ASSERT_TRUE(cluster.plane().apply("-", kVolcanoCrd));
  cluster.api().create(
      "/apis/scheduling.k8s.io/v1/priorityclasses",
      {{"metadata", {{"name", "volcano-gangs"}}}, {"value", 1000}}
  );
  ControllerProcess controller(cluster.plane(), cluster.arguments({"--gang-provider=Volcano"}));
  const Json spec = Json::parse(R"({
    "scheduling": {"volcano": {"queue": "night", "networkTopology": {"mode": "hard", "highestTierAllowed": 1}}},
    "workers": {"processesPerNode": 2, "gpusPerProcess": 1, "template": {
      "schedulerName": "volcano", "priorityClassName": "volcano-gangs",
      "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "1.5Gi"}}}}
  })");
  cluster.create_job("j", 3, spec);
  ASSERT_TRUE(eventually([&] { return cluster.pods_of("j").size() == 3; }))
      << cluster.describe("j") << controller.log();
  const std::string group = groups_path(cluster, kVolcanoApi) + "/j-1";
  EXPECT_EQ(cluster.api().get(group)["spec"], Json::parse(R"({
    "minMember": 3, "queue": "night", "priorityClassName": "volcano-gangs",
    "minResources": {"cpu": "1500m", "memory": "4608Mi", "nvidia.com/gpu": "6"},
    "networkTopology": {"mode": "hard", "highestTierAllowed": 1}
  })"));
  for (const Json& pod : cluster.pods_of("j")) {
    EXPECT_EQ(pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"], "j-1");
    EXPECT_EQ(pod["spec"]["schedulerName"], "volcano");
  }

  const auto say = [&](const Json& status) {
    ASSERT_TRUE(cluster.api().patch(group + "/status", {{"status", status}}));
  };
  const auto waits = [&](const std::string& reason, const std::string& message) {
    return eventually([&] {
      const Json scheduled = cluster.condition("j", "Scheduled");
      const std::string said = scheduled["message"];
      return scheduled["reason"] == reason && said.find(message) != std::string::npos;
    });
  };
  say({{"phase", "Pending"}});
  EXPECT_TRUE(waits("Queued", "j-1")) << cluster.describe("j");
  const Json full = Json::parse(R"([{
    "type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "transitionID": "1",
    "message": "3/3 tasks in gang unschedulable: pod group is not ready"
  }])");
  say({{"phase", "Inqueue"}, {"conditions", full}});
  EXPECT_TRUE(waits("GangPending", "3/3 tasks in gang unschedulable")) << cluster.describe("j");
  say({{"phase", "Unknown"}});
  EXPECT_TRUE(waits("GangPending", "3/3 tasks in gang unschedulable")) << cluster.describe("j");
  say({{"phase", "Running"}, {"conditions", nullptr}});
  FakeKubelets kubelets(cluster.plane(), cluster.name_space(), 0ms);
  ASSERT_TRUE(eventually([&] { return cluster.holds("j", "Running"); }))
      << cluster.describe("j") << controller.log();
  kubelets.let_finish();
  ASSERT_TRUE(eventually([&] {
    return cluster.holds("j", "Complete") && cluster.groups(kVolcanoApi).empty();
  })) << cluster.describe("j")
      << controller.log();
}

// The first write of each kind to groups.
RequestMatcher first_writes() {
  struct Seen {
    std::mutex mutex;
    std::set<std::string> methods;
  };
  const auto seen = std::make_shared<Seen>();
  return [seen](const RecordedRequest& request) {
    const bool of_groups = request.path.find("/podgroups") != std::string::npos;
    if (!request.is_write() || !of_groups) return false;
    const std::lock_guard lock(seen->mutex);
    return seen->methods.insert(request.method).second;
  };
}

TEST(Groups, AreMadeAndDeletedAlsoIfAWriteFails) {
  for (const Answer& answer : {answer_conflict(), answer_gone(), answer_internal_error()}) {
    Cluster cluster;
    ASSERT_TRUE(cluster.plane().apply("-", kCoschedulingCrd));
    const auto proxy = must(FaultProxy::in_front_of(cluster.plane()));
    const int fault = proxy->add_fault(first_writes(), answer);
    ControllerProcess controller(
        cluster.plane(),
        cluster.arguments_through(
            *proxy, {"--gang-provider=Coscheduling", "--coscheduling-scheduler=mine"}
        )
    );
    FakeKubelets kubelets(cluster.plane(), cluster.name_space(), 0ms);
    const auto names = [&] { return cluster.groups(kCoschedulingApi); };
    cluster.create_job("j", 2, kGroupedByCoscheduling);
    ASSERT_TRUE(eventually([&] { return cluster.holds("j", "Running") && names() == "j-1"; }))
        << answer.status << cluster.describe("j") << controller.log();
    cluster.end_pod("j-1-1", 70);
    ASSERT_TRUE(eventually([&] { return names() == "j-2" && cluster.holds("j", "Running"); }))
        << answer.status << names() << cluster.describe("j") << controller.log();
    kubelets.let_finish();
    ASSERT_TRUE(eventually([&] { return cluster.holds("j", "Complete") && names().empty(); }))
        << answer.status << names() << cluster.describe("j") << controller.log();
    EXPECT_EQ(cluster.job("j")["status"]["attempt"], 2) << answer.status;
    EXPECT_EQ(proxy->times_applied(fault), 2) << answer.status;
  }
}

TEST(Groups, AreUsedAgainOnceTheirApiIsBack) {
  Cluster cluster;
  ASSERT_TRUE(cluster.plane().apply("-", kCoschedulingCrd));
  ControllerProcess controller(
      cluster.plane(),
      cluster.arguments({"--gang-provider=Coscheduling", "--coscheduling-scheduler=mine"})
  );
  const FakeKubelets kubelets(cluster.plane(), cluster.name_space(), 0ms);
  const std::string lists = "gnn_operator_lists_total{resource=\"podgroups.scheduling.x-k8s.io\"} ";
  const auto runs_by = [&](const std::string& job, const std::string& provider) {
    return eventually([&] {
      return cluster.holds(job, "Running") && provider_of(cluster, job) == provider;
    });
  };
  cluster.create_job("a", 2, kGroupedByCoscheduling);
  ASSERT_TRUE(runs_by("a", "Coscheduling")) << cluster.describe("a") << controller.log();
  cluster.api().remove(
      "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/podgroups.scheduling.x-k8s.io"
  );
  ASSERT_TRUE(eventually([&] { return controller.log().find("not served") != std::string::npos; }))
      << controller.log();
  cluster.create_job("b", 2, kGroupedByCoscheduling);
  ASSERT_TRUE(runs_by("b", "None")) << cluster.describe("b") << controller.log();
  EXPECT_TRUE(cluster.holds("a", "Running"));
  const std::string before = controller.http("/metrics").body;
  ASSERT_TRUE(cluster.plane().apply("-", kCoschedulingCrd));
  const auto count = [&](const std::string& page) {
    return std::stod(page.substr(page.find(lists) + lists.size()));
  };
  const auto is_listed = [&] {
    return count(controller.http("/metrics").body) > count(before) &&
           controller.http("/readyz").status == 200;
  };
  ASSERT_TRUE(eventually(is_listed, 120s)) << controller.log();
  cluster.create_job("c", 2, kGroupedByCoscheduling);
  ASSERT_TRUE(runs_by("c", "Coscheduling")) << cluster.describe("c") << controller.log();
  EXPECT_EQ(cluster.job("a")["status"]["restarts"], 0);
  EXPECT_EQ(controller.terminate(), 0);
}

TEST(Groups, ThatMayNotBeListedHoldUpOnlyTheJobsThatUseThem) {
  Cluster cluster;
  ASSERT_TRUE(cluster.plane().apply("-", kCoschedulingCrd));
  const auto proxy = must(FaultProxy::in_front_of(cluster.plane()));
  proxy->add_fault(
      path_ends_with("/podgroups"), answer_status(403, "Forbidden", "no list for you")
  );
  ControllerProcess controller(
      cluster.plane(),
      cluster.arguments_through(
          *proxy, {"--gang-provider=Coscheduling", "--coscheduling-scheduler=mine"}
      )
  );
  FakeKubelets kubelets(cluster.plane(), cluster.name_space(), 0ms);
  cluster.create_job("grouped", 2, kGroupedByCoscheduling);
  cluster.create_job("plain", 2);
  ASSERT_TRUE(eventually([&] { return cluster.holds("plain", "Running"); }))
      << cluster.describe("plain") << controller.log();
  EXPECT_EQ(controller.http("/readyz").status, 200);
  EXPECT_TRUE(eventually([&] {
    const std::string said = cluster.condition("grouped", "Scheduled")["message"];
    return said.find("no list for you") != std::string::npos;
  })) << cluster.describe("grouped");
  EXPECT_TRUE(cluster.pods_of("grouped").empty());
  proxy->clear_faults();
  EXPECT_TRUE(eventually([&] { return cluster.holds("grouped", "Running"); }, 90s))
      << cluster.describe("grouped") << controller.log();
  EXPECT_EQ(cluster.groups(kCoschedulingApi), "grouped-1");
}

}  // namespace
}  // namespace gnn::testing
