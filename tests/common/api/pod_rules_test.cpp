#include "common/api/pod_rules.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gnn::api {
namespace {

using Paths = std::vector<std::string>;

Paths error_paths(const std::vector<FieldError>& errors) {
  Paths paths;
  for (const FieldError& error : errors) paths.push_back(error.path);
  return paths;
}

Paths wrong_resources(const Resources& resources) {
  return error_paths(resource_errors(resources, "r"));
}

TEST(PodRules, ComparesRequestsWithLimitsByTheirAmounts) {
  EXPECT_EQ(
      wrong_resources({.requests = {{"memory", "4G"}}, .limits = {{"memory", "4Gi"}}}), Paths{}
  );
  EXPECT_EQ(wrong_resources({.requests = {{"cpu", "1"}}, .limits = {{"cpu", "1000m"}}}), Paths{});
  EXPECT_EQ(
      wrong_resources({.requests = {{"memory", "4Gi"}}, .limits = {{"memory", "4G"}}}),
      Paths{"r.requests"}
  );
}

TEST(PodRules, KnowTheResourcesOfPods) {
  for (const char* name : {"memroy", "gpu", "pods", "requests.example.com/nic", "a..b/nic"}) {
    EXPECT_EQ(wrong_resources({.limits = {{name, "1"}}}), Paths{"r.limits"}) << name;
  }
  EXPECT_EQ(wrong_resources({.limits = {{"example.com/nic", "1"}}}), Paths{});
}

TEST(PodRules, ExtendedResourcesAreWholeAndAskedForAsTheyAreLimited) {
  EXPECT_EQ(wrong_resources({.limits = {{"example.com/nic", "500m"}}}), Paths{"r.limits"});
  EXPECT_EQ(wrong_resources({.requests = {{"example.com/nic", "1"}}}), Paths{"r.requests"});
  EXPECT_EQ(
      wrong_resources({.requests = {{"example.com/nic", "1"}}, .limits = {{"example.com/nic", "2"}}}
      ),
      Paths{"r.requests"}
  );
  EXPECT_EQ(
      wrong_resources(
          {.requests = {{"example.com/nic", "1k"}}, .limits = {{"example.com/nic", "1000"}}}
      ),
      Paths{}
  );
}

TEST(PodRules, HugePagesNeedWholePagesAndCpuOrMemory) {
  EXPECT_EQ(wrong_resources({.limits = {{"hugepages-2Mi", "4Mi"}}}), Paths{"r"});
  EXPECT_EQ(
      wrong_resources({.limits = {{"cpu", "1"}, {"hugepages-2Mi", "3Mi"}}}), Paths{"r.limits"}
  );
  EXPECT_EQ(wrong_resources({.limits = {{"cpu", "1"}, {"hugepages-2Mi", "4Mi"}}}), Paths{});
}

PodTemplate pod_with(const Toleration& toleration) {
  PodTemplate pod;
  pod.image = "a";
  pod.tolerations = {toleration};
  return pod;
}

TEST(PodRules, TolerationsAreAsKubernetesReadsThem) {
  EXPECT_EQ(
      error_paths(pod_errors(pod_with({.value = "b"}), "p")), Paths{"p.tolerations[0].operator"}
  );
  EXPECT_EQ(
      error_paths(pod_errors(pod_with({.key = "a", .op = "Exists", .value = "b"}), "p")),
      Paths{"p.tolerations[0].value"}
  );
  EXPECT_EQ(
      error_paths(pod_errors(pod_with({.key = "a", .toleration_seconds = 5}), "p")),
      Paths{"p.tolerations[0].effect"}
  );
  EXPECT_EQ(error_paths(pod_errors(pod_with({.op = "Exists"}), "p")), Paths{});
  EXPECT_EQ(
      error_paths(pod_errors(pod_with({.key = "a", .op = "In"}), "p")),
      Paths{"p.tolerations[0].operator"}
  );
  EXPECT_EQ(
      error_paths(pod_errors(pod_with({.key = "a", .effect = "Never"}), "p")),
      Paths{"p.tolerations[0].effect"}
  );
}

TEST(PodRules, ExpressionsHaveTheValuesOfTheirOperator) {
  const auto paths = [](const char* op, const std::vector<std::string>& values) {
    PodTemplate pod;
    pod.image = "a";
    pod.affinity.emplace().node_affinity.emplace().preferred = {
        {.preference = {{{.key = "a", .op = op, .values = values}}}}
    };
    return error_paths(pod_errors(pod, "p"));
  };
  const Paths wrong = {
      "p.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference."
      "matchExpressions[0].values"
  };
  EXPECT_EQ(paths("In", {}), wrong);
  EXPECT_EQ(paths("In", {"b"}), Paths{});
  EXPECT_EQ(paths("Exists", {"b"}), wrong);
  EXPECT_EQ(paths("Exists", {}), Paths{});
  EXPECT_EQ(paths("Gt", {"many"}), wrong);
  EXPECT_EQ(paths("Gt", {"1", "2"}), wrong);
  EXPECT_EQ(paths("Lt", {"1"}), Paths{});
}

TEST(PodRules, SourcesAreAmongTheKnownOnes) {
  PodTemplate pod;
  pod.image = "a";
  pod.env.resize(1);
  pod.env[0].value_from.emplace().field_ref.field_path = "spec.hostNetwork";
  pod.volumes.resize(1);
  pod.volumes[0].empty_dir.emplace().medium = "Tape";
  EXPECT_EQ(
      error_paths(pod_errors(pod, "p")),
      (Paths{"p.env[0].valueFrom.fieldRef.fieldPath", "p.volumes[0].emptyDir.medium"})
  );
  pod.env[0].value_from->field_ref.field_path = "spec.nodeName";
  pod.volumes[0].empty_dir->medium = "Memory";
  EXPECT_EQ(error_paths(pod_errors(pod, "p")), Paths{});
}

TEST(PodRules, ImagesAreReferences) {
  for (const char* image :
       {"gnn-worker",
        "gnn-worker:0.1.0",
        "Registry/team/gnn-worker",
        "example.com:5000/a__b/c-d.e:Latest",
        "[fd00::1]:5000/gnn-worker"}) {
    EXPECT_TRUE(is_image_reference(image)) << image;
  }
  for (const char* image :
       {" gnn-worker", "gnn worker", "GNN-Worker", "example.com/Team/w", "w:", "w:a:b", "https://w"
       }) {
    EXPECT_FALSE(is_image_reference(image)) << image;
  }
  EXPECT_FALSE(is_image_reference(std::string(512, 'a') + "!"));
}

}  // namespace
}  // namespace gnn::api
