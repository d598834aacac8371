#include "common/contract.h"
#include "controller/objects/config_map.h"
#include "controller/objects/network_policy.h"
#include "controller/objects/secret.h"
#include "controller/objects/service.h"
#include "controller/objects/workload.h"
#include "tests/integration/api/changes.h"
#include "tests/integration/api/policies.h"
#include "tests/support/control_plane.h"
#include "tests/support/controller_process.h"
#include "tests/support/group_crds.h"
#include "tests/support/kueue_crd.h"
#include "tests/support/must.h"
#include "tests/support/source_dir.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// What the controller's own account may do, by the chart's ValidatingAdmissionPolicy. Its roles
// allow more here than the chart's do.
namespace gnn::testing {
namespace {

using nlohmann::json;

constexpr std::string_view kControllerPolicy = "gnn-operator-controller";
const std::string kAccount(kControllerUser);
constexpr const char* kMergePatch = "application/merge-patch+json";

constexpr std::array<const char*, 7> kKinds = {
    "pods", "services", "configmaps", "secrets", "networkpolicies", "podgroups", "workloads"
};

// Whom jobs' pods may reach besides each other and DNS.
constexpr const char* kStorage = R"({
  "to": [
    {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
    {"namespaceSelector": {"matchLabels": {"storage": "s3"}}}
  ],
  "ports": [{"protocol": "TCP", "port": 443}]
})";

// What breaks one rule and no other.
struct Misuse {
  std::string field;  // with which the refusal begins
  std::string kind;   // one of kKinds
  Changes changes;    // of the whole object
};

void add_egress(std::vector<Misuse>& all) {
  const auto add = [&](const Changes& changes) {
    all.push_back({"spec.egress, spec.policyTypes", "networkpolicies", changes});
  };
  add({{"/spec/policyTypes", json::array({"Ingress"})}});
  add({{"/spec/egress/-", json::object()}});
  add({{"/spec/egress/0/to", json::array({{{"podSelector", json::object()}}})}});
  add({{"/spec/egress/0/to/0/namespaceSelector", json::object()}});
  add({{"/spec/egress/1/ports/0/port", 443}});
  add({{"/spec/egress/1/ports/0/endPort", 443}});
  add({{"/spec/egress/2/to/0/ipBlock/cidr", "10.0.0.0/7"}});
  add({{"/spec/egress/2/to/0/ipBlock/except", nullptr}});
  add({{"/spec/egress/2/to/1/namespaceSelector/matchLabels", nullptr}});
  add({{"/spec/egress/2/ports/0/port", 444}});
  add({{"/spec/egress/2/ports", nullptr}});
}

std::vector<Misuse> misused_creates() {
  std::vector<Misuse> all;
  for (const char* kind : kKinds) {
    const auto add = [&](const std::string& field, const Changes& changes) {
      all.push_back({field, kind, changes});
    };
    const std::string owners = "metadata.ownerReferences";
    add(owners, {{"/metadata/ownerReferences", nullptr}});
    add(owners, {{"/metadata/ownerReferences/0/kind", "Job"}});
    add(owners, {{"/metadata/ownerReferences/0/apiVersion", "batch/v1"}});
    add(owners, {{"/metadata/ownerReferences/0/controller", false}});
    add(owners, {{"/metadata/ownerReferences/0/blockOwnerDeletion", false}});
    add(owners,
        {{"/metadata/ownerReferences/-",
          {{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"name", "x"}, {"uid", "x"}}}});
    add("metadata.labels", {{"/metadata/labels", nullptr}});
    add("metadata.labels", {{"/metadata/labels/gnn.dev~1job-uid", "another"}});
    add("metadata.labels", {{"/metadata/labels/gnn.dev~1job", "another"}});
    add("metadata.name", {{"/metadata/name", "another-1-0"}});
    if (std::string_view(kind) != "podgroups") {
      add("metadata.finalizers", {{"/metadata/finalizers", json::array({"example.com/held"})}});
    }
  }
  const auto add = [&](const std::string& field, const std::string& kind, const Changes& changes) {
    all.push_back({field, kind, changes});
  };
  for (const char* name :
       {"arxiv", "arxiv-x", "arxiv-1", "arxiv-1-0-1", "arxiv-1-0-r1-1", "arxiv-gnn"}) {
    add("metadata.name", "pods", {{"/metadata/name", name}});
  }
  for (const char* name : {"arxiv-gnn", "arxiv-key-0123"}) {
    add("metadata.name", "secrets", {{"/metadata/name", name}});
  }
  for (const char* kind : {"services", "secrets"}) {
    add("metadata.annotations", kind, {{"/metadata/annotations", {{"example.com/x", "y"}}}});
  }
  add("spec.containers", "pods", {{"/spec/restartPolicy", "Always"}});
  add("spec.containers", "pods", {{"/spec/containers/0/command", json::array({"/bin/sh"})}});
  add("spec.containers", "pods", {{"/spec/containers/0/name", "other"}});
  add("spec.hostname", "pods", {{"/spec/hostname", "api"}});
  add("spec.hostname", "pods", {{"/spec/subdomain", "api"}});
  add("spec.hostname", "pods", {{"/spec/setHostnameAsFQDN", true}});
  add("spec.shareProcessNamespace", "pods", {{"/spec/shareProcessNamespace", true}});
  add("spec.shareProcessNamespace", "pods", {{"/spec/hostUsers", false}});
  add("spec.shareProcessNamespace",
      "pods",
      {{"/spec/readinessGates", json::array({{{"conditionType", "example.com/x"}}})}});
  add("spec.ports", "services", {{"/spec/ports/0/port", 443}, {"/spec/ports/0/targetPort", 443}});
  add("spec.ports", "services", {{"/spec/ports/0/targetPort", 22}});
  add("data", "configmaps", {{"/data/more", "x"}});
  add("type", "secrets", {{"/type", "example.com/other"}});
  add("type", "secrets", {{"/immutable", nullptr}});
  add("data.key", "secrets", {{"/stringData/more", "x"}});
  add("data.key", "secrets", {{"/stringData", {{"other", std::string(64, 'a')}}}});
  add("data.key", "secrets", {{"/stringData/data.key", "short"}});
  add("metadata.labels of Secrets", "secrets", {{"/metadata/labels/more", "x"}});
  // By which the API server would put a token in.
  add("metadata.annotations",
      "secrets",
      {{"/type", "kubernetes.io/service-account-token"},
       {"/metadata/annotations", {{"kubernetes.io/service-account.name", "default"}}}});
  add("spec.ingress",
      "networkpolicies",
      {{"/spec/ingress/0/from", json::array({json::object({{"podSelector", json::object()}})})}});
  add("spec.ingress",
      "networkpolicies",
      {{"/spec/ingress/0/from/0/namespaceSelector", json::object()}});
  add("spec.ingress", "networkpolicies", {{"/spec/ingress/-", json::object()}});
  add("spec.ingress", "networkpolicies", {{"/spec/ingress/1/ports/0/port", 29400}});
  add("spec.ingress", "networkpolicies", {{"/spec/ingress/1/ports/0/endPort", 29400}});
  add_egress(all);
  add("spec.clusterIP", "services", {{"/spec/clusterIP", nullptr}});
  add("spec.clusterIP", "services", {{"/spec/externalIPs", json::array({"10.1.2.3"})}});
  add("spec.clusterIP",
      "services",
      {{"/spec/type", "ExternalName"},
       {"/spec/clusterIP", nullptr},
       {"/spec/externalName", "example.com"}});
  add("spec.clusterIP, spec.selector", "services", {{"/spec/selector/more", "x"}});
  add("spec.clusterIP, spec.selector", "services", {{"/spec/selector", nullptr}});
  add("immutable", "configmaps", {{"/immutable", nullptr}});
  add("immutable", "configmaps", {{"/binaryData", {{"x", "eA=="}}}});
  add("spec.podSelector", "networkpolicies", {{"/spec/podSelector", json::object()}});
  add("spec.podSelector",
      "networkpolicies",
      {{"/spec/podSelector/matchExpressions", json::array({{{"key", "x"}, {"operator", "Exists"}}})}
      });
  return all;
}

class ControllerPolicy : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ControlPlane& cluster = ControlPlane::shared();
    name_space() = must(cluster.create_namespace("misuse"));
    make_priority_class();
    let_controller_do_everything();
    // The garbage collector deletes what belongs to a job that does not exist.
    must(cluster.apply(gnn::testing::source_dir() + "/manifests/crds/gnnjobs.gnn.dev.yaml"));
    ASSERT_TRUE(eventually([] {
      json whole = api::encode(demanding_job(name_space()));
      whole["metadata"].erase("uid");
      const auto reply = http_request(
          ControlPlane::shared().admin_endpoint(),
          "POST",
          "/apis/gnn.dev/v1alpha1/namespaces/" + name_space() + "/gnnjobs",
          whole.dump(),
          {{"Content-Type", "application/json"}}
      );
      if (!reply || reply->status != 201) return false;
      job() = must(api::decode_job(json::parse(reply->body), api::UnknownFields::Ignore));
      return true;
    }));
    must(cluster.apply("-", kCoschedulingCrd));
    must(cluster.apply("-", kWorkloadCrd));
    const std::string chart = chart_with(
        gnn::testing::source_dir(),
        {"--set=gangScheduling.coscheduling.enabled=true",
         "--set=kueue.enabled=true",
         "--set-json=jobs.networkPolicy.egress.rules=[" + std::string(kStorage) + "]"}
    );
    must(cluster.apply("-", documents_of(chart, kControllerPolicy)));
    ASSERT_TRUE(eventually([] {
      json pod = object("pods");
      pod["metadata"].erase("ownerReferences");
      return !refused_create("pods", pod).empty();
    }));
  }

  static std::string& name_space() {
    static std::string name;
    return name;
  }
  static api::GnnJob& job() {
    static api::GnnJob job;
    return job;
  }
  static std::string collection(const std::string& kind) {
    const std::string api = kind == "networkpolicies" ? "/apis/networking.k8s.io/v1"
                            : kind == "podgroups"     ? "/apis/scheduling.x-k8s.io/v1alpha1"
                            : kind == "workloads"     ? "/apis/kueue.x-k8s.io/v1beta2"
                                                      : "/api/v1";
    return api + "/namespaces/" + name_space() + "/" + kind;
  }
  // What the controller makes.
  static json object(const std::string& kind) {
    if (kind == "pods")
      return objects::encode(reconcile::desired_pod(job(), {.attempt = 1, .node = 0}));
    if (kind == "services") return objects::encode(reconcile::desired_service(job()));
    if (kind == "podgroups") {
      return objects::encode(
          reconcile::desired_group(job(), objects::GroupApi::Coscheduling, 1, {.workers = 2})
      );
    }
    if (kind == "workloads") {
      return objects::encode(reconcile::desired_workload(
          job(), objects::workload_name(job().metadata.name, job().metadata.uid), false
      ));
    }
    if (kind == "configmaps") return objects::encode(reconcile::desired_config_map(job()));
    if (kind == "secrets") {
      objects::Secret secret = reconcile::desired_data_key(job(), std::string(32, 'a'));
      secret.data[std::string(contract::kDataKeyKey)] = std::string(64, 'a');
      return objects::encode(secret);
    }
    reconcile::JobFence fence;
    fence.egress = {must(objects::decode_egress_strictly(json::parse(kStorage), "egress"))};
    return objects::encode(reconcile::desired_network_policy(job(), fence));
  }
  static json prepare_pod() {
    api::GnnJob prepared = job();
    prepared.spec.prepare.emplace();
    return objects::encode(reconcile::desired_prepare_pod(prepared, 1));
  }
  static std::string refused_create(
      const std::string& kind, const json& object, const std::string& as = kAccount
  ) {
    return refusal_of(kControllerPolicy, "POST", collection(kind) + "?dryRun=All", object, as);
  }
  static std::string refused_patch(const std::string& path, const json& patch) {
    return refusal_of(
        kControllerPolicy, "PATCH", path + "?dryRun=All", patch, kAccount, kMergePatch
    );
  }
  static std::string refused_pod_patch(const std::string& pod, const json& patch) {
    return refused_patch(collection("pods") + "/" + pod, patch);
  }
  // A pod that exists; by the administrator.
  static void put_pod(const std::string& name, const Changes& changes) {
    json pod = object("pods");
    pod["metadata"]["name"] = name;
    const std::string said =
        refusal_of(kControllerPolicy, "POST", collection("pods"), changed(pod, changes));
    ASSERT_EQ(said, "");
  }
};

