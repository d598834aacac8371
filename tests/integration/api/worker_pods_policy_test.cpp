#include "common/contract.h"
#include "tests/integration/api/changes.h"
#include "tests/integration/api/policies.h"
#include "tests/support/control_plane.h"
#include "tests/support/source_dir.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// What a real API server refuses by the chart's ValidatingAdmissionPolicy, as manifests/base has
// it.
namespace gnn::testing {
namespace {

using nlohmann::json;

constexpr std::string_view kPolicy = "gnn-operator-worker-pods";
constexpr std::string_view kCapabilities = "securityContext.capabilities: ";

json container_of(const json& pod, const std::string& name) {
  json container = pod.at("spec").at("containers").at(0);
  container["name"] = name;
  return container;
}

// One that stays beside the others, and so may have probes.
json init_container_of(const json& pod, const std::string& name) {
  json container = container_of(pod, name);
  container["restartPolicy"] = "Always";
  return container;
}

// The API lets these have no ports, probes, resources and sub-paths.
json ephemeral_container_of(const json& pod, const std::string& name) {
  json container = container_of(pod, name);
  for (const char* field : {"ports", "readinessProbe", "resources", "volumeMounts"}) {
    container.erase(field);
  }
  return container;
}

// The API server by itself takes this one.
json grasping(json container) {
  container["securityContext"]["capabilities"]["add"] = json::array({"NET_ADMIN"});
  return container;
}

// What breaks one rule and no other.
struct Breach {
  std::string field;   // with which the refusal begins
  Changes changes;     // below the pod's spec, or below a container
  Changes needs = {};  // below the pod's spec: without it the API refuses `changes` itself
};

std::vector<Breach> breaches_of_pods() {
  const auto volume = [](const char* kind, const json& source) {
    return Changes{{"/volumes/-", {{"name", "more"}, {kind, source}}}};
  };
  const json token = {{"serviceAccountToken", {{"path", "token"}}}};
  return {
      {"hostNetwork", {{"/hostNetwork", true}}},
      {"hostNetwork, hostPID", {{"/hostPID", true}}},
      {"hostNetwork, hostPID, hostIPC", {{"/hostIPC", true}}},
      {"nodeName", {{"/nodeName", "somewhere"}}},
      {"automountServiceAccountToken", {{"/automountServiceAccountToken", true}}},
      {"automountServiceAccountToken", {{"/automountServiceAccountToken", nullptr}}},
      {"serviceAccountName", {{"/serviceAccountName", "builder"}}},
      {"volumes", volume("hostPath", {{"path", "/"}})},
      {"volumes", volume("secret", {{"secretName", "keys"}})},
      {"volumes", volume("projected", {{"sources", json::array({token})}})},
      {"volumes", volume("nfs", {{"server", "files"}, {"path", "/"}})},
      {"priorityClassName", {{"/priorityClassName", "system-node-critical"}}},
      {"resourceClaims",
       {{"/resourceClaims", json::array({{{"name", "gpu"}, {"resourceClaimName", "gpu"}}})}}},
      {"hostAliases",
       {{"/hostAliases",
         json::array({{{"ip", "10.0.0.1"}, {"hostnames", json::array({"a.example"})}}})}}},
      {"dnsConfig", {{"/dnsConfig", {{"nameservers", json::array({"10.0.0.1"})}}}}},
      {"dnsConfig, dnsPolicy", {{"/dnsPolicy", "Default"}}},
      {"terminationGracePeriodSeconds", {{"/terminationGracePeriodSeconds", 86401}}},
      {"securityContext.runAsNonRoot", {{"/securityContext/runAsNonRoot", nullptr}}},
      {"securityContext.seccompProfile", {{"/securityContext/seccompProfile", nullptr}}},
      {"securityContext.sysctls",
       {{"/securityContext/sysctls", json::array({{{"name", "kernel.msgmax"}, {"value", "1"}}})}}},
  };
}

// Below the pod's metadata.
std::vector<Breach> breaches_of_metadata() {
  std::vector<Breach> all;
  for (const char* key :
       {"io.kubernetes.cri-o.Devices",
        "io.katacontainers.config.x",
        "cpu-quota.crio.io",
        "cdi.k8s.io~1gpu",
        "devices.nri.io~1container.worker",
        "k8s.v1.cni.cncf.io~1networks"}) {
    all.push_back({"metadata.annotations", {{"/annotations/" + std::string(key), "x"}}});
  }
  return all;
}

// In the pod's own securityContext and in a container's.
std::vector<Breach> breaches_of_security_contexts() {
  const json unconfined = {{"type", "Unconfined"}};
  return {
      {"securityContext.runAsNonRoot", {{"/securityContext/runAsNonRoot", false}}},
      {"securityContext.runAsUser", {{"/securityContext/runAsUser", 0}}},
      {"securityContext.seccompProfile", {{"/securityContext/seccompProfile", unconfined}}},
      {"securityContext.appArmorProfile", {{"/securityContext/appArmorProfile", unconfined}}},
      {"securityContext.seLinuxOptions",
       {{"/securityContext/seLinuxOptions", {{"user", "system_u"}}}}},
      {"securityContext.seLinuxOptions",
       {{"/securityContext/seLinuxOptions", {{"role", "system_r"}}}}},
      {"securityContext.seLinuxOptions", {{"/securityContext/seLinuxOptions", {{"type", "spc_t"}}}}
      },
  };
}

std::vector<Breach> breaches_of_containers() {
  const json key = {{"name", "keys"}, {"key", "k"}};
  return {
      {"env", {{"/env/-", {{"name", "KEY"}, {"valueFrom", {{"secretKeyRef", key}}}}}}},
      {"env, envFrom", {{"/envFrom", json::array({{{"secretRef", {{"name", "keys"}}}}})}}},
      {"securityContext.privileged",
       {{"/securityContext/privileged", true},
        {"/securityContext/allowPrivilegeEscalation", nullptr}}},
      {"securityContext.allowPrivilegeEscalation",
       {{"/securityContext/allowPrivilegeEscalation", true}}},
      {"securityContext.allowPrivilegeEscalation",
       {{"/securityContext/allowPrivilegeEscalation", nullptr}}},
      {"securityContext.capabilities",
       {{"/securityContext/capabilities/add", json::array({"NET_BIND_SERVICE"})}}},
      {"securityContext.capabilities", {{"/securityContext/capabilities", nullptr}}},
      {"securityContext.capabilities",
       {{"/securityContext/capabilities/drop", json::array({"NET_RAW"})}}},
      {"securityContext.procMount",
       {{"/securityContext/procMount", "Unmasked"}},
       {{"/hostUsers", false}}},
  };
}

// Of fields that ephemeral containers do not have.
std::vector<Breach> breaches_of_lasting_containers() {
  const json http = {{"httpGet", {{"host", "10.0.0.1"}, {"port", 80}}}};
  const json tcp = {{"tcpSocket", {{"host", "10.0.0.1"}, {"port", 80}}}};
  return {
      {"ports.hostPort", {{"/ports", json::array({{{"containerPort", 80}, {"hostPort", 80}}})}}},
      {"httpGet.host", {{"/livenessProbe", http}}},
      {"httpGet.host", {{"/readinessProbe", http}}},
      {"httpGet.host", {{"/startupProbe", http}}},
      {"httpGet.host, tcpSocket.host", {{"/livenessProbe", tcp}}},
      {"httpGet.host", {{"/lifecycle/postStart", http}}},
      {"httpGet.host", {{"/lifecycle/preStop", http}}},
  };
}

std::vector<Breach> together(std::vector<Breach> all, const std::vector<Breach>& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

class WorkerPodsPolicy : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ControlPlane& cluster = ControlPlane::shared();
    name_space() = cluster.create_namespace("policy").value();
    const json account = {
        {"apiVersion", "v1"}, {"kind", "ServiceAccount"}, {"metadata", {{"name", "builder"}}}
    };
    ASSERT_EQ(create(account), "");
    make_priority_class();
    // From before the policy, as after an upgrade of the chart.
    json older = pod("older");
    older["metadata"]["finalizers"] = json::array({contract::kPodFinalizer});
    older["spec"]["initContainers"] = json::array({grasping(init_container_of(older, "init"))});
    ASSERT_EQ(create(older), "");
    const Status applied =
        cluster.apply("-", policy_documents(gnn::testing::source_dir(), kPolicy));
    ASSERT_TRUE(applied) << applied.error().message;
    // The API server compiles policies behind the scenes.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (create(grasping_pod("refused"), "--dry-run=server").empty()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline)
          << "the policy does not come into force";
    }
  }

