#include "common/contract.h"
#include "tests/support/control_plane.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

/// What a real API server refuses by the chart's ValidatingAdmissionPolicy, as manifests/base has
/// it.
namespace gnn::testing {
namespace {

using nlohmann::json;

const std::string kManifests = std::string(GNN_SOURCE_DIR) + "/manifests/base/gnn-operator.yaml";
constexpr std::string_view kPrivilege = "may not be privileged, escalate privileges or add";

/// The documents of the policy and of its binding.
std::string policy_documents() {
  std::ifstream file(kManifests);
  std::ostringstream text;
  text << file.rdbuf();
  std::string rest = text.str();
  std::string found;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find("\n---\n"), rest.size());
    const std::string document = rest.substr(0, end);
    if (document.find("kind: ValidatingAdmissionPolicy") != std::string::npos) {
      found += document + "\n---\n";
    }
    rest.erase(0, std::min(end + 5, rest.size()));
  }
  return found;
}

json container(const std::string& name) {
  return {
      {"name", name}, {"image", "i"}, {"securityContext", {{"allowPrivilegeEscalation", false}}}
  };
}

/// The API server by itself takes this one: "privileged" it may refuse whatever the policy says.
json grasping(const std::string& name) {
  json asks = container(name);
  asks["securityContext"]["capabilities"]["add"] = json::array({"NET_ADMIN"});
  return asks;
}

json pod(const std::string& name) {
  return {
      {"apiVersion", "v1"},
      {"kind", "Pod"},
      {"metadata", {{"name", name}, {"labels", {{contract::kLabelJobUid, "u"}}}}},
      {"spec",
       {{"automountServiceAccountToken", false}, {"containers", json::array({container("worker")})}}
      }
  };
}

class WorkerPodsPolicy : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ControlPlane& cluster = ControlPlane::shared();
    name_space() = cluster.create_namespace("policy").value();
    // From before the policy, as after an upgrade of the chart.
    json older = pod("older");
    older["metadata"]["finalizers"] = json::array({"gnn.dev/result"});
    older["spec"]["initContainers"] = json::array({grasping("init")});
    ASSERT_EQ(create(older), "");
    const Status applied = cluster.apply("-", policy_documents());
    ASSERT_TRUE(applied) << applied.error().message;
    // The API server compiles policies behind the scenes.
    json refused = pod("refused");
    refused["spec"]["containers"] = json::array({grasping("worker")});
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (create(refused, "--dry-run=server").empty()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline)
          << "the policy does not come into force";
    }
  }

  static std::string& name_space() {
    static std::string name;
    return name;
  }

  /// What the API server says against it; empty: nothing.
  static std::string run(std::vector<std::string> arguments, const json& input) {
    arguments.push_back("--namespace=" + name_space());
    const auto output = ControlPlane::shared().kubectl(arguments, input.dump());
    EXPECT_TRUE(output) << output.error().message;
    return output->exit_code == 0 ? "" : output->errors;
  }
  static std::string create(const json& object, const std::string& flag = "--validate=true") {
    return run({"create", "-f", "-", flag}, object);
  }
  static std::string patch(const std::string& name, const json& change) {
    return run({"patch", "pod", name, "--type=merge", "--patch=" + change.dump()}, {});
  }
  static std::string debug(json whole, const json& ephemeral) {
    whole["metadata"]["namespace"] = name_space();
    whole["spec"]["ephemeralContainers"] = json::array({ephemeral});
    const std::string path = "/api/v1/namespaces/" + name_space() + "/pods/" +
                             whole["metadata"]["name"].get<std::string>() + "/ephemeralcontainers";
    return run({"replace", "--raw=" + path, "-f", "-"}, whole);
  }
};

TEST_F(WorkerPodsPolicy, HoldsForInitContainers) {
  json one = pod("init");
  one["spec"]["initContainers"] = json::array({container("first")});
  EXPECT_EQ(create(one, "--dry-run=server"), "");
  one["spec"]["initContainers"].push_back(grasping("second"));
  EXPECT_NE(create(one, "--dry-run=server").find(kPrivilege), std::string::npos);
  one["metadata"]["labels"] = {{"not", "ours"}};
  EXPECT_EQ(create(one, "--dry-run=server"), "");
}

TEST_F(WorkerPodsPolicy, HoldsForContainersThatArePutIntoARunningPod) {
  ASSERT_EQ(create(pod("running")), "");
  EXPECT_NE(debug(pod("running"), grasping("debugger")).find(kPrivilege), std::string::npos);
  EXPECT_EQ(debug(pod("running"), container("debugger")), "");
}

TEST_F(WorkerPodsPolicy, DoesNotHoldBackAPodThatIsOlder) {
  EXPECT_EQ(patch("older", {{"metadata", {{"finalizers", nullptr}}}}), "");
}

TEST_F(WorkerPodsPolicy, NobodyMayLabelAnotherPodAsOurs) {
  json other = pod("other");
  other["metadata"]["labels"] = {{"not", "ours"}};
  other["spec"]["containers"] = json::array({grasping("worker")});
  ASSERT_EQ(create(other), "");
  const json label = {{"metadata", {{"labels", {{contract::kLabelJobUid, "u"}}}}}};
  EXPECT_NE(patch("other", label).find(kPrivilege), std::string::npos);
}

}  // namespace
}  // namespace gnn::testing
