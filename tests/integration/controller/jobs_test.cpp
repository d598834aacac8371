#include "common/contract.h"
#include "tests/integration/controller/fixture.h"
#include "tests/support/must.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>

namespace gnn::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

class Jobs : public ::testing::Test {
 protected:
  Cluster cluster_;
};

TEST_F(Jobs, RunsToCompleteAndCleansUpAfterItself) {
  ControllerProcess controller(cluster_.plane(), cluster_.arguments());
  FakeKubelets kubelets(cluster_.plane(), cluster_.name_space(), 0ms);
  cluster_.create_job("j", 3);
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Running"); }))
      << cluster_.describe("j") << controller.log();
  const std::string base = "/namespaces/" + cluster_.name_space();
  EXPECT_TRUE(cluster_.api().find("/api/v1" + base + "/services/j-gnn").is_object());
  EXPECT_TRUE(cluster_.api().find("/api/v1" + base + "/configmaps/j-gnn").is_object());
  EXPECT_TRUE(cluster_.api()
                  .find("/apis/networking.k8s.io/v1" + base + "/networkpolicies/j-gnn")
                  .is_object());
  kubelets.let_finish();

  const auto waited = must(cluster_.plane().kubectl(
      {"wait",
       "--namespace",
       cluster_.name_space(),
       "gnnjob/j",
       "--for=condition=Complete",
       "--timeout=60s"}
  ));
  ASSERT_EQ(waited.exit_code, 0) << waited.errors << cluster_.describe("j");
  const Json status = cluster_.job("j")["status"];
  EXPECT_EQ(status["restarts"], 0);
  EXPECT_EQ(status["progress"]["testMetric"], "0.5");
  EXPECT_EQ(kubelets.seen().size(), 3U);

  // Each event once.
  ASSERT_TRUE(eventually([&] {
    const auto events =
        must(cluster_.plane().kubectl({"describe", "--namespace", cluster_.name_space(), "gnnjob/j"}
        ));
    return events.output.find("Complete") != std::string::npos &&
           events.output.find("gnn.dev/gnn-controller") != std::string::npos;
  }));

  const std::string metrics = controller.http("/metrics").body;
  for (const char* name :
       {"controller_runtime_reconcile_total{controller=\"gnnjob\"",
        "workqueue_depth{name=\"gnnjob\"}",
        "rest_client_requests_total{code=\"201\"",
        "gnnjob_condition{condition=\"Complete\"",
        "gnnjob_info{",
        "process_resident_memory_bytes",
        "gnn_operator_build_info"}) {
    EXPECT_THAT(metrics, HasSubstr(name));
  }
  EXPECT_EQ(controller.http("/readyz").status, 200);
  EXPECT_EQ(controller.http("/healthz").status, 200);

  cluster_.api().remove(cluster_.jobs() + "/j");
  ASSERT_TRUE(eventually([&] { return cluster_.pods_of("j").empty(); }));
  ASSERT_TRUE(eventually([&] {
    return controller.http("/metrics").body.find("job=\"j\"") == std::string::npos;
  }));
  EXPECT_EQ(controller.terminate(), 0) << controller.log();
}

TEST_F(Jobs, AFailedPodCausesExactlyOneRestart) {
  ControllerProcess controller(cluster_.plane(), cluster_.arguments());
  FakeKubelets kubelets(cluster_.plane(), cluster_.name_space(), 0ms);
  cluster_.create_job("j");
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Running"); })) << cluster_.describe("j");
  cluster_.fail_pod("j-1-1", contract::kExitOther);
  ASSERT_TRUE(eventually([&] {
    const Json status = cluster_.job("j")["status"];
    return status["attempt"] == 2 && cluster_.holds("j", "Running");
  })) << cluster_.describe("j");
  kubelets.let_finish();
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Complete"); }))
      << cluster_.describe("j");
  const Json status = cluster_.job("j")["status"];
  EXPECT_EQ(status["attempt"], 2);
  EXPECT_EQ(status["restarts"], 1);
  EXPECT_EQ(status["lastFailure"]["node"], 1);
  EXPECT_EQ(status["lastFailure"]["exitCode"], 70);
  EXPECT_EQ(kubelets.seen().size(), 4U);
}

TEST_F(Jobs, AForeignPodOfOurNameIsNeitherAdoptedNorDeleted) {
  const Json foreign = cluster_.api().create(
      cluster_.pods(),
      {{"metadata", {{"name", "j-1-1"}}},
       {"spec", {{"containers", {{{"name", "c"}, {"image", "localhost/none:1"}}}}}}}
  );
  ControllerProcess controller(cluster_.plane(), cluster_.arguments());
  FakeKubelets kubelets(cluster_.plane(), cluster_.name_space(), 0ms);
  kubelets.let_finish();
  cluster_.create_job("j");
  ASSERT_TRUE(eventually([&] {
    return cluster_.describe("j").find("NameTaken") != std::string::npos;
  })) << cluster_.describe("j");
  const Json still = cluster_.api().get(cluster_.pods() + "/j-1-1");
  EXPECT_EQ(still["metadata"]["uid"], foreign["metadata"]["uid"]);
  EXPECT_FALSE(still["metadata"].contains("ownerReferences"));
  cluster_.api().remove(cluster_.pods() + "/j-1-1", R"({"gracePeriodSeconds":0})");
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Complete"); }))
      << cluster_.describe("j");
}

