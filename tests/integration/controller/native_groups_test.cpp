#include "tests/integration/controller/gangs.h"
#include "tests/support/group_crds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

// Kubernetes 1.37 with a real scheduler that knows groups of pods.
namespace gnn::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kPriorityClasses = "/apis/scheduling.k8s.io/v1/priorityclasses";

Gangs::Options native(bool gate = true) {
  return {
      .plane =
          {.api_server_flags = {"--runtime-config=scheduling.k8s.io/v1beta1=true"},
           .programs = ControlPlanePrograms::NativeGroups,
           .feature_gates = std::string("GenericWorkload=") + (gate ? "true" : "false")},
      .group_api = kNativeGroupApi,
      .provider = "Native",
  };
}

Json priority_class(const std::string& name, int value) {
  return {{"metadata", {{"name", name}}}, {"value", value}};
}

// What an API server does whose gate is off while another of the same cluster serves groups: it takes
// the field from pods. Servers that differ are not to be had here, so that a policy of theirs takes it.
constexpr const char* kTakesGroupsFromPods = R"yaml(
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: no-groups}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  matchConditions: [{name: grouped, expression: has(object.spec.schedulingGroup)}]
  mutations:
    - patchType: JSONPatch
      jsonPatch: {expression: '[JSONPatch{op: "remove", path: "/spec/schedulingGroup"}]'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: no-groups}
spec: {policyName: no-groups}
)yaml";

constexpr const char* kPodInGroup = R"(
apiVersion: v1
kind: Pod
metadata: {name: x, namespace: default}
spec: {schedulingGroup: {podGroupName: x}, containers: [{name: x, image: x}]}
)";

std::string why_waits(const Gangs& gangs, const std::string& job) {
  return gangs.cluster().condition(job, "Scheduled")["message"];
}

TEST(NativeGroups, OfTwoGangsOneIsWholeAndNoneIsPartial) {
  const Gangs gangs(native());
  gangs.create("a");
  ASSERT_TRUE(eventually([&] { return gangs.runs("a"); })) << gangs.log();
  gangs.create("b");
  ASSERT_TRUE(eventually([&] {
    return gangs.why_not_scheduled("b") == "GangPending" &&
           why_waits(gangs, "b").find("minCount (3)") != std::string::npos;
  })) << gangs.log();
  EXPECT_EQ(gangs.placed("a"), 3);
  EXPECT_EQ(gangs.placed("b"), 0);
  EXPECT_EQ(gangs.groups(), "a-1 b-1");
  EXPECT_EQ(gangs.status("a")["scheduling"], (Json{{"provider", "Native"}, {"group", "a-1"}}));
  for (const Json& pod : gangs.cluster().pods_of("b")) {
    EXPECT_EQ(pod["spec"]["schedulingGroup"]["podGroupName"], "b-1");
  }

  expect_turns(gangs);
}

TEST(NativeGroups, AGangOfHigherPriorityTakesThePlacesOfAWholeOneWhichRestartsFree) {
  const Gangs gangs(native());
  gangs.api().create(kPriorityClasses, priority_class("urgent", 1000));
  gangs.create("a", {{"scheduling", {{"disruptionMode", {{"all", Json::object()}}}}}});
  ASSERT_TRUE(eventually([&] { return gangs.runs("a"); })) << gangs.log();
  gangs.create("b", {{"workers", {{"template", {{"priorityClassName", "urgent"}}}}}});
  ASSERT_TRUE(eventually([&] { return gangs.runs("b"); })) << gangs.log();
  ASSERT_TRUE(eventually([&] { return gangs.why_not_scheduled("a") == "GangPending"; }))
      << gangs.log();
  EXPECT_EQ(gangs.placed("a"), 0);
  EXPECT_EQ(gangs.groups(), "a-2 b-1");
  const Json status = gangs.status("a");
  EXPECT_EQ(status["restarts"], 0);
  EXPECT_EQ(status["lastFailure"]["reason"], "Disrupted");
}