  static std::string& name_space() {
    static std::string name;
    return name;
  }

  // The worker's pod, less what would let the controller manager delete it.
  static json pod(const std::string& name) {
    json made = worker_pod(name_space());
    made["metadata"]["name"] = name;
    made["metadata"].erase("ownerReferences");
    return made;
  }
  static json grasping_pod(const std::string& name) {
    json made = pod(name);
    made["spec"]["containers"] = json::array({grasping(container_of(made, "worker"))});
    return made;
  }

  // What the API server says against it; empty: nothing.
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

  // What the policy says against it, or whoever else refuses it; empty: nothing. Changes nothing.
  static std::string refusal(std::string_view method, const std::string& path, const json& object) {
    const std::string target = "/api/v1/namespaces/" + name_space() + "/pods" + path +
                               "?dryRun=All&fieldValidation=Strict";
    return refusal_of(kPolicy, method, target, object);
  }
  static std::string refusal(const json& whole) { return refusal("POST", "", whole); }
  // Of one more container in the pod "running".
  static std::string refusal_of_ephemeral(const json& container) {
    json whole = pod("running");
    whole["spec"]["ephemeralContainers"] = json::array({container});
    return refusal("PUT", "/running/ephemeralcontainers", whole);
  }

  static void expect_begins(const std::string& said, const Breach& breach) {
    EXPECT_TRUE(said.starts_with(breach.field + ": ") || said.starts_with(breach.field + ", "))
        << breach.field << " by " << json(breach.changes).dump() << ": " << said;
  }
};

