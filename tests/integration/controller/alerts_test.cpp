#include "tests/integration/controller/fixture.h"
#include "tests/support/must.h"
#include "tests/support/source_dir.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace gnn::testing {
namespace {

using namespace std::chrono_literals;

// What promtool is asked: whether those alerts, and no others of their names, are firing after half an
// hour in which the controller showed this page.
std::string rule_test(const std::string& page, const std::string& expected) {
  std::string text = "rule_files: [" + gnn::testing::source_dir() +
                     "/charts/gnn-operator/files/rules.yaml]\n"
                     "evaluation_interval: 1m\n"
                     "tests:\n"
                     "  - interval: 1m\n"
                     "    input_series:\n";
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("gnnjob_")) continue;
    const size_t end = line.rfind(' ');
    text += "      - {series: '" + line.substr(0, end) + "', values: '" + line.substr(end + 1) +
            "x30'}\n";
  }
  return text +
         "    promql_expr_test:\n"
         "      - expr: sum by (alertname, namespace, job) (ALERTS{alertstate=\"firing\", "
         "alertname=~\"GNNJobFailed|GNNJobInvalid|GNNJobGpusIdle\"})\n"
         "        eval_time: 30m\n"
         "        exp_samples:\n" +
         expected;
}

TEST(Alerts, FireForAFailedAnInvalidAndAnIdleJob) {
  const Cluster cluster;
  const ControllerProcess controller(cluster.plane(), cluster.arguments());
  FakeKubelets kubelets(cluster.plane(), cluster.name_space(), 0ms);
  kubelets.fail("failed-1-0", 64);
  cluster.create_job("failed", 1);
  const Json foreign = {{"annotations", {{"example.com/x", "y"}}}};
  cluster.create_job("invalid", 1, {{"workers", {{"template", {{"metadata", foreign}}}}}});
  cluster.create_job(
      "idle", 1, {{"training", {{"device", "CPU"}}}, {"workers", {{"gpusPerProcess", 1}}}}
  );
  cluster.create_job("good", 1);
  const auto all_told = [&] {
    return cluster.holds("failed", "Failed") && cluster.holds("idle", "Running") &&
           cluster.holds("good", "Running") &&
           cluster.condition("invalid", "Accepted")["status"] == "False";
  };
  ASSERT_TRUE(eventually(all_told)) << cluster.describe("failed") << cluster.describe("invalid")
                                    << cluster.describe("idle") << controller.log();

  std::string expected;
  for (const auto& [alert, job] :
       {std::pair("GNNJobFailed", "failed"),
        std::pair("GNNJobGpusIdle", "idle"),
        std::pair("GNNJobInvalid", "invalid")}) {
    expected += std::string("          - {labels: '{alertname=\"") + alert + "\", job=\"" + job +
                "\", namespace=\"" + cluster.name_space() + "\"}', value: 1}\n";
  }
  const std::string file = cluster.plane().directory() / "alerts.yaml";
  const auto tested = [&] {
    std::ofstream(file) << rule_test(controller.http("/metrics").body, expected);
    return must(run_command({"promtool", "test", "rules", file}));
  };
  // A pass shows a job's series after it has written its status.
  EXPECT_TRUE(eventually([&] { return tested().exit_code == 0; }, 20s))
      << tested().output << tested().errors;
}

}  // namespace
}  // namespace gnn::testing
