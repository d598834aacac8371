#include "common/contract.h"
#include "common/rfc3339.h"
#include "tests/integration/controller/fixture.h"
#include "tests/support/must.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <signal.h>

namespace gnn::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

class Jobs : public ::testing::Test {
 protected:
  // Sets the namespace's quota, and returns once it holds.
  void allow_pods(int count) {
    const std::string quotas = "/api/v1/namespaces/" + cluster_.name_space() + "/resourcequotas";
    const std::string text = std::to_string(count);
    const Json spec = {{"spec", {{"hard", {{"pods", text}}}}}};
    if (!cluster_.api().patch(quotas + "/pods", spec)) {
      Json quota = spec;
      quota["metadata"] = {{"name", "pods"}};
      cluster_.api().create(quotas, quota);
    }
    ASSERT_TRUE(eventually([&] {
      const Json quota = cluster_.api().get(quotas + "/pods");
      return quota.value(Json::json_pointer("/status/hard/pods"), std::string()) == text;
    }));
  }
  bool exceeds_quota(const std::string& job) const {
    return cluster_.describe(job).find("exceeded quota: pods") != std::string::npos;
  }

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
  cluster_.end_pod("j-1-1", contract::kExitOther);
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

TEST_F(Jobs, WhatAUserChangesOfTheServiceAndTheNetworkPolicyIsPutBackOnce) {
  const auto proxy = must(FaultProxy::in_front_of(cluster_.plane()));
  ControllerProcess controller(cluster_.plane(), cluster_.arguments_through(*proxy));
  FakeKubelets kubelets(cluster_.plane(), cluster_.name_space(), 0ms);
  cluster_.create_job("j");
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Running"); })) << cluster_.describe("j");
  const std::string base = "/namespaces/" + cluster_.name_space();
  const std::string service = "/api/v1" + base + "/services/j-gnn";
  const std::string policy = "/apis/networking.k8s.io/v1" + base + "/networkpolicies/j-gnn";
  const Json exists = {{{"key", "app"}, {"operator", "Exists"}}};
  const Json open = {{{"ports", {{{"port", "http"}, {"protocol", "TCP"}}}}}};
  const std::vector<std::pair<std::string, Json>> changes = {
      {service, {{"selector", {{"app", "x"}}}}},
      {service, {{"publishNotReadyAddresses", false}}},
      {policy, {{"podSelector", {{"matchLabels", {{"app", "x"}}}}}}},
      {policy, {{"podSelector", {{"matchExpressions", exists}}}}},
      {policy, {{"ingress", open}}},
      {policy, {{"policyTypes", {"Egress"}}}},
  };
  for (const auto& [path, spec] : changes) {
    const Json before = cluster_.api().get(path)["spec"];
    ASSERT_TRUE(cluster_.api().patch(path, {{"spec", spec}})) << spec;
    ASSERT_TRUE(eventually([&] { return cluster_.api().get(path)["spec"] == before; }))
        << path << spec << cluster_.api().get(path)["spec"] << controller.log();
  }
  kubelets.let_finish();
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Complete"); }))
      << cluster_.describe("j") << controller.log();
  EXPECT_EQ(cluster_.job("j")["status"]["attempt"], 1);
  const auto repairs = [](const RecordedRequest& request) {
    return request.method == "PATCH" && request.path.ends_with("/j-gnn");
  };
  EXPECT_EQ(proxy->requests(repairs).size(), changes.size());
}

TEST_F(Jobs, LabelsThatAUserChangesOrRemovesComeBack) {
  const auto labels_of = [&](const Json& pod) { return pod["metadata"]["labels"].dump(); };
  ControllerProcess controller(cluster_.plane(), cluster_.arguments());
  FakeKubelets kubelets(cluster_.plane(), cluster_.name_space(), 0ms);
  cluster_.create_job("j");
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Running"); })) << cluster_.describe("j");
  const std::string job(contract::kLabelJob);
  const std::string attempt(contract::kLabelAttempt);
  const std::string node(contract::kLabelNode);
  for (const Json& change :
       {Json{{job, nullptr}},
        Json{{job, "other"}},
        Json{{attempt, "999"}},
        Json{{attempt, nullptr}, {node, "x"}},
        Json{{job, nullptr}, {attempt, nullptr}, {node, nullptr}, {contract::kLabelJobUid, nullptr}}
       }) {
    const std::string pod = cluster_.pods() + "/j-1-1";
    const std::string before = labels_of(cluster_.api().get(pod));
    ASSERT_TRUE(cluster_.api().patch(pod, {{"metadata", {{"labels", change}}}}));
    ASSERT_TRUE(eventually([&] { return labels_of(cluster_.api().get(pod)) == before; }))
        << change << controller.log();
  }
  kubelets.let_finish();
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Complete"); }))
      << cluster_.describe("j") << controller.log();
  EXPECT_EQ(cluster_.job("j")["status"]["attempt"], 1);
  EXPECT_EQ(kubelets.seen().size(), 2U);
}

// Whether it loses them while the controller runs, which cannot put them back, or is down.
TEST_F(Jobs, APodWithoutItsLabelsDoesNotOutliveItsJob) {
  const auto proxy = must(FaultProxy::in_front_of(cluster_.plane()));
  FakeKubelets kubelets(cluster_.plane(), cluster_.name_space(), 0ms);
  auto controller =
      std::make_unique<ControllerProcess>(cluster_.plane(), cluster_.arguments_through(*proxy));
  for (const char* job : {"a", "b"}) {
    cluster_.create_job(job);
    ASSERT_TRUE(eventually([&] { return cluster_.holds(job, "Running"); }));
  }
  const auto strip = [&](const std::string& pod) {
    const Json none = {{"metadata", {{"labels", nullptr}}}};
    ASSERT_TRUE(cluster_.api().patch(cluster_.pods() + "/" + pod, none));
  };
  const auto is_gone = [&](const std::string& pod) {
    return eventually([&] { return cluster_.api().find(cluster_.pods() + "/" + pod).is_null(); });
  };
  const auto changes_the_pod = [](const RecordedRequest& request) {
    return request.method == "PATCH" && request.path.ends_with("/a-1-0");
  };
  const int refused = proxy->add_fault(changes_the_pod, answer_internal_error());
  strip("a-1-0");
  ASSERT_TRUE(eventually([&] { return proxy->times_applied(refused) > 0; })) << controller->log();
  cluster_.api().remove(cluster_.jobs() + "/a");
  proxy->remove_fault(refused);
  EXPECT_TRUE(is_gone("a-1-0")) << controller->log();

  controller.reset();
  strip("b-1-0");
  cluster_.api().remove(cluster_.jobs() + "/b");
  controller = std::make_unique<ControllerProcess>(cluster_.plane(), cluster_.arguments());
  EXPECT_TRUE(is_gone("b-1-0")) << controller->log();
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
  allow_pods(2);
  const auto proxy = must(FaultProxy::in_front_of(cluster_.plane()));
  ControllerProcess controller(cluster_.plane(), cluster_.arguments_through(*proxy));
  cluster_.create_job("j", 8);
  ASSERT_TRUE(eventually([&] { return exceeds_quota("j"); }))
      << cluster_.describe("j") << controller.log();
  EXPECT_LE(cluster_.pods_of("j").size(), 2U);
  EXPECT_FALSE(cluster_.holds("j", "Failed"));
  const auto creates_a_pod = [](const RecordedRequest& request) {
    return request.method == "POST" && request.path.ends_with("/pods");
  };
  EXPECT_LT(proxy->requests(creates_a_pod).size(), 8U)
      << "far from a call for each pod, again and again";
}

TEST_F(Jobs, AQuotaThatFallsMidRunHoldsBackTheNextAttemptUntilItRises) {
  allow_pods(2);
  ControllerProcess controller(cluster_.plane(), cluster_.arguments());
  FakeKubelets kubelets(cluster_.plane(), cluster_.name_space(), 0ms);
  cluster_.create_job("j");
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Running"); })) << cluster_.describe("j");
  allow_pods(1);
  EXPECT_TRUE(cluster_.holds("j", "Running")) << "what runs stays";
  cluster_.end_pod("j-1-1", contract::kExitOther);
  ASSERT_TRUE(eventually([&] { return exceeds_quota("j"); }))
      << cluster_.describe("j") << controller.log();
  EXPECT_EQ(cluster_.job("j")["status"]["attempt"], 2);
  EXPECT_FALSE(cluster_.holds("j", "Running"));

  allow_pods(2);
  kubelets.let_finish();
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Complete"); }))
      << cluster_.describe("j") << controller.log();
  const Json status = cluster_.job("j")["status"];
  EXPECT_EQ(status["attempt"], 2) << "waiting for room is no failure";
  EXPECT_EQ(status["restarts"], 1);
}

TEST_F(Jobs, AMissingImageIsNamedAndItsGangGivesItsMachinesBackAtTheStartupDeadline) {
  ControllerProcess controller(cluster_.plane(), cluster_.arguments());
  const Json policy = {{"maxRestarts", 0}, {"startupDeadlineSeconds", 3}};
  cluster_.create_job("j", 2, {{"runPolicy", policy}});
  ASSERT_TRUE(eventually([&] { return cluster_.pods_of("j").size() == 2; })) << controller.log();
  const auto report = [&](const std::string& pod, const char* phase, const Json& state) {
    const Json worker = {
        {"name", contract::kWorkerContainer},
        {"image", "localhost/none:1"},
        {"imageID", ""},
        {"restartCount", 0},
        {"ready", phase == std::string("Running")},
        {"state", state}
    };
    const Json status = {
        {"phase", phase},
        {"podIP", "127.0.0.1"},
        {"conditions", {{{"type", "PodScheduled"}, {"status", "True"}}}},
        {"containerStatuses", {worker}}
    };
    ASSERT_TRUE(cluster_.api().patch(cluster_.pods() + "/" + pod + "/status", {{"status", status}})
    );
  };
  report("j-1-0", "Running", {{"running", Json::object()}});
  const Json waiting = {{"reason", "ImagePullBackOff"}, {"message", "no localhost/none:1 here"}};
  report("j-1-1", "Pending", {{"waiting", waiting}});
  EXPECT_TRUE(eventually([&] {
    const std::string status = cluster_.job("j")["status"].dump();
    return status.find("ImagePullBackOff: no localhost/none:1 here") != std::string::npos;
  })) << cluster_.job("j")["status"];
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Failed"); })) << controller.log();
  const Json failure = cluster_.job("j")["status"]["lastFailure"];
  EXPECT_EQ(failure["node"], 1);
  EXPECT_EQ(failure["reason"], "NotStarted");
  EXPECT_TRUE(eventually([&] { return cluster_.pods_of("j").empty(); })) << controller.log();
}

// The kubelet says nothing of it in the pod, but only in an event.
TEST_F(Jobs, AVolumeThatIsMissingIsNamedByTheEventsOfItsPod) {
  ControllerProcess controller(cluster_.plane(), cluster_.arguments());
  cluster_.create_job("j", 1);
  ASSERT_TRUE(eventually([&] { return cluster_.pods_of("j").size() == 1; })) << controller.log();
  const Json pod = cluster_.pods_of("j").at(0);
  const auto event = [&](const std::string& name, const std::string& uid, const std::string& text) {
    (void)cluster_.api().create(
        "/api/v1/namespaces/" + cluster_.name_space() + "/events",
        {{"metadata", {{"name", name}}},
         {"involvedObject",
          {{"apiVersion", "v1"},
           {"kind", "Pod"},
           {"namespace", cluster_.name_space()},
           {"name", "j-1-0"},
           {"uid", uid}}},
         {"type", "Warning"},
         {"reason", "FailedMount"},
         {"message", text},
         {"lastTimestamp", "2026-01-02T03:04:05Z"}}
    );
  };
  event("of-another", "uid-of-an-earlier-pod", "an earlier pod's");
  event("of-this", pod["metadata"]["uid"], "there is no configmap no-such");
  const Json worker = {
      {"name", contract::kWorkerContainer},
      {"image", "localhost/none:1"},
      {"imageID", ""},
      {"restartCount", 0},
      {"ready", false},
      {"state", {{"waiting", {{"reason", "ContainerCreating"}}}}}
  };
  const Json status = {
      {"phase", "Pending"},
      {"conditions",
       {{{"type", "PodScheduled"},
         {"status", "True"},
         {"lastTransitionTime", "2026-01-02T03:04:05Z"}}}},
      {"containerStatuses", {worker}}
  };
  ASSERT_TRUE(cluster_.api().patch(cluster_.pods() + "/j-1-0/status", {{"status", status}}));
  EXPECT_TRUE(eventually([&] {
    return cluster_.describe("j").find("FailedMount: there is no configmap no-such") !=
           std::string::npos;
  })) << cluster_.describe("j")
      << controller.log();
}

// A kubelet's request with all its times moved.
std::string with_clock_off_by(std::chrono::seconds offset, const std::string& body) {
  static const std::regex time(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)");
  std::string edited;
  auto rest = body.begin();
  for (std::sregex_iterator found(body.begin(), body.end(), time), end; found != end; ++found) {
    edited.append(rest, (*found)[0].first);
    edited += format_rfc3339(*parse_rfc3339(found->str()) + offset);
    rest = (*found)[0].second;
  }
  return edited.append(rest, body.end());
}

// Node 0's machine is ahead, node 1's behind.
TEST_F(Jobs, ClocksOfMachinesThatAreAnHourOffChargeAndEndNothing) {
  const auto machines = must(FaultProxy::in_front_of(cluster_.plane()));
  const auto of_node = [](const char* node) {
    return [end = std::string(node) + "/status"](const RecordedRequest& request) {
      return request.is_write() && request.path.ends_with(end);
    };
  };
  const int ahead = machines->add_fault(of_node("-0"), EditRequest{[](const auto& request) {
                                          return with_clock_off_by(1h, request.body);
                                        }});
  const int behind = machines->add_fault(of_node("-1"), EditRequest{[](const auto& request) {
                                           return with_clock_off_by(-1h, request.body);
                                         }});
  ControllerProcess controller(cluster_.plane(), cluster_.arguments());
  FakeKubelets kubelets(Api(cluster_.plane(), *machines), cluster_.name_space(), 0ms);
  const Json policy = {
      {"startupDeadlineSeconds", 1800},
      {"schedulingTimeoutSeconds", 1800},
      {"activeDeadlineSeconds", 1800},
      {"maxRestarts", 0}
  };
  cluster_.create_job("j", 2, {{"runPolicy", policy}});
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Running"); }))
      << cluster_.describe("j") << controller.log();

  // It leaves because of the other one, which takes a moment to say why it goes.
  kubelets.fail("j-1-1", contract::kExitPeerLost);
  ASSERT_TRUE(eventually([&] { return cluster_.job("j")["status"]["nodes"]["failed"] == 1; }))
      << cluster_.describe("j") << controller.log();
  EXPECT_FALSE(cluster_.holds("j", "Failed")) << cluster_.describe("j");
  kubelets.fail("j-1-0", contract::kExitPreempted);
  ASSERT_TRUE(eventually([&] {
    return cluster_.job("j")["status"]["attempt"] == 2 && cluster_.holds("j", "Running");
  })) << cluster_.describe("j")
      << controller.log();
  const Json failure = cluster_.job("j")["status"]["lastFailure"];
  EXPECT_EQ(failure["reason"], "Preempted") << failure;
  const auto age =
      std::chrono::system_clock::now() - *parse_rfc3339(failure["time"].get<std::string>());
  EXPECT_LT(std::chrono::abs(age), 30min) << failure;

  kubelets.let_finish();
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Complete"); }))
      << cluster_.describe("j") << controller.log();
  EXPECT_EQ(cluster_.job("j")["status"]["restarts"], 0);
  EXPECT_EQ(kubelets.seen().size(), 4U);
  EXPECT_GE(machines->times_applied(ahead), 4);
  EXPECT_GE(machines->times_applied(behind), 4);
}

TEST_F(Jobs, AVerbThatIsDeniedIsReportedAndTheJobStartsOnceItIsAllowed) {
  const std::string role =
      "/apis/rbac.authorization.k8s.io/v1/namespaces/" + cluster_.name_space() + "/roles";
  const auto rules = [](bool may_create_pods) {
    Json of_pods = {"get", "list", "watch", "update", "patch", "delete"};
    if (may_create_pods) of_pods.push_back("create");
    return Json{
        {"rules",
         {{{"apiGroups", {"gnn.dev"}}, {"resources", {"*"}}, {"verbs", {"*"}}},
          {{"apiGroups", {"", "events.k8s.io", "networking.k8s.io"}},
           {"resources", {"services", "configmaps", "events", "networkpolicies"}},
           {"verbs", {"*"}}},
          {{"apiGroups", {""}}, {"resources", {"pods"}}, {"verbs", of_pods}}}}
    };
  };
  Json object = rules(false);
  object["metadata"] = {{"name", "controller"}};
  cluster_.api().create(role, object);
  cluster_.api().create(
      role.substr(0, role.rfind('/')) + "/rolebindings",
      {{"metadata", {{"name", "controller"}}},
       {"roleRef",
        {{"apiGroup", "rbac.authorization.k8s.io"}, {"kind", "Role"}, {"name", "controller"}}},
       {"subjects",
        {{{"kind", "ServiceAccount"}, {"name", "default"}, {"namespace", cluster_.name_space()}}}}}
  );
  ControllerProcess controller(
      cluster_.plane(),
      {cluster_.kubeconfig_with_token(
           must(cluster_.plane().token_for(cluster_.name_space(), "default"))
       ),
       cluster_.name_space()}
  );
  FakeKubelets kubelets(cluster_.plane(), cluster_.name_space(), 0ms);
  kubelets.let_finish();
  cluster_.create_job("j");
  ASSERT_TRUE(eventually([&] {
    return cluster_.describe("j").find("cannot create resource \\\"pods\\\"") != std::string::npos;
  })) << cluster_.describe("j")
      << controller.log();
  EXPECT_FALSE(cluster_.holds("j", "Failed"));
  ASSERT_TRUE(cluster_.api().patch(role + "/controller", rules(true)));
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Complete"); }))
      << cluster_.describe("j") << controller.log();
  EXPECT_EQ(cluster_.job("j")["status"]["restarts"], 0);
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

TEST_F(Jobs, APodThatLosesItsLabelWhileNoControllerRunsHoldsUpTheNextAttempt) {
  const std::string pod = cluster_.pods() + "/j-1-1";
  {
    ControllerProcess controller(cluster_.plane(), cluster_.arguments());
    cluster_.create_job("j", 2);
    ASSERT_TRUE(eventually([&] { return cluster_.pods_of("j").size() == 2; }));
    cluster_.api().create(
        pod + "/binding",
        {{"metadata", {{"name", "j-1-1"}}}, {"target", {{"kind", "Node"}, {"name", "machine"}}}}
    );
    // No kubelet ends the other one.
    cluster_.end_pod("j-1-0", 70);
    // Nothing else holds up the next attempt.
    ASSERT_TRUE(eventually([&] {
      return cluster_.describe("j").find("Waiting for pod j-1-1 ") != std::string::npos;
    })) << cluster_.describe("j")
        << controller.log();
  }
  ASSERT_TRUE(cluster_.api().patch(pod, {{"metadata", {{"labels", nullptr}}}}));
  const auto proxy = must(FaultProxy::in_front_of(cluster_.plane()));
  const auto looks_for_strays = [](const RecordedRequest& request) {
    return request.target.find("labelSelector=%21") != std::string::npos;
  };
  proxy->add_fault(looks_for_strays, answer_internal_error(), 1);
  const ControllerProcess controller(cluster_.plane(), cluster_.arguments_through(*proxy));
  const auto count = [&](const std::string& method, const std::string& path) {
    return proxy
        ->requests([&](const RecordedRequest& request) {
          return request.method == method && request.path == path;
        })
        .size();
  };
  ASSERT_TRUE(eventually([&] { return count("GET", pod) > 0; })) << controller.log();
  EXPECT_EQ(count("POST", cluster_.pods()), 0U) << controller.log();
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
  const std::string stripped = cluster_.pods() + "/j-1-1";
  ASSERT_TRUE(cluster_.api().patch(stripped, {{"metadata", {{"labels", nullptr}}}}));
  ASSERT_EQ(run_release(cluster_.plane().kubeconfig_file(), cluster_.name_space()), 0);
  for (const Json& pod : cluster_.pods_of("j")) {
    EXPECT_FALSE(pod["metadata"].contains("finalizers"));
  }
  EXPECT_FALSE(cluster_.api().get(stripped)["metadata"].contains("finalizers"));
}

}  // namespace
}  // namespace gnn::testing
