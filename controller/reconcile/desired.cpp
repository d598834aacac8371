#include "controller/reconcile/desired.h"

#include "common/api/codec.h"
#include "common/api/enums.h"
#include "common/api/environment.h"
#include "common/api/fields.h"
#include "common/contract.h"
#include "controller/reconcile/machines.h"
#include "controller/reconcile/node_replacement.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::reconcile {
namespace {

constexpr int64_t kDnsPort = 53;

using api::GnnJob;

constexpr std::string_view kConfigVolume = "gnn-config";
constexpr std::string_view kTmpVolume = "gnn-tmp";
constexpr std::string_view kSharedMemoryVolume = "gnn-shm";
constexpr std::string_view kGpuResource = "nvidia.com/gpu";
// NCCL keeps its intra-node buffers in shared memory.
constexpr int64_t kSharedMemoryMiPerProcess = 512;

Labels selector_of(const GnnJob& job) {
  return {{std::string(contract::kLabelJobUid), job.metadata.uid}};
}

Labels labels_of(const GnnJob& job) {
  return {
      {std::string(contract::kLabelJob), job.metadata.name},
      {std::string(contract::kLabelJobUid), job.metadata.uid},
      {std::string(contract::kLabelAppName), std::string(contract::kAppName)},
      {std::string(contract::kLabelAppInstance), job.metadata.name},
      {std::string(contract::kLabelAppComponent), std::string(contract::kComponentWorker)},
      {std::string(contract::kLabelAppManagedBy), std::string(contract::kAppName)},
  };
}

objects::ObjectMeta child_meta(const GnnJob& job, std::string name) {
  objects::ObjectMeta meta;
  meta.name = std::move(name);
  meta.namespace_ = job.metadata.namespace_;
  meta.labels = labels_of(job);
  meta.owner_references.push_back({
      .api_version = std::string(contract::kApiGroupVersion),
      .kind = std::string(contract::kKind),
      .name = job.metadata.name,
      .uid = job.metadata.uid,
      .controller = true,
      .block_owner_deletion = true,
  });
  return meta;
}

api::EnvVar literal(std::string_view name, std::string value) {
  return {.name = std::string(name), .value = std::move(value)};
}

// An agent also waits while others have no place yet: they have rendezvousSeconds from the moment
// when the last one must have been placed.
api::StageTimeouts timeouts_of(const GnnJob& job) {
  api::StageTimeouts timeouts = job.spec.training.timeouts;
  timeouts.rendezvous_seconds = std::min(
      timeouts.rendezvous_seconds + job.spec.run_policy.scheduling_timeout_seconds, api::kMaxSeconds
  );
  return timeouts;
}

// What every pod of the job is told.
std::vector<api::EnvVar> environment_of_all(const GnnJob& job, int64_t attempt) {
  return {
      literal(contract::kEnvContract, std::to_string(contract::kVersion)),
      literal(contract::kEnvJob, job.metadata.name),
      literal(contract::kEnvJobNamespace, job.metadata.namespace_),
      literal(contract::kEnvJobUid, job.metadata.uid),
      literal(contract::kEnvAttempt, std::to_string(attempt)),
      literal(
          contract::kEnvGraceSeconds,
          std::to_string(job.spec.workers.pod_template->termination_grace_period_seconds)
      ),
  };
}

void add_own_environment(std::vector<api::EnvVar>& env, const GnnJob& job) {
  const std::vector<api::EnvVar>& own = job.spec.workers.pod_template->env;
  env.insert(env.end(), own.begin(), own.end());
}

std::vector<api::EnvVar> environment(const GnnJob& job, const PodPlace& place) {
  const api::Workers& workers = job.spec.workers;
  std::vector<api::EnvVar> env = environment_of_all(job, place.attempt);
  const auto set = [&env](std::string_view name, std::string value) {
    env.push_back(literal(name, std::move(value)));
  };
  set(contract::kEnvRoundsLeft, std::to_string(place.rounds_left));
  set(contract::kEnvNodeRank, std::to_string(place.node));
  set(contract::kEnvNnodes, std::to_string(workers.nodes));
  set(contract::kEnvNprocPerNode, std::to_string(workers.processes_per_node));
  set(contract::kEnvMasterAddr, contract::master_address(job.metadata.name));
  set(contract::kEnvMasterPort, std::to_string(contract::kStorePort));
  if (may_replace_nodes(job)) {
    set(contract::kEnvNodeRestart, std::to_string(place.restart));
  }
  // Agents know the defaults, and each variable makes each of a pod's writes dearer.
  const std::vector<api::EnvVar> defaults = api::timeout_environment({});
  for (const api::EnvVar& timeout : api::timeout_environment(timeouts_of(job))) {
    if (std::ranges::find(defaults, timeout) == defaults.end()) env.push_back(timeout);
  }
  add_own_environment(env, job);
  return env;
}

bool needs_shared_memory(const GnnJob& job) {
  return job.spec.workers.gpus_per_process > 0 && job.spec.workers.processes_per_node > 1;
}

// Where every pod has the job and may write, and the user's.
void add_volumes(objects::Pod& pod, const GnnJob& job) {
  const api::PodTemplate& chosen = *job.spec.workers.pod_template;
  pod.spec.volumes = {
      {.name = std::string(kConfigVolume),
       .config_map = api::ConfigMapVolume{contract::child_name(job.metadata.name)}},
      {.name = std::string(kTmpVolume), .empty_dir = api::EmptyDirVolume{}},
  };
  pod.spec.volumes.insert(pod.spec.volumes.end(), chosen.volumes.begin(), chosen.volumes.end());
  std::vector<api::VolumeMount>& mounts = pod.spec.containers.front().volume_mounts;
  mounts = {
      {.name = std::string(kConfigVolume),
       .mount_path = std::string(contract::kConfigDir),
       .read_only = true},
      {.name = std::string(kTmpVolume), .mount_path = "/tmp"},
  };
  mounts.insert(mounts.end(), chosen.volume_mounts.begin(), chosen.volume_mounts.end());
}

void add_shared_memory(objects::Pod& pod, const GnnJob& job) {
  const int64_t size = kSharedMemoryMiPerProcess * job.spec.workers.processes_per_node;
  pod.spec.volumes.push_back(
      {.name = std::string(kSharedMemoryVolume),
       .empty_dir =
           api::EmptyDirVolume{.medium = "Memory", .size_limit = std::to_string(size) + "Mi"}}
  );
  pod.spec.containers.front().volume_mounts.push_back(
      {.name = std::string(kSharedMemoryVolume), .mount_path = "/dev/shm"}
  );
}

// The user's, and 30 s for machines that do not answer unless the user says otherwise.
std::vector<api::Toleration> tolerations_of(const api::PodTemplate& pod) {
  std::vector<api::Toleration> tolerations = pod.tolerations;
  for (const char* key : {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}) {
    const bool chosen = std::any_of(
        pod.tolerations.begin(),
        pod.tolerations.end(),
        [&](const api::Toleration& toleration) { return toleration.key == key; }
    );
    if (chosen) continue;
    tolerations.push_back({
        .key = key,
        .op = "Exists",
        .effect = "NoExecute",
        .toleration_seconds = contract::kNodeLostSeconds,
    });
  }
  return tolerations;
}

// The container of any of the job's pods, but for its environment, resources and mounts.
objects::Container container_of(const GnnJob& job, std::string_view command) {
  const api::PodTemplate& chosen = *job.spec.workers.pod_template;
  objects::Container container;
  container.name = contract::kWorkerContainer;
  container.image = chosen.image;
  container.image_pull_policy = api::to_string(chosen.image_pull_policy);
  container.command = {std::string(contract::kWorkerBinary), std::string(command)};
  container.ports = {
      {.name = std::string(contract::kHttpPortName), .container_port = contract::kHttpPort},
  };
  objects::HttpProbe probe;
  probe.path = contract::kHealthPath;
  probe.port = contract::kHttpPortName;
  probe.period_seconds = 2;
  probe.timeout_seconds = 2;
  container.readiness_probe = probe;
  container.termination_message_path = contract::kTerminationLog;
  // If no result was written, the end of the log says why.
  container.termination_message_policy = "FallbackToLogsOnError";
  return container;
}

objects::Container worker_container(const GnnJob& job, const PodPlace& place) {
  const api::Workers& workers = job.spec.workers;
  objects::Container container = container_of(job, "agent");
  container.env = environment(job, place);
  container.ports.push_back(
      {.name = std::string(contract::kStorePortName), .container_port = contract::kStorePort}
  );
  if (serves_data(job)) {
    container.ports.push_back(
        {.name = std::string(contract::kDataPortName), .container_port = contract::kDataPort}
    );
  }
  container.resources = workers.pod_template->resources;
  const int64_t gpus = workers.gpus_per_process * workers.processes_per_node;
  if (gpus > 0) container.resources.limits[std::string(kGpuResource)] = std::to_string(gpus);
  return container;
}

objects::Container prepare_container(const GnnJob& job, int64_t attempt) {
  objects::Container container = container_of(job, "prepare");
  container.env = environment_of_all(job, attempt);
  add_own_environment(container.env, job);
  container.resources =
      job.spec.prepare->resources.value_or(job.spec.workers.pod_template->resources);
  return container;
}

// Any of the job's pods, but for its labels, containers and volumes.
objects::Pod pod_within_bounds(const GnnJob& job, std::string name) {
  const api::PodTemplate& chosen = *job.spec.workers.pod_template;
  objects::Pod pod;
  pod.metadata = child_meta(job, std::move(name));
  pod.metadata.finalizers = {std::string(contract::kPodFinalizer)};
  objects::PodSpec& spec = pod.spec;
  spec.subdomain = contract::child_name(job.metadata.name);
  spec.restart_policy = "Never";
  spec.termination_grace_period_seconds = chosen.termination_grace_period_seconds;
  spec.priority_class_name = chosen.priority_class_name.value_or("");
  spec.scheduler_name = chosen.scheduler_name.value_or("");
  for (const api::LocalReference& secret : chosen.image_pull_secrets) {
    spec.image_pull_secrets.push_back(secret.name);
  }
  spec.node_selector = chosen.node_selector;
  spec.tolerations = tolerations_of(chosen);
  spec.affinity = chosen.affinity;
  spec.avoided_node_names = avoided_machines(job);
  spec.security.run_as_user = chosen.security_context.run_as_user;
  spec.security.run_as_group = chosen.security_context.run_as_group;
  spec.security.fs_group = chosen.security_context.fs_group;
  return pod;
}

}  // namespace

