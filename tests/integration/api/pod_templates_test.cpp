#include "common/api/codec.h"
#include "common/api/validation.h"
#include "controller/objects/pod.h"
#include "controller/reconcile/desired.h"
#include "tests/common/api/sample_job.h"
#include "tests/integration/api/changes.h"
#include "tests/support/control_plane.h"
#include "tests/support/must.h"
#include "tests/support/process.h"
#include "tests/support/source_dir.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

// A template that can never be a pod is refused when the job is created, not when its pods are. A real API
// server judges each job and the pods that the operator would make of it.
namespace gnn::api {
namespace {

using nlohmann::json;
using testing::Changes;
using testing::ControlPlane;
using testing::must;

const std::string kTemplatesCrd =
    gnn::testing::source_dir() + "/manifests/crds/gnnjobs.gnn.dev.yaml";
const std::string kWorkers = "/spec/workers/template";

// A sample job that differs in one place.
struct Template {
  std::string path;  // where the job is wrong; empty: it is right
  Changes changes;
};

std::string of_template(const std::string& field) {
  return "spec.workers.template." + field;
}

Template resources(const std::string& map, const json& requests, const json& limits) {
  Template made{.path = map.empty() ? "" : of_template("resources" + map), .changes = {}};
  if (!requests.is_null()) made.changes.emplace_back(kWorkers + "/resources/requests", requests);
  if (!limits.is_null()) made.changes.emplace_back(kWorkers + "/resources/limits", limits);
  return made;
}

std::vector<Template> templates_of_resources() {
  const json none;
  const std::string long_name(64, 'r');
  return {
      resources("", {{"cpu", 1}, {"memory", "1Gi"}}, {{"cpu", "1000m"}, {"memory", "1024Mi"}}),
      resources(".requests", {{"cpu", "2"}}, {{"cpu", "1"}}),
      resources(".requests", {{"cpu", 2}}, {{"cpu", 1}}),
      resources(".requests", {{"cpu", 2}}, {{"cpu", "1500m"}}),
      resources("", {{"memory", "4G"}}, {{"memory", "4Gi"}}),
      resources(".requests", {{"memory", "4Gi"}}, {{"memory", "4G"}}),
      resources(".requests", {{"memory", "1e10"}}, {{"memory", "9e9"}}),
      resources(".requests", {{"ephemeral-storage", "2Gi"}}, {{"ephemeral-storage", "1Gi"}}),
      resources("", {{"ephemeral-storage", "1Gi"}}, {{"ephemeral-storage", "1Gi"}}),
      resources("", {{"memory", ".5Gi"}}, {{"memory", "512Mi"}}),
      resources(".requests", {{"memroy", "1Gi"}}, none),
      resources(".limits", none, {{"gpu", 1}}),
      resources(".requests", {{"pods", 1}}, none),
      resources(".requests", {{"requests.cpu", 1}}, none),
      resources(".requests", {{"storage", "1Gi"}}, none),
      resources(".limits", none, {{"requests.example.com/nic", 1}}),
      resources(".limits", none, {{"Example.com/nic", 1}}),
      resources(".limits", none, {{"a..b/nic", 1}}),
      resources(".limits", none, {{"a/b/c", 1}}),
      resources(".limits", none, {{"example.com/", 1}}),
      resources(".limits", none, {{"example.com/-nic", 1}}),
      resources(".limits", none, {{"example.com/" + long_name, 1}}),
      resources(".limits", none, {{std::string(254, 'd') + "/nic", 1}}),
      resources(".requests", {{"cpu", -1}}, none),
      resources(".limits", none, {{"cpu", -1}}),
      resources(".limits", none, {{"cpu", "1 "}}),
      resources(".limits", none, {{"cpu", ""}}),
      resources("", none, {{"example.com/nic", 1}}),
      resources("", {{"example.com/nic", 1}}, {{"example.com/nic", "1"}}),
      resources("", {{"example.com/nic", "1k"}}, {{"example.com/nic", 1000}}),
      resources("", none, {{"example.com/nic", "2000m"}}),
      resources("", none, {{"example.com/nic", "1.5k"}}),
      resources(".requests", {{"example.com/nic", 1}}, none),
      resources(".requests", {{"example.com/nic", 1}}, {{"cpu", 1}}),
      resources(".requests", {{"example.com/nic", 1}}, {{"example.com/nic", 2}}),
      resources(".requests", {{"example.com/nic", 2}}, {{"example.com/nic", 1}}),
      resources(".limits", none, {{"example.com/nic", "500m"}}),
      resources(".limits", none, {{"example.com/nic", "1.5"}}),
      resources(".limits", none, {{"example.com/nic", "1n"}}),
      resources("", {{"cpu", 1}}, {{"hugepages-2Mi", "4Mi"}}),
      resources("", {{"hugepages-2Mi", "4Mi"}}, {{"hugepages-2Mi", "4Mi"}, {"memory", "1Gi"}}),
      resources("", none, {{"hugepages-1Gi", "0"}, {"cpu", 1}}),
      {of_template("resources"), {{kWorkers + "/resources/limits", {{"hugepages-2Mi", "4Mi"}}}}},
      resources(".limits", none, {{"hugepages-2Mi", "3Mi"}, {"cpu", 1}}),
      resources(".limits", none, {{"hugepages-2Mi", "1"}, {"cpu", 1}}),
      resources(".limits", none, {{"hugepages-2Mi", 1048576}, {"cpu", 1}}),
      resources(".limits", none, {{"hugepages-big", "1Gi"}, {"cpu", 1}}),
      resources(".requests", {{"hugepages-2Mi", "4Mi"}, {"cpu", 1}}, none),
      resources(
          ".requests",
          {{"hugepages-2Mi", "2Mi"}, {"cpu", 1}},
          {{"hugepages-2Mi", "4Mi"}, {"cpu", 1}}
      ),
  };
}

Template tolerations(const std::string& field, const json& toleration) {
  return {
      .path = field.empty() ? "" : of_template("tolerations[0]" + field),
      .changes = {{kWorkers + "/tolerations", json::array({toleration})}}
  };
}

std::vector<Template> templates_of_tolerations() {
  return {
      tolerations("", {{"operator", "Exists"}}),
      tolerations("", {{"key", "a"}, {"value", "b"}}),
      tolerations("", {{"key", "a"}, {"operator", "Exists"}, {"value", ""}}),
      tolerations("", {{"key", "a"}, {"effect", "NoExecute"}, {"tolerationSeconds", 5}}),
      tolerations(".operator", {{"operator", "Equal"}}),
      tolerations(".operator", {{"value", "b"}}),
      tolerations(".operator", {{"effect", "NoSchedule"}}),
      tolerations(".value", {{"key", "a"}, {"operator", "Exists"}, {"value", "b"}}),
      tolerations(".effect", {{"key", "a"}, {"effect", "NoSchedule"}, {"tolerationSeconds", 5}}),
      tolerations(".effect", {{"key", "a"}, {"tolerationSeconds", 5}}),
      tolerations(".effect", {{"key", "a"}, {"effect", "Never"}}),
      tolerations(".operator", {{"key", "a"}, {"operator", "In"}}),
      tolerations(".value", {{"key", "a"}, {"value", "b c"}}),
      tolerations(".value", {{"key", "a"}, {"value", std::string(64, 'v')}}),
      tolerations(".key", {{"key", "a b"}}),
      tolerations(".key", {{"key", "a..b/c"}}),
      tolerations(".key", {{"key", "A.b/c"}}),
      tolerations(".key", {{"key", std::string(64, 'k')}}),
      tolerations(".key", {{"key", "a/b/c"}}),
      tolerations(".key", {{"key", "/b"}}),
  };
}

std::vector<Template> templates_of_affinity(const std::string& kind) {
  const std::string affinity = kWorkers + "/affinity/nodeAffinity/";
  const bool required = kind.starts_with("required");
  const std::string path = of_template("affinity.nodeAffinity.") + kind +
                           (required ? ".nodeSelectorTerms[0]" : "[0].preference") +
                           ".matchExpressions[0]";
  const auto expression = [&](const std::string& field, const json& each) {
    const json term = {{"matchExpressions", json::array({each})}};
    const json all = required ? json{{"nodeSelectorTerms", json::array({term})}}
                              : json::array({{{"weight", 1}, {"preference", term}}});
    return Template{.path = field.empty() ? "" : path + field, .changes = {{affinity + kind, all}}};
  };
  std::vector<Template> all;
  for (const char* op : {"In", "NotIn"}) {
    all.push_back(expression("", {{"key", "a"}, {"operator", op}, {"values", {"b"}}}));
    all.push_back(expression(".values", {{"key", "a"}, {"operator", op}}));
    all.push_back(expression(".values", {{"key", "a"}, {"operator", op}, {"values", json::array()}})
    );
  }
  for (const char* op : {"Exists", "DoesNotExist"}) {
    all.push_back(expression("", {{"key", "a"}, {"operator", op}}));
    all.push_back(expression(".values", {{"key", "a"}, {"operator", op}, {"values", {"b"}}}));
  }
  for (const char* op : {"Gt", "Lt"}) {
    all.push_back(expression("", {{"key", "a"}, {"operator", op}, {"values", {"5"}}}));
    all.push_back(expression(".values", {{"key", "a"}, {"operator", op}, {"values", {"5", "6"}}}));
    all.push_back(expression(".values", {{"key", "a"}, {"operator", op}, {"values", {"many"}}}));
    all.push_back(expression(".values", {{"key", "a"}, {"operator", op}}));
  }
  all.push_back(expression(".values[0]", {{"key", "a"}, {"operator", "In"}, {"values", {"b c"}}}));
  all.push_back(expression(".key", {{"key", "a b"}, {"operator", "Exists"}}));
  all.push_back(expression(".key", {{"key", "a..b/c"}, {"operator", "Exists"}}));
  all.push_back(expression(".operator", {{"key", "a"}, {"operator", "Near"}}));
  return all;
}

Template one(const std::string& field, const std::string& pointer, const json& value) {
  return {
      .path = field.empty() ? "" : of_template(field), .changes = {{kWorkers + pointer, value}}
  };
}

std::vector<Template> templates_of_keys() {
  std::vector<Template> all;
  for (const std::string map : {"/nodeSelector", "/metadata/labels", "/metadata/annotations"}) {
    const std::string field =
        map == "/nodeSelector" ? "nodeSelector" : "metadata." + map.substr(map.rfind('/') + 1);
    for (const std::string& key :
         {std::string("a b"),
          std::string("a..b/c"),
          std::string("/c"),
          std::string("a/b/c"),
          std::string(64, 'k'),
          std::string(254, 'd') + "/c"}) {
      all.push_back(one(field, map, {{key, "x"}}));
    }
    all.push_back(one("", map, {{std::string(63, 'k'), "x"}}));
  }
  all.push_back(one("nodeSelector", "/nodeSelector", {{"a", "b c"}}));
  all.push_back(one("nodeSelector", "/nodeSelector", {{"a", std::string(64, 'v')}}));
  all.push_back(one("metadata.labels", "/metadata/labels", {{"a", "-b"}}));
  return all;
}

std::vector<Template> templates_of_images() {
  std::vector<Template> all;
  for (const char* image :
       {"gnn-worker",
        "registry.example.com:5000/team/gnn-worker:0.1.0",
        "[fd00::1]:5000/gnn-worker",
        "Registry/gnn-worker:Latest_1.0",
        "a__b/c-d.e@sha256:"
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}) {
    all.push_back(one("", "/image", image));
  }
  for (const std::string& image :
       {std::string(" gnn-worker"),
        std::string("gnn-worker "),
        std::string("gnn worker"),
        std::string("gnn-worker\n"),
        std::string("GNN-Worker"),
        std::string("example.com/Team/worker"),
        std::string("gnn-worker:"),
        std::string("gnn-worker:a:b"),
        std::string("https://example.com/worker"),
        std::string("gnn-worker@sha256:12"),
        std::string("gnn-worker:") + std::string(129, 't'),
        std::string("")}) {
    all.push_back(one("image", "/image", image));
  }
  return all;
}

std::vector<Template> templates_of_others() {
  const json claim = {{"name", "data"}, {"persistentVolumeClaim", {{"claimName", "data"}}}};
  const auto volume = [](const std::string& field, const json& made) {
    return one(field.empty() ? "" : "volumes" + field, "/volumes", json::array({made}));
  };
  const auto mount = [&](const std::string& field, const json& made) {
    Template all =
        one(field.empty() ? "" : "volumeMounts" + field, "/volumes", json::array({claim}));
    all.changes.emplace_back(kWorkers + "/volumeMounts", json::array({made}));
    return all;
  };
  const auto env = [](const std::string& field, const json& made) {
    return one(field.empty() ? "" : "env[0]" + field, "/env", json::array({made}));
  };
  return {
      env("", {{"name", "A"}, {"value", "$(B) x"}}),
      env(".name", {{"name", "A B"}}),
      env(".name", {{"name", "1A"}}),
      env(".name", {{"name", "A=B"}}),
      env(".name", {{"name", ""}}),
      env(".valueFrom.fieldRef.fieldPath",
          {{"name", "A"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "spec.hostNetwork"}}}}}}),
      volume("", claim),
      volume("[0].name", {{"name", "Data"}, {"emptyDir", json::object()}}),
      volume("[0].name", {{"name", "a.b"}, {"emptyDir", json::object()}}),
      volume("[0].name", {{"name", std::string(64, 'v')}, {"emptyDir", json::object()}}),
      volume("[0].emptyDir.sizeLimit", {{"name", "a"}, {"emptyDir", {{"sizeLimit", "-1"}}}}),
      volume("[0].emptyDir.sizeLimit", {{"name", "a"}, {"emptyDir", {{"sizeLimit", "big"}}}}),
      volume("[0].emptyDir.medium", {{"name", "a"}, {"emptyDir", {{"medium", "Tape"}}}}),
      volume("[0]", {{"name", "a"}}),
      volume("[0].configMap.name", {{"name", "a"}, {"configMap", {{"name", "a..b"}}}}),
      volume(
          "[0].persistentVolumeClaim.claimName",
          {{"name", "a"}, {"persistentVolumeClaim", {{"claimName", ""}}}}
      ),
      mount("", {{"name", "data"}, {"mountPath", "/data"}, {"subPath", "a/b"}}),
      mount("[0].subPath", {{"name", "data"}, {"mountPath", "/d"}, {"subPath", "a..b"}}),
      mount("[0].mountPath", {{"name", "data"}, {"mountPath", "data"}}),
      mount("[0].mountPath", {{"name", "data"}, {"mountPath", "/a:b"}}),
      mount("[0].mountPath", {{"name", "data"}, {"mountPath", "//tmp"}}),
      mount("[0].mountPath", {{"name", "data"}, {"mountPath", "//"}}),
      mount("[0].subPath", {{"name", "data"}, {"mountPath", "/d"}, {"subPath", "/a"}}),
      mount("[0].subPath", {{"name", "data"}, {"mountPath", "/d"}, {"subPath", "../a"}}),
      {of_template("volumeMounts"),
       {{kWorkers + "/volumeMounts", json::array({{{"name", "x"}, {"mountPath", "/x"}}})}}},
      one("priorityClassName", "/priorityClassName", "a..b"),
      one("schedulerName", "/schedulerName", "a b"),
      one("", "/imagePullSecrets", {{{"name", "pull"}}}),
      one("imagePullSecrets[0].name", "/imagePullSecrets", {{{"name", "a..b"}}}),
      one("securityContext.runAsUser", "/securityContext/runAsUser", -1),
      one("terminationGracePeriodSeconds", "/terminationGracePeriodSeconds", -1),
  };
}

