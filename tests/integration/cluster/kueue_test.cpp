#include "tests/support/kueue.h"

#include "tests/support/http.h"
#include "tests/support/must.h"
#include "tests/support/wait_until.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <memory>
#include <string>

namespace gnn::testing {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kQueues = R"(
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: all}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: any, resources: [{name: cpu, nominalQuota: 1}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: jobs, namespace: default}
spec: {clusterQueue: all}
)";

std::string workload(const std::string& name, int cpus) {
  const Json container = {
      {"name", "c"},
      {"image", "localhost/none:1"},
      {"resources", {{"requests", {{"cpu", std::to_string(cpus)}}}}}
  };
  const Json pod_set = {
      {"name", "main"},
      {"count", 1},
      {"template", {{"spec", {{"containers", {container}}, {"restartPolicy", "Never"}}}}}
  };
  return Json{
      {"apiVersion", "kueue.x-k8s.io/v1beta2"},
      {"kind", "Workload"},
      {"metadata", {{"name", name}, {"namespace", "default"}}},
      {"spec", {{"queueName", "jobs"}, {"podSets", {pod_set}}}}
  }.dump();
}

TEST(Kueue, AdmitsWhatFitsAndSaysWhatDoesNot) {
  const auto cluster = must(ControlPlane::start());
  const auto kueue = must(Kueue::start(*cluster));
  must(cluster->apply("-", kQueues));
  must(cluster->apply("-", workload("small", 1)));
  must(cluster->apply("-", workload("large", 2)));
  const auto says = [&](const std::string& name, const std::string& version) {
    const auto reply = http_request(
        cluster->admin_endpoint(),
        "GET",
        "/apis/kueue.x-k8s.io/" + version + "/namespaces/default/workloads/" + name
    );
    return reply ? reply->body : "";
  };
  const auto holds = [&](const std::string& name, const std::string& text) {
    return wait_until(std::chrono::seconds(30), [&] {
      return says(name, "v1beta2").find(text) != std::string::npos &&
             says(name, "v1beta1").find(text) != std::string::npos;
    });
  };
  EXPECT_TRUE(holds("small", "The workload is admitted")) << says("small", "v1beta2");
  EXPECT_TRUE(holds("large", "insufficient")) << says("large", "v1beta2");
  EXPECT_THAT(says("large", "v1beta2"), Not(HasSubstr("The workload is admitted")));
  EXPECT_THAT(kueue->log(), Not(HasSubstr("is forbidden")));
}

}  // namespace
}  // namespace gnn::testing
