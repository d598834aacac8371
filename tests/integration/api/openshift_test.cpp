#include "tests/integration/api/policies.h"
#include "tests/support/controller_process.h"
#include "tests/support/source_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

// The chart with its values for OpenShift, where the cluster chooses the users of pods.
namespace gnn::testing {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kFirstUser = "1000680000";

constexpr std::string_view kRangedNamespaces = R"(
apiVersion: v1
kind: Namespace
metadata:
  name: gnn-system
  labels: {pod-security.kubernetes.io/enforce: restricted, range: "1000680000"}
---
apiVersion: v1
kind: Namespace
metadata:
  name: train
  labels: {pod-security.kubernetes.io/enforce: restricted, range: "1000680000"}
)";

constexpr std::string_view kRangedJob = R"({
  "apiVersion": "gnn.dev/v1alpha1", "kind": "GNNJob", "metadata": {"name": "arxiv", "namespace": "train"},
  "spec": {
    "task": {"type": "NodeClassification"},
    "dataset": {"format": "Synthetic", "synthetic": {"shape": "Arxiv"}},
    "model": {"type": "GCN", "gcn": {"layers": 1}},
    "sampling": {"fanout": [5]},
    "workers": {"nodes": 2, "template": {"image": "gnn-worker:0.1.0"}}
  }
})";

class OpenShift : public ::testing::Test {
 protected:
  void SetUp() override {
    ControlPlaneOptions options;
    options.api_server_flags = {
        "--feature-gates=MutatingAdmissionPolicy=true",
        "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
        // As on OpenShift: who sets blockOwnerDeletion must be allowed to hold back the owner.
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
    };
    plane_ = must(ControlPlane::start(options));
    must(plane_->apply("-", kRangedNamespaces));
    must(plane_->apply(gnn::testing::source_dir() + "/tests/support/restricted_v2.yaml"));
    // An API server takes up each policy for itself, in any order.
    const auto policies_act = [&] {
      const std::string refusal = user_of_a_new_pod(R"(, "runAsUser": 65532)");
      return user_of_a_new_pod() == user_and_group_ &&
             refusal.find("must be in the namespace's range") != std::string::npos;
    };
    ASSERT_TRUE(eventually(policies_act)) << "the policies do not act: " << user_of_a_new_pod();
  }

  // `helm`, as people run it, on the chart with its values for OpenShift and others.
  std::string helm(std::vector<std::string> words, const std::vector<std::string>& settings = {})
      const {
    std::vector<std::string> command = {
        "/usr/bin/env",
        "HOME=" + plane_->directory().string(),
        "HELM_NO_PLUGINS=1",
        plane_->program("helm")
    };
    words.insert(
        words.end(),
        {"gnn-operator",
         chart_,
         "--namespace=gnn-system",
         "--kubeconfig=" + plane_->kubeconfig_file(),
         "--values=" + chart_ + "/values-openshift.yaml"}
    );
    command.insert(command.end(), words.begin(), words.end());
    command.insert(command.end(), settings.begin(), settings.end());
    const CommandOutput ran = must(run_command(command));
    EXPECT_EQ(ran.exit_code, 0) << ran.errors;
    return ran.output;
  }

  std::string kubectl(const std::vector<std::string>& words, std::string_view input = {}) const {
    const CommandOutput ran = must(plane_->kubectl(words, input));
    return ran.exit_code == 0 ? ran.output : ran.errors;
  }

  // Of each pod that matches, "USER GROUP".
  std::vector<std::string> users_of(const std::string& name_space, const std::string& selector)
      const {
    const json found = json::parse(kubectl(
        {"get", "pods", "--namespace=" + name_space, "--selector=" + selector, "--output=json"}
    ));
    std::vector<std::string> users;
    for (const json& pod : found.at("items")) users.push_back(user_of(pod));
    return users;
  }

  static std::string user_of(const json& pod) {
    const json security = pod.at("spec").value("securityContext", json::object());
    return security.value("runAsUser", json()).dump() + " " +
           security.value("fsGroup", json()).dump();
  }

  // The same of a pod that is only asked for, or what is said against it.
  std::string user_of_a_new_pod(const std::string& security = "") const {
    const std::string made = kubectl(
        {"create", "--dry-run=server", "--output=json", "-f", "-"},
        R"({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": "train"}, "spec": {
          "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"})" +
            security + R"(},
          "containers": [{"name": "x", "image": "x", "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]}})"
    );
    return made.starts_with("{") ? user_of(json::parse(made)) : made;
  }