// The pods of servers and of prepare are made of templates, too.
std::vector<Template> templates_of_other_pods() {
  const std::string servers = "/spec/servers/template";
  const json above = {{"requests", {{"cpu", 2}}}, {"limits", {{"cpu", 1}}}};
  return {
      {"spec.servers.template.resources.requests", {{servers + "/resources", above}}},
      {"spec.servers.template.image", {{servers + "/image", "a b"}}},
      {"spec.servers.template.nodeSelector", {{servers + "/nodeSelector", {{"a b", "c"}}}}},
      {"spec.servers.template.tolerations[0].operator",
       {{servers + "/tolerations", json::array({{{"value", "b"}}})}}},
      {"spec.prepare.resources.requests", {{"/spec/prepare/resources", above}}},
  };
}

json job_of(const Template& made, size_t number) {
  const std::string& pointer = made.changes.front().first;
  GnnJob base = sample_job();
  if (pointer.starts_with("/spec/servers")) base = sample_served_job();
  if (pointer.starts_with("/spec/prepare")) base = sample_prepare_job();
  json object = encode(base);
  object["metadata"] = {{"name", "t" + std::to_string(number)}};
  return testing::changed(std::move(object), made.changes);
}

objects::Pod pod_of(const Template& made, const GnnJob& job) {
  const std::string& pointer = made.changes.front().first;
  if (pointer.starts_with("/spec/servers")) return reconcile::desired_server_pod(job, {});
  if (pointer.starts_with("/spec/prepare")) return reconcile::desired_prepare_pod(job, 1);
  return reconcile::desired_pod(job, {.attempt = 1, .node = 0});
}

