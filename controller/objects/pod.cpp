#include "controller/objects/pod.h"

#include "common/api/codec.h"
#include "common/contract.h"

namespace gnn::objects {
namespace {

const std::string kCoschedulingLabel = "scheduling.x-k8s.io/pod-group";
const std::string kVolcanoAnnotation = "scheduling.k8s.io/group-name";

//
// What we write

// The parts of the template come from common/api by argument-dependent lookup.

Json encode(const ContainerPort& port) {
  return Json{{"name", port.name}, {"containerPort", port.container_port}};
}

Json encode(const HttpProbe& probe) {
  return Json{
      {"httpGet", {{"path", probe.path}, {"port", probe.port}}},
      {"initialDelaySeconds", probe.initial_delay_seconds},
      {"periodSeconds", probe.period_seconds},
      {"timeoutSeconds", probe.timeout_seconds},
      {"failureThreshold", probe.failure_threshold},
  };
}

Json encode(const ContainerSecurity& security) {
  return Json{
      {"allowPrivilegeEscalation", security.allow_privilege_escalation},
      {"readOnlyRootFilesystem", security.read_only_root_filesystem},
      {"capabilities", {{"drop", security.drop_capabilities}}},
  };
}

Json encode(const PodSecurityContext& security) {
  Json json = {
      {"runAsNonRoot", security.run_as_non_root},
      {"fsGroupChangePolicy", security.fs_group_change_policy},
      {"seccompProfile", {{"type", security.seccomp_profile}}},
  };
  if (security.run_as_user) json["runAsUser"] = *security.run_as_user;
  if (security.run_as_group) json["runAsGroup"] = *security.run_as_group;
  if (security.fs_group) json["fsGroup"] = *security.fs_group;
  return json;
}

Json encode(const TopologySpreadConstraint& constraint) {
  return Json{
      {"maxSkew", constraint.max_skew},
      {"topologyKey", constraint.topology_key},
      {"whenUnsatisfiable", constraint.when_unsatisfiable},
      {"labelSelector", {{"matchLabels", constraint.match_labels}}},
  };
}

Json encode(const Container& container);

template <class T>
void put_list(Json& object, const char* member, const std::vector<T>& items) {
  for (const T& item : items) object[member].push_back(encode(item));
}

Json encode(const Container& container) {
  Json json = {{"name", container.name}, {"image", container.image}};
  put_unless_empty(json, "imagePullPolicy", container.image_pull_policy);
  put_unless_empty(json, "command", container.command);
  put_unless_empty(json, "args", container.args);
  put_list(json, "env", container.env);
  put_list(json, "ports", container.ports);
  json["resources"] = encode(container.resources);
  put_list(json, "volumeMounts", container.volume_mounts);
  if (container.readiness_probe) json["readinessProbe"] = encode(*container.readiness_probe);
  put_unless_empty(json, "terminationMessagePath", container.termination_message_path);
  put_unless_empty(json, "terminationMessagePolicy", container.termination_message_policy);
  json["securityContext"] = encode(container.security);
  return json;
}

// The terms of a node selector are alternatives, so each of them must exclude the nodes. A field's
// requirement takes a single value.
void exclude_nodes(Json& affinity, const std::vector<std::string>& names) {
  Json& selector = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
  Json& terms = selector["nodeSelectorTerms"];
  if (terms.empty()) terms.push_back(Json::object());
  for (Json& term : terms) {
    for (const std::string& name : names) {
      term["matchFields"].push_back(
          Json{{"key", "metadata.name"}, {"operator", "NotIn"}, {"values", Json::array({name})}}
      );
    }
  }
}

// The kubelet starts no container before it has both.
void join_secret(Json& volumes, const SecretFile& file) {
  for (Json& volume : volumes) {
    if (volume["name"] != file.volume) continue;
    const Json item = {{"key", file.key}, {"path", file.key}};
    const Json secret = {{"name", file.secret}, {"items", Json::array({item})}};
    const Json sources = Json::array({{{"configMap", volume["configMap"]}}, {{"secret", secret}}});
    volume.erase("configMap");
    volume["projected"]["sources"] = sources;
  }
}

Json encode(const PodSpec& spec) {
  Json json = {
      {"automountServiceAccountToken", spec.automount_service_account_token},
      {"enableServiceLinks", spec.enable_service_links},
      {"securityContext", encode(spec.security)},
  };
  put_unless_empty(json, "nodeName", spec.node_name);
  put_unless_empty(json, "hostname", spec.hostname);
  put_unless_empty(json, "subdomain", spec.subdomain);
  put_unless_empty(json, "restartPolicy", spec.restart_policy);
  if (spec.termination_grace_period_seconds) {
    json["terminationGracePeriodSeconds"] = *spec.termination_grace_period_seconds;
  }
  if (spec.active_deadline_seconds) json["activeDeadlineSeconds"] = *spec.active_deadline_seconds;
  put_unless_empty(json, "priorityClassName", spec.priority_class_name);
  put_unless_empty(json, "schedulerName", spec.scheduler_name);
  if (spec.group && spec.group->api == GroupApi::Native) {
    json["schedulingGroup"] = {{"podGroupName", spec.group->group}};
  }
  for (const std::string& gate : spec.scheduling_gates) {
    json["schedulingGates"].push_back(Json{{"name", gate}});
  }
  for (const std::string& secret : spec.image_pull_secrets) {
    json["imagePullSecrets"].push_back(Json{{"name", secret}});
  }
  put_list(json, "containers", spec.containers);
  put_list(json, "volumes", spec.volumes);
  if (spec.secret_file) join_secret(json["volumes"], *spec.secret_file);
  put_unless_empty(json, "nodeSelector", spec.node_selector);
  put_list(json, "tolerations", spec.tolerations);
  if (spec.affinity) json["affinity"] = encode(*spec.affinity);
  if (!spec.avoided_node_names.empty()) exclude_nodes(json["affinity"], spec.avoided_node_names);
  put_list(json, "topologySpreadConstraints", spec.topology_spread_constraints);
  return json;
}

//
// What we read

Result<std::optional<GroupMembership>> decode_group(const Json& json, const std::string& path) {
  GroupMembership membership;
  ObjectReader reader(json, path);
  reader.read("podGroupName", membership.group);
  return reader.finish(std::optional(std::move(membership)));
}

// Texts of a pod's status are hostile input. A kubelet writes at most 12 KiB of them.
std::string cut(std::string text) {
  constexpr size_t kMaxText = 16 << 10;
  if (text.size() > kMaxText) {
    text.resize(kMaxText);
    text.shrink_to_fit();
  }
  return text;
}

// The group that a label or an annotation names.
Result<std::optional<GroupMembership>> decode_group_in_metadata(
    const Json& json, const std::string& path
) {
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  ObjectReader reader(json, path);
  reader.read("labels", labels);
  reader.read("annotations", annotations);
  std::optional<GroupMembership> membership;
  if (const auto found = labels.find(kCoschedulingLabel); found != labels.end()) {
    membership = {.api = GroupApi::Coscheduling, .group = found->second};
  } else if (const auto named = annotations.find(kVolcanoAnnotation); named != annotations.end()) {
    membership = {.api = GroupApi::Volcano, .group = named->second};
  }
  return reader.finish(std::move(membership));
}

Result<std::string> decode_memory_limit(const Json& containers, const std::string& path) {
  const Json::json_pointer limit("/resources/limits/memory");
  if (!containers.is_array()) return fail(ErrorKind::Data, path + ": expected a list");
  for (const Json& each : containers) {
    const bool is_worker =
        each.is_object() && each.value("name", Json()) == contract::kWorkerContainer;
    if (!is_worker || !each.contains(limit) || !each[limit].is_string()) continue;
    return each[limit].get<std::string>();
  }
  return std::string();
}

Result<PodSpec> decode_spec(const Json& json, const std::string& path) {
  PodSpec spec;
  ObjectReader reader(json, path);
  reader.read("nodeName", spec.node_name);
  reader.read("terminationGracePeriodSeconds", spec.termination_grace_period_seconds);
  reader.read("activeDeadlineSeconds", spec.active_deadline_seconds);
  reader.read_with("schedulingGroup", spec.group, decode_group);
  reader.read_with("containers", spec.memory_limit, decode_memory_limit);
  return reader.finish(std::move(spec));
}

Result<PodCondition> decode_condition(const Json& json, const std::string& path) {
  PodCondition condition;
  ObjectReader reader(json, path);
  reader.read("type", condition.type);
  reader.read("status", condition.status);
  reader.read("reason", condition.reason);
  reader.read("message", condition.message);
  reader.read_with("lastTransitionTime", condition.last_transition_time, decode_time);
  condition.reason = cut(std::move(condition.reason));
  condition.message = cut(std::move(condition.message));
  return reader.finish(std::move(condition));
}

Result<std::optional<ContainerWaiting>> decode_waiting(const Json& json, const std::string& path) {
  ContainerWaiting waiting;
  ObjectReader reader(json, path);
  reader.read("reason", waiting.reason);
  reader.read("message", waiting.message);
  waiting.reason = cut(std::move(waiting.reason));
  waiting.message = cut(std::move(waiting.message));
  return reader.finish(std::optional(std::move(waiting)));
}

Result<std::optional<ContainerRunning>> decode_running(const Json& json, const std::string& path) {
  ContainerRunning running;
  ObjectReader reader(json, path);
  reader.read_with("startedAt", running.started_at, decode_time);
  return reader.finish(std::optional(running));
}

Result<std::optional<ContainerTerminated>> decode_terminated(
    const Json& json, const std::string& path
) {
  ContainerTerminated terminated;
  ObjectReader reader(json, path);
  reader.read("exitCode", terminated.exit_code);
  reader.read("signal", terminated.signal);
  reader.read("reason", terminated.reason);
  reader.read("message", terminated.message);
  reader.read_with("startedAt", terminated.started_at, decode_time);
  reader.read_with("finishedAt", terminated.finished_at, decode_time);
  terminated.reason = cut(std::move(terminated.reason));
  terminated.message = cut(std::move(terminated.message));
  return reader.finish(std::optional(std::move(terminated)));
}

Result<ContainerState> decode_state(const Json& json, const std::string& path) {
  ContainerState state;
  ObjectReader reader(json, path);
  reader.read_with("waiting", state.waiting, decode_waiting);
  reader.read_with("running", state.running, decode_running);
  reader.read_with("terminated", state.terminated, decode_terminated);
  return reader.finish(std::move(state));
}

Result<ContainerStatus> decode_container_status(const Json& json, const std::string& path) {
  ContainerStatus status;
  ObjectReader reader(json, path);
  reader.read("name", status.name);
  reader.read("ready", status.ready);
  reader.read_with("state", status.state, decode_state);
  return reader.finish(std::move(status));
}

Result<PodStatus> decode_status(const Json& json, const std::string& path) {
  PodStatus status;
  ObjectReader reader(json, path);
  reader.read("phase", status.phase);
  reader.read("reason", status.reason);
  reader.read("message", status.message);
  reader.read("podIP", status.pod_ip);
  reader.read_with("startTime", status.start_time, decode_time);
  reader.read_list("conditions", status.conditions, decode_condition);
  reader.read_list(
      "initContainerStatuses", status.init_container_statuses, decode_container_status
  );
  reader.read_list("containerStatuses", status.container_statuses, decode_container_status);
  status.reason = cut(std::move(status.reason));
  status.message = cut(std::move(status.message));
  return reader.finish(std::move(status));
}

}  // namespace

const PodCondition* find_condition(const Pod& pod, std::string_view type) {
  for (const PodCondition& condition : pod.status.conditions) {
    if (condition.type == type) return &condition;
  }
  return nullptr;
}

Result<Pod> decode_pod(const Json& json) {
  Pod pod;
  ObjectReader reader(json, "");
  reader.require("metadata");
  reader.read_with("metadata", pod.metadata, decode_meta);
  std::optional<GroupMembership> group;
  reader.read_with("metadata", group, decode_group_in_metadata);
  reader.read_with("spec", pod.spec, decode_spec);
  if (!pod.spec.group) pod.spec.group = std::move(group);
  reader.read_with("status", pod.status, decode_status);
  return reader.finish(std::move(pod));
}

Json encode(const Pod& pod) {
  Json metadata = encode(pod.metadata);
  if (const auto& group = pod.spec.group) {
    if (group->api == GroupApi::Coscheduling) metadata["labels"][kCoschedulingLabel] = group->group;
    if (group->api == GroupApi::Volcano) {
      metadata["annotations"][kVolcanoAnnotation] = group->group;
    }
  }
  return Json{
      {"apiVersion", "v1"},
      {"kind", "Pod"},
      {"metadata", std::move(metadata)},
      {"spec", encode(pod.spec)},
  };
}

}  // namespace gnn::objects