TEST_F(WorkerPodsPolicy, TakesWhatTheControllerMakes) {
  EXPECT_EQ(refusal(worker_pod(name_space())), "");
  api::GnnJob job = demanding_job(name_space());
  job.spec.prepare.emplace();
  EXPECT_EQ(refusal(objects::encode(reconcile::desired_prepare_pod(job, 1))), "");
  job.spec.workers.pod_template->security_context = {};
  const json of_cluster =
      objects::encode(reconcile::desired_pod(job, {}, reconcile::PodUser::OfCluster));
  EXPECT_FALSE(of_cluster["spec"]["securityContext"].contains("runAsUser"));
  EXPECT_EQ(refusal(of_cluster), "");
}

TEST_F(WorkerPodsPolicy, IsWellTyped) {
  EXPECT_EQ(type_warnings(kPolicy), "");
}

TEST_F(WorkerPodsPolicy, RefusesWhatPodsMayNotHave) {
  const json good = worker_pod(name_space());
  for (const Breach& breach : together(breaches_of_pods(), breaches_of_security_contexts())) {
    json bad = good;
    bad["spec"] = changed(good["spec"], breach.changes);
    expect_begins(refusal(bad), breach);
  }
  for (const Breach& breach : breaches_of_metadata()) {
    json bad = good;
    bad["metadata"] = changed(good["metadata"], breach.changes);
    expect_begins(refusal(bad), breach);
  }
  json unconfined = good;
  unconfined["metadata"]["annotations"] = {
      {"container.apparmor.security.beta.kubernetes.io/worker", "unconfined"}
  };
  EXPECT_NE(refusal(unconfined), "");
}