objects::Service desired_service(const GnnJob& job) {
  objects::Service service;
  service.metadata = child_meta(job, contract::child_name(job.metadata.name));
  service.spec.cluster_ip = "None";
  service.spec.publish_not_ready_addresses = true;
  service.spec.selector = selector_of(job);
  service.spec.ports = {
      {.name = std::string(contract::kStorePortName), .port = contract::kStorePort},
      {.name = std::string(contract::kHttpPortName), .port = contract::kHttpPort},
  };
  return service;
}

bool serves_data(const GnnJob& job) {
  const auto& placement = job.spec.placement;
  return placement && (placement->topology == api::PlacementMode::Partitioned ||
                       placement->features == api::PlacementMode::Partitioned);
}

objects::ConfigMap desired_config_map(const GnnJob& job) {
  objects::ConfigMap config_map;
  config_map.metadata = child_meta(job, contract::child_name(job.metadata.name));
  config_map.data[std::string(contract::kConfigKey)] = api::worker_config(job);
  config_map.immutable = true;
  return config_map;
}

objects::NetworkPolicy desired_network_policy(const GnnJob& job, const JobFence& fence) {
  objects::NetworkPolicy policy;
  policy.metadata = child_meta(job, contract::child_name(job.metadata.name));
  policy.spec.pod_selector = selector_of(job);
  policy.spec.policy_types = {"Ingress"};
  objects::NetworkPolicyRule gang;
  gang.peers.push_back({.pod_selector = selector_of(job), .namespace_selector = std::nullopt});
  objects::NetworkPolicyRule http;
  http.peers = fence.metrics_from;
  http.ports.push_back({.protocol = "TCP", .port = contract::kHttpPort});
  policy.spec.ingress = {gang, http};
  if (!fence.egress) return policy;
  // To any destination: the cluster's resolver may be a pod or an address of the machine.
  objects::NetworkPolicyRule dns;
  dns.ports = {{.protocol = "UDP", .port = kDnsPort}, {.protocol = "TCP", .port = kDnsPort}};
  policy.spec.policy_types.emplace_back("Egress");
  policy.spec.egress = {gang, dns};
  policy.spec.egress.insert(policy.spec.egress.end(), fence.egress->begin(), fence.egress->end());
  return policy;
}

