#include "tests/integration/controller/fixture.h"
#include "tests/support/must.h"
#include "tests/support/read_file.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

// A controller that finds CRDs and jobs of other versions than its own.
namespace gnn::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

// The job of the fixtures; its name is part of its children's.
constexpr std::string_view kFixtureJob = "traveller";

std::string source(const std::string& path) {
  return gnn::testing::source_dir() + "/" + path;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// What tools/generate/upgrade_fixture.py wrote with one version.
struct Version {
  Json crd;
  Json objects;
};

Version read_version(const std::filesystem::path& folder) {
  return {
      .crd = Json::parse(read_file(folder / "crd.json")),
      .objects = Json::parse(read_file(folder / "objects.json")),
  };
}

// The oldest first.
std::vector<std::filesystem::path> versions() {
  std::vector<std::filesystem::path> folders;
  for (const auto& entry : std::filesystem::directory_iterator(source("tests/fixtures"))) {
    folders.push_back(entry.path());
  }
  std::ranges::sort(folders);
  return folders;
}

// A fixture's job uses what is new since the fixture before: of this version, sampling servers.
Json with_servers() {
  return {
      {"dataset", {{"format", "Native"}, {"path", "/data"}, {"synthetic", nullptr}}},
      {"placement", {{"partitions", 1}}},
      {"servers", {{"nodes", 1}, {"template", {{"image", "localhost/none:1"}}}}},
  };
}

Json& schema_of(Json& crd) {
  return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
}

// Other tests of this program share the control plane: the CRD is today's again at the end.
class Upgrade : public ::testing::Test {
 protected:
  ~Upgrade() override { use_todays_crd(); }

  [[nodiscard]] Json todays_crd() const {
    Json crd =
        cluster_.api().get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gnnjobs.gnn.dev"
        );
    crd.erase("status");
    crd["metadata"] = {{"name", crd["metadata"]["name"]}};
    return crd;
  }

  // Today's CRD with words and status fields that a later version may add.
  [[nodiscard]] Json newer_crd() const {
    Json crd = todays_crd();
    Json& spec = schema_of(crd)["spec"]["properties"];
    Json& status = schema_of(crd)["status"]["properties"];
    spec["training"]["properties"]["unevenInputs"]["enum"].push_back("Borrow");
    Json& policy = spec["runPolicy"]["properties"]["failurePolicy"]["properties"];
    policy["rules"]["items"]["properties"]["action"]["enum"].push_back("Pause");
    status["mirrors"] = {{"type", "integer"}};
    status["nodes"]["properties"]["spare"] = {{"type", "integer"}};
    status["conditions"]["items"]["properties"]["cause"] = {{"type", "string"}};
    return crd;
  }

  // What makes a fixture's job one of that version.
  static Json newer_changes(const Version& version) {
    const Json rules = Json::array({{{"exitCodes", {3}}, {"action", "Pause"}}});
    Json changes = {
        {"spec",
         {{"training", {{"unevenInputs", "Borrow"}}},
          {"runPolicy", {{"failurePolicy", {{"rules", rules}}}}}}},
        {"status", version.objects["job"]["status"]},
    };
    changes["status"]["mirrors"] = 4;
    changes["status"]["nodes"]["spare"] = 1;
    for (Json& condition : changes["status"]["conditions"]) {
      condition["cause"] = "of " + condition["type"].get<std::string>();
    }
    return changes;
  }

  // Waits until the API server prunes by it.
  void use_crd(Json crd) {
    // Each one has a field of its own to be known by.
    const std::string mark = "mark" + std::to_string(++marks_);
    schema_of(crd)["spec"]["properties"][mark] = {{"type", "string"}};
    must(cluster_.plane().apply("-", crd.dump()));
    ASSERT_TRUE(eventually([&] { return keeps(mark, true); }));
  }
  void use_todays_crd() {
    must(cluster_.plane().apply(source("manifests/crds/gnnjobs.gnn.dev.yaml")));
    if (marks_ == 0) return;
    ASSERT_TRUE(eventually([&] { return keeps("mark" + std::to_string(marks_), false); }));
  }

  // Puts a fixture's job and children into the cluster under another name.
  void restore(const Version& version, const std::string& name, const Json& changes = {}) {
    const std::string text = replaced(version.objects.dump(), kFixtureJob, name);
    Json job = Json::parse(text)["job"];
    if (!changes.is_null()) job.merge_patch(changes);
    const std::string old_uid = job["metadata"]["uid"];
    job["metadata"]["namespace"] = cluster_.name_space();
    const std::string uid = cluster_.api().create(cluster_.jobs(), job)["metadata"]["uid"];
    ASSERT_TRUE(
        cluster_.api().patch(cluster_.jobs() + "/" + name + "/status", {{"status", job["status"]}})
    );
    const Json children = Json::parse(replaced(text, old_uid, uid))["children"];
    for (Json child : children) {
      const Json status = child.value("status", Json::object());
      child["metadata"]["namespace"] = cluster_.name_space();
      child["metadata"].erase("uid");
      const std::string collection = collection_of(child["kind"]);
      cluster_.api().create(collection, child);
      if (child["kind"] != "Pod") continue;
      const std::string pod = child["metadata"]["name"];
      ASSERT_TRUE(cluster_.api().patch(collection + "/" + pod + "/status", {{"status", status}}));
    }
  }

  [[nodiscard]] std::vector<std::string> pod_uids(const std::string& job) const {
    std::vector<std::string> uids;
    for (const Json& pod : cluster_.pods_of(job)) uids.push_back(pod["metadata"]["uid"]);
    std::ranges::sort(uids);
    return uids;
  }

  // Of three running jobs, one is suspended, one deleted, and one runs on and finishes.
  void expect_all_ends(const Json& status_before) {
    const std::vector<std::string> finishing = pod_uids("finishing");
    ASSERT_FALSE(finishing.empty());
    ControllerProcess controller(cluster_.plane(), cluster_.arguments());
    FakeKubelets kubelets(cluster_.plane(), cluster_.name_space(), 0ms);
    ASSERT_TRUE(
        cluster_.api().patch(cluster_.jobs() + "/suspended", {{"spec", {{"suspend", true}}}})
    );
    cluster_.api().remove(cluster_.jobs() + "/deleted");
    EXPECT_TRUE(eventually([&] { return cluster_.holds("suspended", "Suspended"); }))
        << cluster_.describe("suspended") << controller.log();
    EXPECT_TRUE(pod_uids("suspended").empty());
    // The garbage collector looks for kinds that it has not seen yet every half minute.
    const auto is_gone = [&] {
      return cluster_.job("deleted").is_null() && pod_uids("deleted").empty();
    };
    EXPECT_TRUE(eventually(is_gone, 120s)) << controller.log();
    EXPECT_TRUE(cluster_.holds("finishing", "Running")) << cluster_.describe("finishing");
    EXPECT_EQ(pod_uids("finishing"), finishing);
    // A gang whose spec has words of a newer version runs on, too.
    EXPECT_TRUE(eventually([&] {
      return cluster_.holds("finishing", "Reconciling") || cluster_.holds("finishing", "Stalled");
    }));
    kubelets.let_finish();
    EXPECT_TRUE(eventually([&] { return cluster_.holds("finishing", "Complete"); }))
        << cluster_.describe("finishing") << controller.log();
    EXPECT_FALSE(cluster_.holds("finishing", "Reconciling"));
    EXPECT_FALSE(cluster_.holds("finishing", "Stalled"));
    const Json status = cluster_.job("finishing")["status"];
    for (const char* field : {"attempt", "restarts", "failures", "startTime"}) {
      EXPECT_EQ(status.value(field, Json()), status_before.value(field, Json())) << field;
    }
    EXPECT_EQ(controller.terminate(), 0);
  }

  Cluster cluster_;

 private:
  // Whether the API server's schema has that field of the spec.
  [[nodiscard]] bool keeps(const std::string& field, bool wanted) {
    Json job = Json::parse(read_file(versions().front() / "objects.json"))["job"];
    job["metadata"] = {{"name", "probe"}, {"namespace", cluster_.name_space()}};
    job.erase("status");
    job["spec"][field] = "x";
    const auto reply = http_request(
        cluster_.plane().admin_endpoint(),
        "POST",
        cluster_.jobs() + "?dryRun=All",
        job.dump(),
        {{"Content-Type", "application/json"}}
    );
    if (!reply || reply->status != 201) return false;
    return Json::parse(reply->body)["spec"].contains(field) == wanted;
  }

  [[nodiscard]] std::string collection_of(const std::string& kind) const {
    const std::string core = "/api/v1/namespaces/" + cluster_.name_space();
    if (kind == "NetworkPolicy") {
      return "/apis/networking.k8s.io/v1/namespaces/" + cluster_.name_space() + "/networkpolicies";
    }
    if (kind == "ConfigMap") return core + "/configmaps";
    return core + (kind == "Service" ? "/services" : "/pods");
  }

  static inline int marks_ = 0;
};

