#pragma once

#include "common/api/codec.h"
#include "common/contract.h"
#include "controller/objects/pod.h"
#include "controller/reconcile/desired.h"
#include "tests/common/api/sample_job.h"
#include "tests/support/control_plane.h"
#include "tests/support/http.h"
#include "tests/support/must.h"
#include "tests/support/process.h"
#include "tests/support/read_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

/// The chart's ValidatingAdmissionPolicies, as manifests/base has them, and what they are asked about.
namespace gnn::testing {

/// The documents of that policy and of its binding among the manifests.
inline std::string documents_of(std::string rest, std::string_view policy) {
  std::string found;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find("\n---\n"), rest.size());
    const std::string document = rest.substr(0, end);
    if (document.find("kind: ValidatingAdmissionPolicy") != std::string::npos &&
        document.find("\n  name: " + std::string(policy) + "\n") != std::string::npos) {
      found += document + "\n---\n";
    }
    rest.erase(0, std::min(end + 5, rest.size()));
  }
  return found;
}

/// The same in a checkout of the project.
inline std::string policy_documents(const std::string& source_dir, std::string_view policy) {
  return documents_of(read_file(source_dir + "/manifests/base/gnn-operator.yaml"), policy);
}

/// The checkout's chart with these settings of `helm template`.
inline std::string chart_with(
    const std::string& source_dir, const std::vector<std::string>& settings
) {
  std::vector<std::string> command = {
      "/usr/bin/env",
      // A user's own settings and plugins must not decide a test.
      "HOME=/nonexistent",
      "HELM_NO_PLUGINS=1",
      ControlPlane::shared().program("helm"),
      "template",
      "gnn-operator",
      source_dir + "/charts/gnn-operator",
      "--namespace=gnn-system",
  };
  command.insert(command.end(), settings.begin(), settings.end());
  const CommandOutput rendered = must(run_command(command));
  if (rendered.exit_code != 0) throw std::runtime_error("helm template: " + rendered.errors);
  return rendered.output;
}

/// A GNNJob that asks for all that its pod template knows.
inline api::GnnJob demanding_job(const std::string& name_space) {
  nlohmann::json object = api::encode(api::sample_job());
  object["metadata"] = {{"name", "arxiv"}, {"namespace", name_space}, {"uid", "u"}};
  nlohmann::json& workers = object["spec"]["workers"];
  workers["processesPerNode"] = 2;
  workers["gpusPerProcess"] = 1;  // and so shared memory
  workers["template"].update(nlohmann::json::parse(R"({
    "metadata": {
      "labels": {"sidecar.istio.io/inject": "false"},
      "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    },
    "imagePullPolicy": "Always",
    "terminationGracePeriodSeconds": 60,
    "priorityClassName": "gangs",
    "imagePullSecrets": [{"name": "pull"}],
    "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"operator": "Exists"}],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
      {"matchExpressions": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}
    ]}}},
    "schedulerName": "another",
    "env": [{"name": "TZ", "value": "UTC"}, {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
    "volumes": [
      {"name": "data", "persistentVolumeClaim": {"claimName": "data", "readOnly": true}},
      {"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
      {"name": "settings", "configMap": {"name": "settings"}}
    ],
    "volumeMounts": [{"name": "data", "mountPath": "/data", "subPath": "arxiv", "readOnly": true}],
    "securityContext": {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000, "fsGroupChangePolicy": "Always"}
  })"));
  return must(api::decode_job(object, api::UnknownFields::Reject));
}

/// What demanding_job() needs beside it.
inline void make_priority_class() {
  must(ControlPlane::shared().apply("-", R"({
    "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gangs"},
    "value": 1000
  })"));
}

/// Whom the API server takes the controller for.
inline constexpr std::string_view kControllerUser = "system:serviceaccount:gnn-system:gnn-operator";

/// More than its roles do, so that only a policy refuses it something.
inline void let_controller_do_everything() {
  must(ControlPlane::shared().apply("-", R"({
    "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
    "metadata": {"name": "controller-does-everything"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"kind": "ServiceAccount", "name": "gnn-operator", "namespace": "gnn-system"}]
  })"));
}

/// What the controller makes of it.
inline nlohmann::json worker_pod(const std::string& name_space) {
  return objects::encode(
      reconcile::desired_pod(demanding_job(name_space), {.attempt = 1, .node = 0})
  );
}

/// What the API server's type checker says against the policy; empty: nothing.
inline std::string type_warnings(std::string_view policy) {
  const std::string resource = "validatingadmissionpolicy/" + std::string(policy);
  const auto checked = must(ControlPlane::shared().kubectl(
      {"wait", resource, "--for=jsonpath={.status.observedGeneration}", "--timeout=60s"}
  ));
  if (checked.exit_code != 0) return checked.errors;
  return must(ControlPlane::shared().kubectl(
                  {"get", resource, "--output=jsonpath={.status.typeChecking.expressionWarnings}"}
              ))
      .output;
}

/// The first field that the message of each rule names.
inline std::set<std::string> rules_of(std::string_view policy) {
  const auto found = must(ControlPlane::shared().kubectl(
      {"get",
       "validatingadmissionpolicy",
       std::string(policy),
       R"(--output=jsonpath={range .spec.validations[*]}{.message}{"\n"}{end})"}
  ));
  std::set<std::string> rules;
  std::istringstream messages(found.output);
  for (std::string line; std::getline(messages, line);) {
    rules.insert(line.substr(0, line.find_first_of(",:")));
  }
  return rules;
}

/// What that policy, or whoever else refuses it, says against a request; empty: nothing. `as`: the
/// user who asks, if not the administrator.
inline std::string refusal_of(
    std::string_view policy,
    std::string_view method,
    const std::string& path,
    const nlohmann::json& object,
    const std::string& as = "",
    const std::string& content_type = "application/json"
) {
  HttpHeaders headers{{"Content-Type", content_type}};
  if (!as.empty()) headers.add("Impersonate-User", as);
  const auto reply =
      http_request(ControlPlane::shared().admin_endpoint(), method, path, object.dump(), headers);
  if (!reply) return reply.error().message;
  if (reply->status < 300) return "";
  const std::string message = nlohmann::json::parse(reply->body).at("message");
  const std::string denied = "ValidatingAdmissionPolicy '" + std::string(policy) +
                             "' with binding '" + std::string(policy) + "' denied request: ";
  const size_t at = message.find(denied);
  return at == std::string::npos ? message : message.substr(at + denied.size());
}

}  // namespace gnn::testing