TEST_F(ControllerPolicy, IsWellTyped) {
  EXPECT_EQ(type_warnings(kControllerPolicy), "");
}

TEST_F(ControllerPolicy, LetsTheControllerMakeItsObjects) {
  for (const char* kind : kKinds) {
    EXPECT_EQ(refused_create(kind, object(kind)), "") << kind;
  }
  EXPECT_EQ(refused_create("pods", prepare_pod()), "");
  api::GnnJob served = job();
  served.spec.servers = api::sample_served_job().spec.servers;
  served.status.data_key_secret = contract::data_key_name("arxiv", std::string(32, 'a'));
  for (const objects::Pod& pod :
       {reconcile::desired_pod(served, {.attempt = 12, .node = 3, .restart = 2}),
        reconcile::desired_server_pod(served, {.server = 1, .restart = 4})}) {
    EXPECT_EQ(refused_create("pods", objects::encode(pod)), "") << pod.metadata.name;
  }
}

TEST_F(ControllerPolicy, RefusesWhatTheControllerNeverMakes) {
  for (const Misuse& misuse : misused_creates()) {
    const std::string said =
        refused_create(misuse.kind, changed(object(misuse.kind), misuse.changes));
    EXPECT_TRUE(said.starts_with(misuse.field))
        << misuse.kind << json(misuse.changes).dump() << said;
  }
}