TEST_F(Upgrade, JobsOfEarlierVersionsRunOnAndFinishSuspendAndDelete) {
  for (const std::filesystem::path& folder : versions()) {
    SCOPED_TRACE(folder.filename());
    const Version version = read_version(folder);
    use_crd(version.crd);
    for (const char* name : {"finishing", "suspended", "deleted"}) restore(version, name);
    use_todays_crd();
    expect_all_ends(version.objects["job"]["status"]);
    for (const char* name : {"finishing", "suspended"}) {
      cluster_.api().remove(cluster_.jobs() + "/" + name);
    }
  }
}

// As tools do that hold what they applied against what is stored, such as `kubectl replace` and Argo CD.
TEST_F(Upgrade, AManifestOfAnEarlierVersionIsAppliedAgainUnderTodaysCrd) {
  const Version version = read_version(versions().front());
  const std::string path = cluster_.jobs() + "/applied";
  Json manifest = {
      {"apiVersion", "gnn.dev/v1alpha1"},
      {"kind", "GNNJob"},
      {"metadata", {{"name", "applied"}, {"namespace", cluster_.name_space()}}},
      {"spec", version.objects["job"]["spec"]},
  };
  Json& pod = manifest["spec"]["workers"]["template"];
  pod.erase("securityContext");
  pod["volumes"] = Json::array({{{"name", "d"}, {"persistentVolumeClaim", {{"claimName", "d"}}}}});
  pod["volumeMounts"] = Json::array({{{"name", "d"}, {"mountPath", "/d"}}});
  manifest["spec"]["runPolicy"]["failurePolicy"]["rules"] =
      Json::array({{{"exitCodes", {3}}, {"action", "Restart"}}});
  use_crd(version.crd);
  ASSERT_TRUE(cluster_.api().create(cluster_.jobs(), manifest).contains("spec"));
  ASSERT_TRUE(
      cluster_.job("applied")["spec"]["workers"]["template"]["volumeMounts"][0].contains("readOnly")
  );
  use_todays_crd();
  manifest["metadata"]["resourceVersion"] = cluster_.job("applied")["metadata"]["resourceVersion"];
  const auto reply = must(http_request(
      cluster_.plane().admin_endpoint(),
      "PUT",
      path,
      manifest.dump(),
      {{"Content-Type", "application/json"}}
  ));
  EXPECT_EQ(reply.status, 200) << reply.body;
  const Json stored = cluster_.job("applied")["spec"]["workers"]["template"];
  EXPECT_EQ(stored["volumeMounts"], pod["volumeMounts"]);
  cluster_.api().remove(path);
}

