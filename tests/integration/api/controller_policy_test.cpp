#include "common/contract.h"
#include "controller/objects/config_map.h"
#include "controller/objects/network_policy.h"
#include "controller/objects/service.h"
#include "controller/objects/workload.h"
#include "tests/integration/api/changes.h"
#include "tests/integration/api/policies.h"
#include "tests/support/control_plane.h"
#include "tests/support/controller_process.h"
#include "tests/support/group_crds.h"
#include "tests/support/kueue_crd.h"
#include "tests/support/must.h"

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

constexpr std::array<const char*, 6> kKinds = {
    "pods", "services", "configmaps", "networkpolicies", "podgroups", "workloads"
};

// What breaks one rule and no other.
struct Misuse {
  std::string field;  // with which the refusal begins
  std::string kind;   // one of kKinds
  Changes changes;    // of the whole object
};

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
    add("metadata.labels", {{"/metadata/labels", nullptr}});
    add("metadata.labels", {{"/metadata/labels/gnn.dev~1job-uid", "another"}});
    add("metadata.labels", {{"/metadata/labels/gnn.dev~1job", "another"}});
    add("metadata.name", {{"/metadata/name", "another-1-0"}});
  }
  const auto add = [&](const std::string& field, const std::string& kind, const Changes& changes) {
    all.push_back({field, kind, changes});
  };
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
    must(cluster.apply(std::string(GNN_SOURCE_DIR) + "/manifests/crds/gnnjobs.gnn.dev.yaml"));
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
        GNN_SOURCE_DIR,
        {"--set=gangScheduling.coscheduling.enabled=true", "--set=kueue.enabled=true"}
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
    return objects::encode(reconcile::desired_network_policy(job()));
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
  EXPECT_TRUE(refusal_of(kControllerPolicy, "PUT", path, changed_image, kAccount)
                  .starts_with("spec.containers"));
  const auto refused_delete = [&](const std::string& pod) {
    const std::string target = collection("pods") + "/" + pod + "?dryRun=All";
    return refusal_of(kControllerPolicy, "DELETE", target, json::object(), kAccount);
  };
  EXPECT_EQ(refused_delete("arxiv-1-7"), "");
  EXPECT_TRUE(refused_delete("foreign").starts_with("metadata.ownerReferences: "));
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
  std::set<std::string> tested = {"spec.containers"};
  for (const Misuse& misuse : misused_creates()) {
    tested.insert(misuse.field.substr(0, misuse.field.find(',')));
  }
  EXPECT_EQ(rules_of(kControllerPolicy), tested);
}

}  // namespace
}  // namespace gnn::testing