TEST_F(ControllerPolicy, LeavesOtherUsersAlone) {
  for (const Misuse& misuse : misused_creates()) {
    const json bad = changed(object(misuse.kind), misuse.changes);
    const std::string said = refused_create(misuse.kind, bad, "");
    EXPECT_EQ(said, "") << misuse.kind << json(misuse.changes).dump();
  }
}

TEST_F(ControllerPolicy, LetsTheControllerRepairItsObjectsAndNoOthers) {
  for (const char* kind : {"services", "networkpolicies"}) {
    const json ours = object(kind);
    ASSERT_EQ(refusal_of(kControllerPolicy, "POST", collection(kind), ours), "");
    const std::string name = ours["metadata"]["name"];
    const auto refused = [&](const std::string& object, const json& spec) {
      return refusal_of(
          kControllerPolicy,
          "PATCH",
          collection(kind) + "/" + object + "?dryRun=All",
          {{"spec", spec}},
          kAccount,
          kMergePatch
      );
    };
    EXPECT_EQ(refused(name, ours["spec"]), "") << kind;
    const bool is_service = std::string_view(kind) == "services";
    const json open = is_service ? json{{"selector", {{"app", "x"}}}}
                                 : json{{"podSelector", {{"matchLabels", {{"app", "x"}}}}}};
    EXPECT_TRUE(refused(name, open).starts_with("spec.")) << kind;
    const json foreign =
        changed(ours, {{"/metadata/ownerReferences", nullptr}, {"/metadata/name", "foreign"}});
    ASSERT_EQ(refusal_of(kControllerPolicy, "POST", collection(kind), foreign), "");
    EXPECT_TRUE(refused("foreign", ours["spec"]).starts_with("metadata.ownerReferences: ")) << kind;
  }
}