TEST_F(Upgrade, JobsOfANewerVersionFinishSuspendAndDeleteAndKeepTheirStatus) {
  const Version version = read_version(versions().back());
  use_crd(newer_crd());
  const Json changes = newer_changes(version);
  for (const char* name : {"finishing", "suspended", "deleted"}) restore(version, name, changes);
  expect_all_ends(version.objects["job"]["status"]);

  const Json ended = cluster_.job("finishing")["status"];
  EXPECT_EQ(ended.value("mirrors", 0), 4);
  EXPECT_EQ(ended["nodes"].value("spare", 0), 1);
  for (const Json& condition : ended["conditions"]) {
    if (condition["type"] == "Complete") continue;
    EXPECT_EQ(condition.value("cause", ""), "of " + condition["type"].get<std::string>());
  }
}

TEST_F(Upgrade, JobsOfANewerVersionFinishSuspendAndDeleteAlsoUnderTodaysCrd) {
  const Version version = read_version(versions().back());
  use_crd(newer_crd());
  for (const char* name : {"finishing", "suspended", "deleted"}) {
    restore(version, name, newer_changes(version));
  }
  use_todays_crd();
  expect_all_ends(version.objects["job"]["status"]);
}

TEST_F(Upgrade, AJobWithANewerWordWaitsForAControllerThatKnowsIt) {
  use_crd(newer_crd());
  ControllerProcess controller(cluster_.plane(), cluster_.arguments());
  cluster_.create_job("j", 2, {{"training", {{"unevenInputs", "Borrow"}}}});
  ASSERT_TRUE(eventually([&] {
    return cluster_.job("j").value(Json::json_pointer("/status/state"), "") == "Invalid";
  })) << controller.log();
  EXPECT_THAT(
      cluster_.describe("j"),
      HasSubstr(
          R"(spec.training.unevenInputs: this version of the controller does not know \"Borrow\")"
      )
  );
  EXPECT_TRUE(cluster_.pods_of("j").empty());
  EXPECT_EQ(controller.terminate(), 0);
}

