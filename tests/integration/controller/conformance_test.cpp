#include "common/contract.h"
#include "tests/integration/controller/fixture.h"
#include "tests/support/must.h"

#include <gtest/gtest.h>

namespace gnn::testing {
namespace {

using namespace std::chrono_literals;

// The controller and a worker that keeps the contract, both as real processes. Only the kubelet is
// simulated.
class Conformance : public ::testing::Test {
 protected:
  static Json template_env(const Json& variables) {
    return {
        {"training", {{"epochs", 8}}},
        {"workers", {{"template", {{"env", variables}}}}},
    };
  }
  static ControllerArguments with_progress(ControllerArguments arguments) {
    arguments.progress = "pod-ip";
    return arguments;
  }

  Cluster cluster_;
  ProcessKubelets kubelets_{cluster_.plane(), cluster_.name_space()};
  ControllerProcess controller_{cluster_.plane(), with_progress(cluster_.arguments())};
};

TEST_F(Conformance, NodesMeetReportProgressAndComplete) {
  cluster_.create_job(
      "j", 3, template_env({{{"name", "CONFORMANCE_EPOCH_SECONDS"}, {"value", "1.5"}}})
  );
  ASSERT_TRUE(eventually([&] {
    const Json job = cluster_.job("j");
    return job.value(Json::json_pointer("/status/progress/epoch"), 0) > 1;
  })) << cluster_.describe("j")
      << controller_.log();
  // The status is written before the metrics follow.
  EXPECT_TRUE(eventually([&] {
    return controller_.http("/metrics").body.find("gnnjob_rate{job=\"j\"") != std::string::npos;
  })) << controller_.http("/metrics").body;
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Complete"); }))
      << cluster_.describe("j");
  const Json status = cluster_.job("j")["status"];
  EXPECT_EQ(status["progress"]["testMetric"], "0.75");
  EXPECT_EQ(status["attempt"], 1);
  EXPECT_EQ(status["nodes"]["succeeded"], 3);
}

TEST_F(Conformance, AKilledPodCausesExactlyOneRestart) {
  cluster_.create_job(
      "j", 2, template_env({{{"name", "CONFORMANCE_EPOCH_SECONDS"}, {"value", "0.4"}}})
  );
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Running"); })) << cluster_.describe("j");
  ASSERT_TRUE(kubelets_.kill_pod("j-1-1"));
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Complete"); }))
      << cluster_.describe("j") << controller_.log();
  const Json status = cluster_.job("j")["status"];
  EXPECT_EQ(status["attempt"], 2);
  EXPECT_EQ(status["restarts"], 1);
  EXPECT_EQ(status["lastFailure"]["node"], 1);
  ASSERT_TRUE(eventually([&] {
    const auto events = must(cluster_.plane().kubectl(
        {"get",
         "events",
         "-n",
         cluster_.name_space(),
         "-o",
         "jsonpath={range .items[*]}{.reason} {end}"}
    ));
    return events.output.find("Restarting") != std::string::npos &&
           events.output.find("Restarting") == events.output.rfind("Restarting");
  })) << "expected exactly one event Restarting";
}

TEST_F(Conformance, AConfigurationErrorIsNeverRetried) {
  cluster_.create_job(
      "j",
      2,
      template_env(
          {{{"name", "CONFORMANCE_FAIL_NODE"}, {"value", "1"}},
           {{"name", "CONFORMANCE_EXIT_CODE"}, {"value", "64"}}}
      )
  );
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Failed"); })) << cluster_.describe("j");
  const Json status = cluster_.job("j")["status"];
  EXPECT_EQ(status["attempt"], 1);
  EXPECT_EQ(status["lastFailure"]["node"], 1);
  EXPECT_EQ(status["lastFailure"]["exitCode"], contract::kExitConfiguration);
  EXPECT_EQ(status["lastFailure"]["message"], "asked to fail");
}

TEST_F(Conformance, AnEvictedPodIsNotCharged) {
  cluster_.create_job(
      "j", 2, template_env({{{"name", "CONFORMANCE_EPOCH_SECONDS"}, {"value", "0.4"}}})
  );
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Running"); })) << cluster_.describe("j");
  ASSERT_TRUE(cluster_.api().patch(
      cluster_.pods() + "/j-1-1/status",
      {{"status",
        {{"conditions",
          {{{"type", "DisruptionTarget"}, {"status", "True"}, {"reason", "EvictionByEvictionAPI"}},
           {{"type", "PodScheduled"}, {"status", "True"}},
           {{"type", "Ready"}, {"status", "True"}}}}}}}
  ));
  cluster_.api().remove(cluster_.pods() + "/j-1-1");
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Complete"); }))
      << cluster_.describe("j") << controller_.log();
  const Json status = cluster_.job("j")["status"];
  EXPECT_EQ(status["attempt"], 2);
  EXPECT_EQ(status["restarts"], 0);
}

}  // namespace
}  // namespace gnn::testing