Labels identifying_labels(const GnnJob& job) {
  return {
      {std::string(contract::kLabelJob), job.metadata.name},
      {std::string(contract::kLabelJobUid), job.metadata.uid},
  };
}

Labels identifying_labels(const GnnJob& job, const PodPlace& place) {
  Labels labels = identifying_labels(job);
  labels[std::string(contract::kLabelAttempt)] = std::to_string(place.attempt);
  labels[std::string(contract::kLabelNode)] = std::to_string(place.node);
  if (place.restart > 0) {
    labels[std::string(contract::kLabelNodeRestart)] = std::to_string(place.restart);
  }
  return labels;
}

objects::Pod desired_pod(const GnnJob& job, const PodPlace& place) {
  objects::Pod pod = pod_within_bounds(
      job, contract::pod_name(job.metadata.name, place.attempt, place.node, place.restart)
  );
  pod.metadata.labels.merge(identifying_labels(job, place));
  pod.spec.hostname = contract::pod_hostname(job.metadata.name, place.node);
  pod.spec.containers = {worker_container(job, place)};
  add_volumes(pod, job);
  if (needs_shared_memory(job)) add_shared_memory(pod, job);
  objects::TopologySpreadConstraint spread;
  spread.topology_key = "kubernetes.io/hostname";
  spread.when_unsatisfiable = "ScheduleAnyway";
  spread.match_labels = selector_of(job);
  pod.spec.topology_spread_constraints = {spread};
  return pod;
}

objects::Pod desired_prepare_pod(const GnnJob& job, int64_t attempt) {
  objects::Pod pod = pod_within_bounds(job, contract::prepare_pod_name(job.metadata.name, attempt));
  pod.metadata.labels[std::string(contract::kLabelAppComponent)] = contract::kComponentPrepare;
  pod.spec.hostname = contract::prepare_hostname(job.metadata.name);
  pod.spec.containers = {prepare_container(job, attempt)};
  add_volumes(pod, job);
  return pod;
}

}  // namespace gnn::reconcile