TEST(NativeGroups, OfAnotherPriorityThanTheirPodsHoldNothingAndSaySo) {
  Gangs::Options options = native();
  options.through_proxy = true;
  const Gangs gangs(options);
  gangs.api().create(kPriorityClasses, priority_class("changing", 1000));
  // Between the group and its pods, somebody gives the class another value.
  gangs.proxy().after_write(
      1,
      [&] {
        gangs.api().remove(std::string(kPriorityClasses) + "/changing");
        gangs.api().create(kPriorityClasses, priority_class("changing", 2000));
      },
      path_ends_with("/podgroups")
  );
  gangs.create("a", {{"workers", {{"template", {{"priorityClassName", "changing"}}}}}});
  ASSERT_TRUE(eventually([&] {
    return why_waits(gangs, "a").find("same priority") != std::string::npos;
  })) << gangs.log();
  EXPECT_EQ(gangs.why_not_scheduled("a"), "GangPending");
  EXPECT_EQ(gangs.placed("a"), 0);
  // The next attempt has a group of its own, and with it the new priority.
  gangs.suspend("a", true);
  ASSERT_TRUE(eventually([&] { return gangs.cluster().holds("a", "Suspended"); })) << gangs.log();
  gangs.suspend("a", false);
  ASSERT_TRUE(eventually([&] { return gangs.runs("a"); })) << gangs.log();
  EXPECT_EQ(gangs.groups(), "a-2");
}

TEST(NativeGroups, HaveThePriorityOfTheClassThatIsTheDefault) {
  const Gangs gangs(native());
  Json all = priority_class("all", 500);
  all["globalDefault"] = true;
  gangs.api().create(kPriorityClasses, all);
  gangs.create("a");
  ASSERT_TRUE(eventually([&] { return gangs.runs("a"); })) << gangs.log();
  EXPECT_EQ(gangs.placed("a"), 3);
  for (const Json& pod : gangs.cluster().pods_of("a")) EXPECT_EQ(pod["spec"]["priority"], 500);
}

TEST(NativeGroups, WithoutTheGatePodsArePlacedOneByOneAndTheJobSaysSo) {
  const Gangs gangs(native(false));
  gangs.create("a");
  ASSERT_TRUE(eventually([&] { return gangs.runs("a"); })) << gangs.log();
  EXPECT_EQ(gangs.status("a")["scheduling"]["provider"], "None");
  EXPECT_THAT(
      gangs.status("a")["scheduling"]["message"].get<std::string>(),
      HasSubstr("scheduling.k8s.io/v1beta1")
  );
  EXPECT_EQ(gangs.groups(), "");
}

TEST(NativeGroups, ThatAnApiServerTakesFromPodsAreGivenUpAndTheJobSaysSo) {
  const Gangs gangs(native());
  ControlPlane& plane = gangs.cluster().plane();
  must(plane.apply("-", kTakesGroupsFromPods));
  const auto created = [&] {
    return must(plane.kubectl({"create", "--dry-run=server", "-o=json", "-f", "-"}, kPodInGroup));
  };
  ASSERT_TRUE(eventually([&] {
    const CommandOutput made = created();
    return made.exit_code == 0 && made.output.find("podGroupName") == std::string::npos;
  })) << created().output
      << created().errors;
  gangs.create("a");
  ASSERT_TRUE(eventually([&] { return gangs.runs("a") && gangs.groups().empty(); })) << gangs.log();
  const Json scheduling = gangs.status("a")["scheduling"];
  EXPECT_EQ(scheduling["provider"], "None");
  EXPECT_FALSE(scheduling.contains("group"));
  EXPECT_THAT(
      scheduling["message"].get<std::string>(), HasSubstr("feature gate GenericWorkload is off")
  );
  EXPECT_EQ(gangs.status("a")["attempt"], 1);
}

}  // namespace
}  // namespace gnn::testing