// No pod here is scheduled, so nothing but the finalizer keeps one that the garbage collector finds.
TEST_F(ControllerPolicy, HoldsTheControllerToItsOwnPods) {
  put_pod("arxiv-1-7", {});
  put_pod("foreign", {{"/metadata/ownerReferences", nullptr}, {"/metadata/finalizers", nullptr}});
  put_pod("orphan", {{"/metadata/ownerReferences", nullptr}, {"/metadata/labels", nullptr}});
  const json release = {{"metadata", {{"finalizers", nullptr}}}};
  const json relabel = {{"metadata", {{"labels", {{contract::kLabelNode, "7"}}}}}};
  const json stop = {{"spec", {{"activeDeadlineSeconds", 1}}}};
  for (const json& change : {release, relabel, stop}) {
    EXPECT_EQ(refused_pod_patch("arxiv-1-7", change), "") << change;
    const std::string said = refused_pod_patch("foreign", change);
    EXPECT_TRUE(said.starts_with("metadata.ownerReferences: ")) << change << said;
  }
  EXPECT_EQ(refused_pod_patch("orphan", release), "") << "our finalizer holds back nobody's pod";
  EXPECT_TRUE(refused_pod_patch("orphan", stop).starts_with("metadata.ownerReferences: "));

  json changed_image = json::parse(
      must(http_request(
               ControlPlane::shared().admin_endpoint(), "GET", collection("pods") + "/arxiv-1-7"
           ))
          .body
  );
  changed_image["spec"]["containers"][0]["image"] = "other:1";
  const std::string path = collection("pods") + "/arxiv-1-7?dryRun=All";
  EXPECT_TRUE(
      refusal_of(kControllerPolicy, "PUT", path, changed_image, kAccount).starts_with("spec: ")
  );
  const json tolerate = {
      {"spec", {{"tolerations", json::array({{{"operator", "Exists"}, {"key", "any"}}})}}}
  };
  EXPECT_NE(refused_pod_patch("arxiv-1-7", tolerate), "");
  const json hold = {
      {"metadata", {{"finalizers", json::array({"gnn.dev/result", "example.com/x"})}}}
  };
  EXPECT_TRUE(refused_pod_patch("arxiv-1-7", hold).starts_with("metadata.finalizers: "));
  const json note = {{"metadata", {{"annotations", {{"example.com/x", "y"}}}}}};
  EXPECT_TRUE(refused_pod_patch("arxiv-1-7", note).starts_with("metadata.annotations: "));
  const json give = {{"metadata", {{"ownerReferences", nullptr}}}};
  EXPECT_TRUE(refused_pod_patch("arxiv-1-7", give).starts_with("metadata.ownerReferences: "));
  const auto refused_delete = [&](const std::string& pod) {
    const std::string target = collection("pods") + "/" + pod + "?dryRun=All";
    return refusal_of(kControllerPolicy, "DELETE", target, json::object(), kAccount);
  };
  EXPECT_EQ(refused_delete("arxiv-1-7"), "");
  EXPECT_TRUE(refused_delete("foreign").starts_with("metadata.ownerReferences: "));
}