  // The controller beside the cluster, with the arguments and the account of its Deployment.
  std::unique_ptr<ControllerProcess> start_controller() const {
    const std::string token = plane_->directory() / "token-gnn-operator";
    std::ofstream(token) << must(plane_->token_for("gnn-system", "gnn-operator"));
    std::string config = read_file(must(
        plane_->write_kubeconfig(plane_->server_url(), ControlPlane::KubeconfigUser::TokenFile)
    ));
    config.replace(config.find(plane_->token_file()), plane_->token_file().size(), token);
    const std::string path = plane_->directory() / "kubeconfig-gnn-operator";
    std::ofstream(path) << config;
    ControllerArguments arguments{.kubeconfig = path, .name_space = ""};
    const std::vector<std::string> told = json::parse(kubectl(
        {"get",
         "deployment",
         "gnn-operator",
         "--namespace=gnn-system",
         "--output=jsonpath={.spec.template.spec.containers[0].args}"}
    ));
    for (const std::string& argument : told) {
      // Ports, and what the process has by itself.
      const bool own = argument == "run" || argument.starts_with("--bind-address") ||
                       argument.starts_with("--health-bind-address") ||
                       argument.starts_with("--progress");
      if (!own) arguments.more.push_back(argument);
    }
    return std::make_unique<ControllerProcess>(*plane_, arguments);
  }

  const std::string chart_ = gnn::testing::source_dir() + "/charts/gnn-operator";
  const std::string user_and_group_ = std::string(kFirstUser) + " " + std::string(kFirstUser);
  std::unique_ptr<ControlPlane> plane_;
};

TEST_F(OpenShift, ChoosesTheUsersOfAllPodsOfAChartInstalledWithItsValues) {
  helm({"install"});
  const std::string controllers = "app.kubernetes.io/component=controller";
  EXPECT_TRUE(eventually([&] { return users_of("gnn-system", controllers).size() == 2; }))
      << kubectl({"get", "events", "--namespace=gnn-system"});
  EXPECT_THAT(users_of("gnn-system", controllers), ElementsAre(user_and_group_, user_and_group_));

  // Hooks, whose ends nobody would see without a kubelet, as objects of their own.
  for (const char* const hook : {"templates/hooks/release-pods.yaml", "templates/tests/job.yaml"}) {
    const std::string made = helm({"template"}, {std::string("--show-only=") + hook});
    EXPECT_THAT(kubectl({"create", "-f", "-"}, made), Not(HasSubstr("rror"))) << hook;
  }
  const std::string hooks = "app.kubernetes.io/component in (release,test)";
  EXPECT_TRUE(eventually([&] { return users_of("gnn-system", hooks).size() == 2; }))
      << kubectl({"get", "events", "--namespace=gnn-system"});
  EXPECT_THAT(users_of("gnn-system", hooks), ElementsAre(user_and_group_, user_and_group_));

  const auto controller = start_controller();
  must(plane_->apply("-", kRangedJob));
  EXPECT_TRUE(eventually([&] { return users_of("train", "gnn.dev/job=arxiv").size() == 2; }))
      << kubectl({"describe", "gnnjob", "arxiv", "--namespace=train"}) << controller->log();
  EXPECT_THAT(
      users_of("train", "gnn.dev/job=arxiv"), ElementsAre(user_and_group_, user_and_group_)
  );
  EXPECT_EQ(
      kubectl(
          {"get",
           "services,configmaps,networkpolicies",
           "--namespace=train",
           "--selector=gnn.dev/job=arxiv",
           "--output=name"}
      ),
      "service/arxiv-gnn\nconfigmap/arxiv-gnn\nnetworkpolicy.networking.k8s.io/arxiv-gnn\n"
  );
}

TEST_F(OpenShift, RefusesTheChartsOwnUsers) {
  // Without the values' part about users: the test above would see it.
  helm({"install"}, {"--set=podSecurity.userFromCluster=false"});
  const auto refusal = [&] {
    return kubectl(
        {"get",
         "replicasets",
         "--namespace=gnn-system",
         "--output=jsonpath={.items[*].status.conditions[*].message}"}
    );
  };
  EXPECT_TRUE(eventually([&] {
    return refusal().find("must be in the namespace's range") != std::string::npos;
  })) << refusal();
}

}  // namespace
}  // namespace gnn::testing