// Removes what names the field from all CEL rules below.
void drop_rules(Json& schema, const std::string& field) {
  if (schema.is_object() && schema.contains("x-kubernetes-validations")) {
    Json kept = Json::array();
    for (const Json& rule : schema["x-kubernetes-validations"]) {
      if (rule.dump().find(field) == std::string::npos) kept.push_back(rule);
    }
    schema["x-kubernetes-validations"] = kept;
  }
  for (Json& each : schema) {
    if (each.is_structured()) drop_rules(each, field);
  }
}

TEST_F(Upgrade, AnOlderCrdCausesNoWriteAgainAndAgain) {
  Json older = todays_crd();
  older["spec"]["versions"][0].erase("selectableFields");  // of status.state
  drop_rules(schema_of(older), "failurePolicy");
  schema_of(older)["spec"]["properties"]["runPolicy"]["properties"].erase("failurePolicy");
  for (const char* field : {"failures", "machines", "replacedNodes", "backoff", "outOfMemory"}) {
    ASSERT_EQ(schema_of(older)["status"]["properties"].erase(field), 1U) << field;
  }
  // Each pass finds anew that these are missing.
  for (const char* field : {"state", "nodes"}) {
    ASSERT_EQ(schema_of(older)["status"]["properties"].erase(field), 1U) << field;
  }
  use_crd(older);
  const auto proxy = must(FaultProxy::in_front_of(cluster_.plane()));
  ControllerProcess controller(cluster_.plane(), cluster_.arguments_through(*proxy));
  FakeKubelets kubelets(cluster_.plane(), cluster_.name_space(), 0ms);
  cluster_.create_job("j");
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Running"); })) << controller.log();
  kubelets.fail("j-1-0", 1);
  ASSERT_TRUE(eventually([&] {
    return cluster_.holds("j", "Running") && cluster_.job("j")["status"]["attempt"] == 2;
  })) << cluster_.describe("j")
      << controller.log();
  const auto writes = [&] {
    return proxy
        ->requests([](const RecordedRequest& request) {
          return request.is_write() && request.path.ends_with("/gnnjobs/j/status");
        })
        .size();
  };
  // Edits make passes that have nothing to write: what its last event was worth is written. Each is
  // seen by the time that another job runs.
  const size_t before = writes();
  for (int other = 0; other < 12; ++other) {
    const std::string name = "other-" + std::to_string(other);
    const Json edit = {{"metadata", {{"annotations", {{"edit", name}}}}}};
    ASSERT_TRUE(cluster_.api().patch(cluster_.jobs() + "/j", edit));
    cluster_.create_job(name);
    ASSERT_TRUE(eventually([&] { return cluster_.holds(name, "Running"); })) << controller.log();
  }
  EXPECT_LE(writes() - before, 6U);
  kubelets.let_finish();
  ASSERT_TRUE(eventually([&] { return cluster_.holds("j", "Complete"); }))
      << cluster_.describe("j") << controller.log();
  EXPECT_EQ(cluster_.job("j")["status"]["restarts"], 1);
  EXPECT_FALSE(cluster_.job("j")["status"].contains("failures"));
  EXPECT_EQ(controller.terminate(), 0);
}