TEST_F(Jobs, AForeignServiceOfOurNameIsNeitherAdoptedNorChanged) {
  const std::string services = "/api/v1/namespaces/" + cluster_.name_space() + "/services";
  const Json foreign = cluster_.api().create(
      services, {{"metadata", {{"name", "j-gnn"}}}, {"spec", {{"ports", {{{"port", 80}}}}}}}
  );
  ControllerProcess controller(cluster_.plane(), cluster_.arguments());
  FakeKubelets kubelets(cluster_.plane(), cluster_.name_space(), 0ms);
  kubelets.let_finish();
  cluster_.create_job("j");
  ASSERT_TRUE(eventually([&] {
    return cluster_.describe("j").find("NameTaken") != std::string::npos;
  })) << cluster_.describe("j");
  EXPECT_TRUE(cluster_.pods_of("j").empty()) << "nothing is created beside it";
  const Json still = cluster_.api().get(services + "/j-gnn");
  EXPECT_EQ(still["metadata"]["resourceVersion"], foreign["metadata"]["resourceVersion"]);
  cluster_.api().remove(services + "/j-gnn");
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Complete"); }))
      << cluster_.describe("j");
}

TEST_F(Jobs, ARecreatedJobStartsAfresh) {
  ControllerProcess controller(cluster_.plane(), cluster_.arguments());
  FakeKubelets kubelets(cluster_.plane(), cluster_.name_space(), 0ms);
  const Json first = cluster_.create_job("j");
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Running"); })) << cluster_.describe("j");
  cluster_.api().remove(cluster_.jobs() + "/j");
  const Json second = cluster_.create_job("j");
  ASSERT_NE(first["metadata"]["uid"], second["metadata"]["uid"]);
  kubelets.let_finish();
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Complete"); }))
      << cluster_.describe("j") << controller.log();
  for (const Json& pod : cluster_.pods_of("j")) {
    EXPECT_EQ(pod["metadata"]["ownerReferences"][0]["uid"], second["metadata"]["uid"]);
  }
}

TEST_F(Jobs, AQuotaForHalfTheGangIsReportedAndCostsFewCalls) {
  cluster_.api().create(
      "/api/v1/namespaces/" + cluster_.name_space() + "/resourcequotas",
      {{"metadata", {{"name", "two-pods"}}}, {"spec", {{"hard", {{"pods", "2"}}}}}}
  );
  ASSERT_TRUE(eventually([&] {
    return cluster_.api()
               .get("/api/v1/namespaces/" + cluster_.name_space() + "/resourcequotas/two-pods")
               .value(Json::json_pointer("/status/hard/pods"), std::string()) == "2";
  }));
  ControllerProcess controller(cluster_.plane(), cluster_.arguments());
  cluster_.create_job("j", 4);
  ASSERT_TRUE(eventually([&] {
    return cluster_.describe("j").find("exceeded quota: two-pods") != std::string::npos;
  })) << cluster_.describe("j")
      << controller.log();
  EXPECT_LE(cluster_.pods_of("j").size(), 2U);
  EXPECT_FALSE(cluster_.holds("j", "Failed"));
}

TEST_F(Jobs, ANamespaceDeletedWhileTheControllerIsDownTerminates) {
  {
    ControllerProcess controller(cluster_.plane(), cluster_.arguments());
    FakeKubelets kubelets(cluster_.plane(), cluster_.name_space(), 0ms);
    cluster_.create_job("j");
    ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Running"); }));
    controller.signal(SIGKILL);
    ASSERT_EQ(controller.wait(10s), 128 + SIGKILL);
  }
  cluster_.api().remove("/api/v1/namespaces/" + cluster_.name_space());
  ControllerProcess controller(cluster_.plane(), cluster_.arguments());
  EXPECT_TRUE(eventually(
      [&] { return cluster_.api().find("/api/v1/namespaces/" + cluster_.name_space()).is_null(); },
      90s
  )) << controller.log();
}

TEST_F(Jobs, ReleaseFreesThePodsOfAnUninstalledOperator) {
  {
    ControllerProcess controller(cluster_.plane(), cluster_.arguments());
    FakeKubelets kubelets(cluster_.plane(), cluster_.name_space(), 0ms);
    cluster_.create_job("j");
    ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Running"); }));
  }
  for (const Json& pod : cluster_.pods_of("j")) {
    ASSERT_EQ(pod["metadata"]["finalizers"], Json::array({contract::kPodFinalizer}));
  }
  ASSERT_EQ(run_release(cluster_.plane().kubeconfig_file(), cluster_.name_space()), 0);
  for (const Json& pod : cluster_.pods_of("j")) {
    EXPECT_FALSE(pod["metadata"].contains("finalizers"));
  }
}

}  // namespace
}  // namespace gnn::testing