TEST_F(ControllerPolicy, LetsTheControllerNeitherChangeNorDeleteASecret) {
  const json ours = object("secrets");
  ASSERT_EQ(refusal_of(kControllerPolicy, "POST", collection("secrets"), ours), "");
  const std::string path =
      collection("secrets") + "/" + ours["metadata"]["name"].get<std::string>() + "?dryRun=All";
  const json change = {{"metadata", {{"labels", {{"gnn.dev/job", "arxiv"}, {"x", "y"}}}}}};
  for (const std::string& said :
       {refused_patch(
            collection("secrets") + "/" + ours["metadata"]["name"].get<std::string>(), change
        ),
        refusal_of(kControllerPolicy, "DELETE", path, json::object(), kAccount)}) {
    EXPECT_TRUE(said.starts_with("secrets: ")) << said;
  }
}

TEST_F(ControllerPolicy, LetsTheControllerDeleteOnlyJobsWhoseTimeToLiveMayBeOver) {
  const std::string jobs = "/apis/gnn.dev/v1alpha1/namespaces/" + name_space() + "/gnnjobs";
  const auto refused = [&](const std::string& name, const json& ttl, const json& conditions) {
    json whole = api::encode(demanding_job(name_space()));
    whole["metadata"] = {{"name", name}, {"namespace", name_space()}};
    if (!ttl.is_null()) whole["spec"]["runPolicy"]["ttlSecondsAfterFinished"] = ttl;
    EXPECT_EQ(refusal_of(kControllerPolicy, "POST", jobs, whole), "");
    EXPECT_EQ(
        refusal_of(
            kControllerPolicy,
            "PATCH",
            jobs + "/" + name + "/status",
            {{"status", {{"conditions", conditions}}}},
            "",
            kMergePatch
        ),
        ""
    );
    return refusal_of(
        kControllerPolicy, "DELETE", jobs + "/" + name + "?dryRun=All", json::object(), kAccount
    );
  };
  const auto condition = [](const char* type, const char* status) {
    return json::array(
        {{{"type", type},
          {"status", status},
          {"reason", "Tested"},
          {"message", ""},
          {"observedGeneration", 1},
          {"lastTransitionTime", "2026-01-01T00:00:00Z"}}}
    );
  };
  EXPECT_EQ(refused("complete", 0, condition("Complete", "True")), "");
  EXPECT_EQ(refused("failed", 60, condition("Failed", "True")), "");
  for (const std::string& said :
       {refused("new", 0, json::array()),
        refused("running", 0, condition("Running", "True")),
        refused("not-failed", 0, condition("Failed", "False")),
        refused("kept", nullptr, condition("Complete", "True"))}) {
    EXPECT_TRUE(said.starts_with("gnnjobs: ")) << said;
  }
  json stolen = api::encode(demanding_job(name_space()));
  stolen["metadata"] = {{"name", "stolen"}, {"namespace", name_space()}};
  EXPECT_TRUE(refusal_of(kControllerPolicy, "POST", jobs + "?dryRun=All", stolen, kAccount)
                  .starts_with("gnnjobs: "));
}