class PodTemplates : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    must(ControlPlane::shared().apply(kTemplatesCrd));
    name_space() = ControlPlane::shared().create_namespace("templates").value();
  }

  static std::string& name_space() {
    static std::string name;
    return name;
  }

  // What the API server says against each of them that it will never take, by name.
  static std::map<std::string, std::string> refusals_of(const std::vector<json>& objects) {
    const json list = {{"apiVersion", "v1"}, {"kind", "List"}, {"items", objects}};
    const auto output = must(ControlPlane::shared().kubectl(
        {"create", "--dry-run=server", "--validate=false", "-n", name_space(), "-f", "-"},
        list.dump()
    ));
    std::map<std::string, std::string> said;
    for (const json& object : objects) {
      const std::string name = object["metadata"]["name"];
      const size_t found = output.errors.find("\"" + name + "\" is invalid");
      if (found != std::string::npos) {
        said[name] = output.errors.substr(found, output.errors.find("\n", found) - found);
      } else if (output.output.find("/" + name + " created") == std::string::npos) {
        said[name] = "not created";  // it cannot be read
      }
    }
    return said;
  }
};

TEST_F(PodTemplates, ThatCanNeverBePodsAreRefusedWithTheJob) {
  std::vector<Template> all = templates_of_resources();
  for (auto&& more :
       {templates_of_tolerations(),
        templates_of_affinity("requiredDuringSchedulingIgnoredDuringExecution"),
        templates_of_affinity("preferredDuringSchedulingIgnoredDuringExecution"),
        templates_of_keys(),
        templates_of_images(),
        templates_of_others(),
        templates_of_other_pods()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  std::vector<json> jobs;
  std::vector<json> pods;
  std::map<std::string, std::string> pod_names;
  for (size_t i = 0; i < all.size(); ++i) {
    jobs.push_back(job_of(all[i], i));
    auto job = decode_job(jobs.back(), UnknownFields::Ignore);
    if (!job) continue;
    job->metadata.namespace_ = name_space();
    job->metadata.uid = "u";
    pods.push_back(objects::encode(pod_of(all[i], *job)));
    pod_names[job->metadata.name] = pods.back()["metadata"]["name"];
  }
  const auto refused_jobs = refusals_of(jobs);
  const auto refused_pods = refusals_of(pods);
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string name = jobs[i]["metadata"]["name"];
    SCOPED_TRACE(all[i].path + " " + json(all[i].changes).dump());
    const auto job = decode_job(jobs[i], UnknownFields::Reject);
    const Status valid = job ? check(*job) : tl::unexpected(job.error());
    const bool refused = refused_jobs.contains(name);
    EXPECT_EQ(refused, !all[i].path.empty()) << (refused ? refused_jobs.at(name) : "taken");
    EXPECT_EQ(refused, !valid) << (valid ? "valid" : valid.error().message);
    const bool no_pod = !pod_names.contains(name) || refused_pods.contains(pod_names.at(name));
    EXPECT_TRUE(refused || !no_pod)
        << (pod_names.contains(name) ? refused_pods.at(pod_names.at(name)) : "cannot be read");
    if (!refused || all[i].path.empty()) continue;
    // An entry of a map has a path of its own.
    const bool named = refused_jobs.at(name).find(all[i].path + ":") != std::string::npos ||
                       refused_jobs.at(name).find(all[i].path + ".") != std::string::npos;
    EXPECT_TRUE(named) << refused_jobs.at(name);
    if (valid) continue;
    EXPECT_NE(valid.error().message.find(all[i].path), std::string::npos) << valid.error().message;
  }
}

}  // namespace
}  // namespace gnn::api