TEST_F(WorkerPodsPolicy, LetsAPodMountItsOwnDataKeyAndNoOtherSecret) {
  api::GnnJob job = demanding_job(name_space());
  job.spec.servers = api::sample_served_job().spec.servers;
  job.status.data_key_secret = contract::data_key_name("arxiv", std::string(32, 'a'));
  const json good = objects::encode(reconcile::desired_pod(job, {}));
  ASSERT_EQ(good["spec"]["volumes"][0]["name"], "gnn-config");
  EXPECT_EQ(refusal(good), "");
  EXPECT_EQ(refusal(objects::encode(reconcile::desired_server_pod(job, {}))), "");
  const std::string volume = "/spec/volumes/0/projected";
  const std::string secret = volume + "/sources/1/secret";
  const json key = good.at(json::json_pointer(volume + "/sources/1"));
  const json token = {{"serviceAccountToken", {{"path", "token"}}}};
  const json item = {{"key", "token"}, {"path", "token"}};
  for (const Changes& changes : std::vector<Changes>{
           {{secret + "/name", "keys"}},
           {{secret + "/name", "arxiv-key-" + std::string(32, 'b')}},
           {{secret + "/name", "arxiv-key-"}, {"/metadata/labels/gnn.dev~1data-key", ""}},
           {{secret + "/name", "arxiv-key-b"}, {"/metadata/labels/gnn.dev~1data-key", "b"}},
           {{secret + "/name", "other-key-" + std::string(32, 'a')}},
           {{"/metadata/labels/gnn.dev~1job", "other"}},
           {{"/metadata/labels/gnn.dev~1data-key", nullptr}},
           {{secret + "/optional", true}},
           {{secret + "/items", nullptr}},
           {{secret + "/items/-", item}},
           {{secret + "/items/0/key", "token"}},
           {{secret + "/items/0/path", "other"}},
           {{secret + "/items/0/mode", 511}},
           {{volume + "/defaultMode", 511}},
           {{volume + "/sources/-", token}},
           {{volume + "/sources/-", {{"downwardAPI", json::object()}}}},
           {{volume + "/sources/-", key}, {volume + "/sources/2/secret/items/0/path", "more"}},
           {{"/spec/volumes/-", {{"name", "more"}, {"projected", {{"sources", json::array({key})}}}}
           }},
           {{"/spec/volumes/-",
             {{"name", "more"}, {"secret", {{"secretName", *job.status.data_key_secret}}}}}},
       }) {
    const std::string said = refusal(changed(good, changes));
    EXPECT_TRUE(said.starts_with("volumes: ")) << json(changes).dump() << said;
  }
}

TEST_F(WorkerPodsPolicy, RefusesWhatContainersMayNotHave) {
  json good = worker_pod(name_space());
  good["spec"]["initContainers"] = json::array({init_container_of(good, "init")});
  ASSERT_EQ(refusal(good), "");
  std::vector<Breach> all = together(breaches_of_security_contexts(), breaches_of_containers());
  all = together(all, breaches_of_lasting_containers());
  for (const Breach& breach : all) {
    json base = good;
    base["spec"] = changed(good["spec"], breach.needs);
    ASSERT_EQ(refusal(base), "") << breach.field;
    for (const char* kind : {"containers", "initContainers"}) {
      json bad = base;
      bad["spec"][kind][0] = changed(bad["spec"][kind][0], breach.changes);
      expect_begins(refusal(bad), breach);
    }
  }
}

TEST_F(WorkerPodsPolicy, RefusesWhatContainersMayNotHaveThatArePutIntoARunningPod) {
  ASSERT_EQ(create(pod("running")), "");
  const json good = ephemeral_container_of(pod("running"), "debugger");
  ASSERT_EQ(refusal_of_ephemeral(good), "");
  for (const Breach& breach : together(breaches_of_security_contexts(), breaches_of_containers())) {
    if (!breach.needs.empty()) continue;  // The pod is what it is.
    expect_begins(refusal_of_ephemeral(changed(good, breach.changes)), breach);
  }
}

TEST_F(WorkerPodsPolicy, HasNoRuleThatIsNotTestedHere) {
  std::vector<Breach> all = together(breaches_of_pods(), breaches_of_security_contexts());
  all = together(together(all, breaches_of_containers()), breaches_of_lasting_containers());
  all = together(all, breaches_of_metadata());
  std::set<std::string> tested;
  for (const Breach& breach : all) tested.insert(breach.field.substr(0, breach.field.find(',')));
  EXPECT_EQ(rules_of(kPolicy), tested);
}

TEST_F(WorkerPodsPolicy, LeavesOtherPodsAlone) {
  json other = grasping_pod("unlabelled");
  other["metadata"]["labels"] = {{"not", "ours"}};
  EXPECT_EQ(refusal(other), "");
}

TEST_F(WorkerPodsPolicy, DoesNotHoldBackAPodThatIsOlder) {
  EXPECT_EQ(patch("older", {{"metadata", {{"finalizers", nullptr}}}}), "");
}

TEST_F(WorkerPodsPolicy, NobodyMayLabelAnotherPodAsOurs) {
  json other = grasping_pod("other");
  other["metadata"]["labels"] = {{"not", "ours"}};
  ASSERT_EQ(create(other), "");
  const json label = {{"metadata", {{"labels", {{contract::kLabelJobUid, "u"}}}}}};
  EXPECT_NE(patch("other", label).find(kCapabilities), std::string::npos);
}

}  // namespace
}  // namespace gnn::testing