TEST_F(ControllerPolicy, LetsTheControllerTellOnlyOfJobs) {
  const std::string events = "/apis/events.k8s.io/v1/namespaces/" + name_space() + "/events";
  const json ours = {
      {"metadata", {{"name", "arxiv.1"}, {"namespace", name_space()}}},
      {"eventTime", "2026-01-01T00:00:00.000000Z"},
      {"reportingController", contract::kManagedBy},
      {"reportingInstance", "gnn-operator-0"},
      {"action", "Reconcile"},
      {"type", "Normal"},
      {"reason", "Tested"},
      {"note", "A note"},
      {"regarding",
       {{"apiVersion", "gnn.dev/v1alpha1"},
        {"kind", "GNNJob"},
        {"namespace", name_space()},
        {"name", "arxiv"},
        {"uid", "u"}}},
  };
  const auto refused = [&](const Changes& changes) {
    return refusal_of(
        kControllerPolicy, "POST", events + "?dryRun=All", changed(ours, changes), kAccount
    );
  };
  EXPECT_EQ(refused({}), "");
  for (const Changes& changes : std::vector<Changes>{
           {{"/regarding/kind", "Pod"}, {"/regarding/apiVersion", "v1"}},
           {{"/reportingController", "kubelet"}},
       }) {
    EXPECT_TRUE(refused(changes).starts_with("events: ")) << json(changes).dump();
  }
  ASSERT_EQ(refusal_of(kControllerPolicy, "POST", events, ours), "");
  const auto refused_change = [&](const json& change) {
    return refused_patch(events + "/arxiv.1", change);
  };
  const json series = {
      {"series", {{"count", 2}, {"lastObservedTime", "2026-01-01T00:00:01.000000Z"}}}
  };
  EXPECT_EQ(refused_change(series), "");
  EXPECT_NE(refused_change({{"note", "Another note"}}), "");
}

TEST_F(ControllerPolicy, LetsTheControllerWriteOneLease) {
  const std::string system =
      R"({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gnn-system"}})";
  must(ControlPlane::shared().apply("-", system));
  const auto refused = [](const std::string& where, const std::string& name) {
    const std::string leases = "/apis/coordination.k8s.io/v1/namespaces/" + where + "/leases";
    const json lease = {
        {"metadata", {{"name", name}, {"namespace", where}}}, {"spec", {{"holderIdentity", "me"}}}
    };
    return refusal_of(kControllerPolicy, "POST", leases + "?dryRun=All", lease, kAccount);
  };
  EXPECT_EQ(refused("gnn-system", "gnn-operator"), "");
  EXPECT_TRUE(refused("gnn-system", "other").starts_with("leases: "));
  EXPECT_TRUE(refused(name_space(), "gnn-operator").starts_with("leases: "));
}

