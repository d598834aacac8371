#include "tests/integration/api/policies.h"
#include "tests/support/control_plane.h"
#include "tests/support/source_dir.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

// A real API server takes every object of the chart, with each file of values in the chart's ci
// folder and those for OpenShift.
namespace gnn::testing {
namespace {

namespace fs = std::filesystem;

const std::string kChart = gnn::testing::source_dir() + "/charts/gnn-operator";
const std::string kCrd = gnn::testing::source_dir() + "/manifests/crds/gnnjobs.gnn.dev.yaml";

// A dry run leaves nothing behind, so what the chart's objects need is made first: the namespaces
// that the values name, the test pod's account, and (applied by itself) the test job's kind.
constexpr std::string_view kPrerequisites = R"(
apiVersion: v1
kind: Namespace
metadata:
  name: gnn-system
  labels:
    pod-security.kubernetes.io/enforce: restricted
    pod-security.kubernetes.io/warn: restricted
---
{apiVersion: v1, kind: Namespace, metadata: {name: monitoring}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: team-a}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: team-b}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: gnn-operator, namespace: gnn-system}}
)";

std::vector<std::string> ci_values() {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(kChart + "/ci")) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  files.push_back(kChart + "/values-openshift.yaml");
  return files;
}

TEST(ChartAdmission, TakesTheChartWithEachFileOfValues) {
  ControlPlane& cluster = ControlPlane::shared();
  const Status crd = cluster.apply(kCrd);
  ASSERT_TRUE(crd) << crd.error().message;
  const Status others = cluster.apply("-", kPrerequisites);
  ASSERT_TRUE(others) << others.error().message;
  ASSERT_GE(ci_values().size(), 4U);
  for (const std::string& file : ci_values()) {
    SCOPED_TRACE(file);
    const std::string rendered = chart_with(
        gnn::testing::source_dir(),
        {
            "--values=" + file,
            // Kinds of the Prometheus operator, which this API server does not know.
            "--set=metrics.serviceMonitor.enabled=false",
            "--set=metrics.podMonitor.enabled=false",
            "--set=metrics.prometheusRule.enabled=false",
        }
    );
    const auto applied = cluster.kubectl(
        {"apply",
         "--server-side",
         "--force-conflicts",
         "--dry-run=server",
         "--validate=strict",
         "-f",
         "-"},
        rendered
    );
    ASSERT_TRUE(applied) << applied.error().message;
    EXPECT_EQ(applied->exit_code, 0) << applied->errors;
    EXPECT_EQ(applied->errors, "") << "a warning, of Pod Security for one";
    for (const char* object :
         {"deployment.apps/gnn-operator", "pod/gnn-operator-test", "gnnjob.gnn.dev/"}) {
      EXPECT_NE(applied->output.find(object), std::string::npos) << applied->output;
    }
  }
}

}  // namespace
}  // namespace gnn::testing
