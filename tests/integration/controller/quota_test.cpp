#include "tests/integration/controller/fixture.h"
#include "tests/support/kueue_crd.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

// Workloads beside an API server without Kueue, which the test plays.
namespace gnn::testing {
namespace {

using namespace std::chrono_literals;

constexpr const char* kQueueLabel = "kueue.x-k8s.io/queue-name";
constexpr const char* kPrebuiltLabel = "kueue.x-k8s.io/prebuilt-workload-name";

class Quota : public ::testing::Test {
 protected:
  // A job of one node in a queue, with its pod on a machine.
  void start_job(const std::string& job) {
    cluster_.create_job(job, 1, Json::object(), {{kQueueLabel, "team"}});
    ASSERT_TRUE(eventually([&] { return workloads().size() == 1; })) << cluster_.describe(job);
    admit(workloads()[0]["metadata"]["name"]);
    ASSERT_TRUE(eventually([&] { return cluster_.pods_of(job).size() == 1; }))
        << cluster_.describe(job) << controller_.log();
    const std::string pod = cluster_.pods_of(job)[0]["metadata"]["name"];
    cluster_.api().create(
        cluster_.pods() + "/" + pod + "/binding",
        {{"metadata", {{"name", pod}}}, {"target", {{"kind", "Node"}, {"name", "machine"}}}}
    );
  }

  [[nodiscard]] Json workloads() const { return cluster_.api().get(workloads_)["items"]; }

  // Whether there is a Workload that keeps its quota.
  [[nodiscard]] bool holds_quota() const {
    for (const Json& each : workloads()) {
      if (!each["metadata"].value("finalizers", Json::array()).empty()) return true;
    }
    return false;
  }

  void end_pods(const std::string& job) {
    for (const Json& pod : cluster_.pods_of(job)) {
      cluster_.api().remove(
          cluster_.pods() + "/" + pod["metadata"]["name"].get<std::string>(),
          R"({"gracePeriodSeconds": 0})"
      );
    }
  }

  Cluster cluster_;
  const bool installed_ = cluster_.plane().apply("-", kWorkloadCrd).has_value();
  const std::string workloads_ =
      "/apis/kueue.x-k8s.io/v1beta2/namespaces/" + cluster_.name_space() + "/workloads";
  ControllerProcess controller_{cluster_.plane(), cluster_.arguments({"--kueue"})};

 private:
  void admit(const std::string& name) {
    const auto condition = [](const char* type) {
      return Json{
          {"type", type},
          {"status", "True"},
          {"reason", "Admitted"},
          {"message", ""},
          {"lastTransitionTime", "2026-01-01T00:00:00Z"}
      };
    };
    const Json set = {{"name", "workers"}, {"count", 1}};
    cluster_.api().patch(
        workloads_ + "/" + name + "/status",
        {{"status",
          {{"admission", {{"clusterQueue", "cq"}, {"podSetAssignments", Json::array({set})}}},
           {"conditions", {condition("QuotaReserved"), condition("Admitted")}}}}}
    );
  }
};

TEST_F(Quota, OfADeletedJobIsKeptUntilItsLastPodHasEnded) {
  ASSERT_TRUE(installed_);
  ASSERT_NO_FATAL_FAILURE(start_job("j"));
  cluster_.api().remove(cluster_.jobs() + "/j");
  // Its result is of no use any more; the pod itself stays, as one that ignores SIGTERM.
  ASSERT_TRUE(eventually([&] {
    const auto pods = cluster_.pods_of("j");
    return pods.size() == 1 && !pods[0]["metadata"].contains("finalizers");
  })) << controller_.log();
  EXPECT_TRUE(holds_quota());
  end_pods("j");
  EXPECT_TRUE(eventually([&] { return !holds_quota(); })) << workloads() << controller_.log();
}

TEST_F(Quota, OfAWorkloadThatTheJobDoesNotNameAnyMoreIsGivenBackWithTheLastPod) {
  ASSERT_TRUE(installed_);
  ASSERT_NO_FATAL_FAILURE(start_job("j"));
  cluster_.api().patch(
      cluster_.jobs() + "/j", {{"metadata", {{"labels", {{kPrebuiltLabel, "none-such"}}}}}}
  );
  ASSERT_TRUE(eventually([&] {
    const auto pods = cluster_.pods_of("j");
    return pods.size() == 1 && pods[0]["metadata"].contains("deletionTimestamp");
  })) << cluster_.describe("j")
      << controller_.log();
  EXPECT_TRUE(holds_quota());
  end_pods("j");
  EXPECT_TRUE(eventually([&] { return workloads().empty(); })) << workloads() << controller_.log();
}

// As the chart's hook does after an upgrade to a release that does not use Kueue.
TEST_F(Quota, OfJobsThatRunOnWithoutKueueIsGivenBackByRelease) {
  ASSERT_TRUE(installed_);
  ASSERT_NO_FATAL_FAILURE(start_job("j"));
  EXPECT_EQ(controller_.terminate(), 0);
  const ControllerProcess without(cluster_.plane(), cluster_.arguments());
  EXPECT_EQ(
      run_release(
          cluster_.plane().kubeconfig_file(), cluster_.name_space(), 2min, {"--only-workloads"}
      ),
      0
  );
  EXPECT_TRUE(workloads().empty()) << workloads();
  const auto pods = cluster_.pods_of("j");
  ASSERT_EQ(pods.size(), 1U);
  EXPECT_FALSE(pods[0]["metadata"].contains("deletionTimestamp"));
}

}  // namespace
}  // namespace gnn::testing