TEST_F(ControllerPolicy, LetsTheControllerDeleteItsGroupsAndNoOthers) {
  const std::string groups = collection("podgroups");
  const json ours = object("podgroups");
  const json foreign =
      changed(ours, {{"/metadata/ownerReferences", nullptr}, {"/metadata/name", "foreign"}});
  for (const json& group : {ours, foreign}) {
    ASSERT_EQ(refusal_of(kControllerPolicy, "POST", groups, group), "");
  }
  const auto refused_delete = [&](const std::string& group) {
    const std::string path = groups + "/" + group + "?dryRun=All";
    return refusal_of(kControllerPolicy, "DELETE", path, json::object(), kAccount);
  };
  EXPECT_EQ(refused_delete(ours["metadata"]["name"]), "");
  EXPECT_TRUE(refused_delete("foreign").starts_with("metadata.ownerReferences: "));
}

// Kueue makes some in the cluster that is to run a job, and the job takes the one that it names.
TEST_F(ControllerPolicy, LetsTheControllerTakeWorkloadsThatNobodyOwnsAndNoOthers) {
  const std::string workloads = collection("workloads");
  const json ours = object("workloads");
  const json made = changed(
      ours,
      {{"/metadata/name", "made"},
       {"/metadata/ownerReferences", nullptr},
       {"/metadata/labels", nullptr}}
  );
  const json foreign = changed(
      ours,
      {{"/metadata/name", "foreign"},
       {"/metadata/ownerReferences/0/kind", "Job"},
       {"/metadata/ownerReferences/0/apiVersion", "batch/v1"}}
  );
  for (const json& each : {ours, made, foreign}) {
    ASSERT_EQ(refusal_of(kControllerPolicy, "POST", workloads, each), "");
  }
  const auto refused = [&](const std::string& name, const json& patch) {
    return refused_patch(workloads + "/" + name, patch);
  };
  const json take = {
      {"metadata",
       {{"ownerReferences", ours["metadata"]["ownerReferences"]},
        {"labels", ours["metadata"]["labels"]}}}
  };
  EXPECT_EQ(refused("made", take), "");
  EXPECT_TRUE(refused("foreign", take).starts_with("metadata.ownerReferences: "));
  for (const Changes& more : std::vector<Changes>{
           {{"/spec/queueName", "another"}},
           {{"/metadata/labels/gnn.dev~1job", "another"}},
           {{"/metadata/labels/gnn.dev~1job-uid", "another"}}
       }) {
    EXPECT_TRUE(refused("made", changed(take, more)).starts_with("metadata.ownerReferences: "))
        << json(more).dump();
  }
  const json tell = {{"status", {{"admission", nullptr}}}};
  const std::string name = ours["metadata"]["name"];
  EXPECT_EQ(refused(name + "/status", tell), "");
  EXPECT_EQ(refused(name, {{"spec", {{"active", false}}}}), "");
  EXPECT_EQ(refused(name, {{"metadata", {{"finalizers", nullptr}}}}), "");
  for (const char* other : {"made", "foreign"}) {
    const std::string path = workloads + "/" + other;
    const std::string owners = "metadata.ownerReferences: ";
    EXPECT_TRUE(refused_patch(path + "/status", tell).starts_with(owners)) << other;
    EXPECT_TRUE(refused(other, {{"spec", {{"active", false}}}}).starts_with(owners)) << other;
    EXPECT_TRUE(
        refusal_of(kControllerPolicy, "DELETE", path + "?dryRun=All", json::object(), kAccount)
            .starts_with(owners)
    ) << other;
  }
}

TEST_F(ControllerPolicy, HasNoRuleThatIsNotTestedHere) {
  std::set<std::string> tested = {"spec", "secrets", "gnnjobs", "events", "leases"};
  for (const Misuse& misuse : misused_creates()) {
    tested.insert(misuse.field.substr(0, misuse.field.find(',')));
  }
  EXPECT_EQ(rules_of(kControllerPolicy), tested);
}

}  // namespace
}  // namespace gnn::testing
