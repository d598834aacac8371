#include "tests/integration/api/policies.h"
#include "tests/support/control_plane.h"
#include "tests/support/controller_process.h"
#include "tests/support/must.h"
#include "tests/support/source_dir.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

// Which labels and annotations a GNNJob may put on its pods, by the chart's ValidatingAdmissionPolicy.
namespace gnn::testing {
namespace {

using nlohmann::json;

constexpr std::string_view kMetadataPolicy = "gnn-operator-pod-metadata";

class PodMetadataPolicy : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ControlPlane& cluster = ControlPlane::shared();
    must(cluster.apply(gnn::testing::source_dir() + "/manifests/crds/gnnjobs.gnn.dev.yaml"));
    name_space() = must(cluster.create_namespace("metadata"));
    // From before the policy, as after its list became shorter.
    ASSERT_TRUE(eventually([] {
      return said("POST", "", job("older", "workers", "labels", "app")).empty();
    }));
    must(cluster.apply("-", policy_documents(gnn::testing::source_dir(), kMetadataPolicy)));
    ASSERT_TRUE(eventually([] {
      return !said("POST", "?dryRun=All", job("new", "workers", "labels", "app")).empty();
    }));
  }

  // It would refuse the jobs of other tests, too.
  static void TearDownTestSuite() {
    const std::string documents = policy_documents(gnn::testing::source_dir(), kMetadataPolicy);
    must(ControlPlane::shared().kubectl({"delete", "-f", "-"}, documents));
    EXPECT_TRUE(eventually([] {
      return said("POST", "?dryRun=All", job("new", "workers", "labels", "app")).empty();
    }));
  }

  static std::string& name_space() {
    static std::string name;
    return name;
  }
  static json job(
      const std::string& name,
      const std::string& role,
      const std::string& map,
      const std::string& key
  ) {
    json object = api::encode(api::sample_served_job());
    object["metadata"] = {{"name", name}};
    object["spec"]["suspend"] = true;
    object["spec"][role]["template"]["metadata"][map] = {{key, "x"}};
    return object;
  }
  static std::string said(std::string_view method, const std::string& path, const json& object) {
    return refusal_of(
        kMetadataPolicy,
        method,
        "/apis/gnn.dev/v1alpha1/namespaces/" + name_space() + "/gnnjobs" + path,
        object,
        "",
        method == "PATCH" ? "application/merge-patch+json" : "application/json"
    );
  }
};

TEST_F(PodMetadataPolicy, IsWellTyped) {
  EXPECT_EQ(type_warnings(kMetadataPolicy), "");
}

TEST_F(PodMetadataPolicy, NamesTheKeyThatTheChartDoesNotAllow) {
  for (const char* key :
       {"app",
        "kubernetes.io/x",
        "scheduling.x-k8s.io/pod-group",
        "cdi.k8s.io/gpu",
        "k8s.v1.cni.cncf.io/networks",
        "io.kubernetes.cri-o.Devices",
        "io.katacontainers.config.x",
        "container.apparmor.security.beta.kubernetes.io/worker",
        // Like keys that are allowed, or that the CRD refuses.
        "k8s.io",
        "foo.k8s.io.evil/x",
        "karpenter.sh/do-not-disrupts",
        "evil-gnn.dev/x",
        "iam.amazonaws.com/role"}) {
    for (const char* role : {"workers", "servers"}) {
      for (const char* map : {"labels", "annotations"}) {
        const std::string path =
            "spec." + std::string(role) + ".template.metadata." + map + "[\"" + key + "\"]: ";
        const std::string answer = said("POST", "?dryRun=All", job("new", role, map, key));
        EXPECT_TRUE(answer.starts_with(path)) << path << answer;
        EXPECT_NE(answer.find("jobs.podMetadata.allowedKeys"), std::string::npos) << answer;
      }
    }
  }
  // Like keys that are allowed, and none that a pod could have: the CRD refuses them before.
  for (const char* key :
       {"Karpenter.sh/do-not-disrupt",
        "karpenter.sh./do-not-disrupt",
        "karpenter.sh/do-not-disrupt.",
        "karpenter.sh/dо-not-disrupt"}) {  // a Cyrillic o
    EXPECT_NE(said("POST", "?dryRun=All", job("new", "servers", "annotations", key)), "") << key;
  }
  for (const char* key :
       {"cluster-autoscaler.kubernetes.io/safe-to-evict",
        "eks.amazonaws.com/skip-containers",
        "istio.io/dataplane-mode",
        "karpenter.sh/do-not-disrupt",
        "kuma.io/sidecar-injection",
        "linkerd.io/inject",
        "sidecar.istio.io/inject"}) {
    EXPECT_EQ(said("POST", "?dryRun=All", job("new", "servers", "annotations", key)), "") << key;
  }
}

TEST_F(PodMetadataPolicy, HoldsBackNoChangeOfAnOlderJob) {
  EXPECT_EQ(said("PATCH", "/older?dryRun=All", {{"spec", {{"suspend", false}}}}), "");
  const json more = {
      {"spec", {{"workers", {{"template", {{"metadata", {{"labels", {{"more", "x"}}}}}}}}}}}
  };
  EXPECT_NE(said("PATCH", "/older?dryRun=All", more), "");
}

}  // namespace
}  // namespace gnn::testing