// The tool that writes the fixtures, on a control plane of this version. GNN_UPGRADE_FIXTURE names a
// folder in which they are kept.
TEST_F(Upgrade, AFixtureOfThisVersionCanBeWritten) {
  ControllerProcess controller(cluster_.plane(), cluster_.arguments());
  FakeKubelets kubelets(cluster_.plane(), cluster_.name_space(), 0ms);
  const std::string job(kFixtureJob);
  cluster_.create_job(job, 2, with_servers());
  const TemporaryFolder temporary;
  const char* kept = std::getenv("GNN_UPGRADE_FIXTURE");
  const std::filesystem::path folder =
      kept != nullptr ? std::string(kept) : temporary.path("fixture");
  const auto write = [&] {
    return must(run_command(
        {"python3",
         source("tools/generate/upgrade_fixture.py"),
         folder,
         "--kubeconfig=" + cluster_.plane().kubeconfig_file(),
         "--namespace=" + cluster_.name_space(),
         "--job=" + job,
         "--kubectl=" + cluster_.plane().program("kubectl"),
         "--helm=" + cluster_.plane().program("helm")}
    ));
  };
  // After restarts the status has more to say.
  ASSERT_TRUE(eventually([&] { return cluster_.holds(job, "Running"); })) << controller.log();
  kubelets.fail(job + "-s0-0", 1);
  kubelets.fail(job + "-1-1", 1);
  ASSERT_TRUE(eventually([&] {
    const Json status = cluster_.job(job)["status"];
    return cluster_.holds(job, "Running") && status["attempt"] == 2 &&
           cluster_.holds(job, "ServersReady") && status["servers"]["restarts"] == 1;
  })) << cluster_.describe(job)
      << controller.log();
  const CommandOutput written = write();
  ASSERT_EQ(written.exit_code, 0) << written.errors;

  const Version version = read_version(folder);
  EXPECT_EQ(version.crd["spec"], todays_crd()["spec"]);
  const Json& objects = version.objects;
  EXPECT_EQ(objects["job"]["status"], cluster_.job(job)["status"]);
  std::vector<std::string> kinds;
  for (const Json& child : objects["children"]) kinds.push_back(child["kind"]);
  EXPECT_THAT(
      kinds,
      ::testing::UnorderedElementsAre("Service", "ConfigMap", "NetworkPolicy", "Pod", "Pod", "Pod")
  );
  EXPECT_THAT(objects.dump(), Not(HasSubstr("managedFields")));
  const auto files = std::filesystem::directory_iterator(folder);
  EXPECT_EQ(
      std::count_if(
          begin(files),
          end(files),
          [](const auto& each) { return each.path().extension() == ".tgz"; }
      ),
      1
  );

  ASSERT_TRUE(cluster_.api().patch(cluster_.jobs() + "/" + job, {{"spec", {{"suspend", true}}}}));
  ASSERT_TRUE(eventually([&] { return cluster_.holds(job, "Suspended"); }));
  const CommandOutput refused = write();
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.errors, HasSubstr("expected one that is Running"));
  EXPECT_EQ(controller.terminate(), 0);
}

}  // namespace
}  // namespace gnn::testing
