#include "controller/reconcile/desired.h"

#include "common/api/codec.h"
#include "common/api/enums.h"
#include "common/api/environment.h"
#include "common/api/fields.h"
#include "common/contract.h"
#include "controller/objects/quantity.h"
#include "controller/reconcile/machines.h"
#include "controller/reconcile/node_replacement.h"
#include "controller/reconcile/queue.h"
#include "controller/reconcile/servers.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gnn::reconcile {
namespace {

constexpr int64_t kDnsPort = 53;
constexpr std::array kMachines = {
    std::pair<std::string_view, std::string_view>{"kubernetes.io/arch", "amd64"},
    std::pair<std::string_view, std::string_view>{"kubernetes.io/os", "linux"},
};

using api::GnnJob;

constexpr std::string_view kConfigVolume = "gnn-config";
constexpr std::string_view kTmpVolume = "gnn-tmp";
constexpr std::string_view kSharedMemoryVolume = "gnn-shm";
// NCCL keeps its intra-node buffers in shared memory.
constexpr int64_t kSharedMemoryMiPerProcess = 512;

Labels selector_of(const GnnJob& job) {
  return {{std::string(contract::kLabelJobUid), job.metadata.uid}};
}

Labels selector_of(const GnnJob& job, std::string_view component) {
  Labels labels = selector_of(job);
  labels[std::string(contract::kLabelAppComponent)] = component;
  return labels;
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

// What every pod of the job is told. A server outlives attempts, and has none.
std::vector<api::EnvVar> environment_of_all(
    const GnnJob& job, const api::PodTemplate& chosen, std::optional<int64_t> attempt
) {
  std::vector<api::EnvVar> env = {
      literal(contract::kEnvContract, std::to_string(contract::kVersion)),
      literal(contract::kEnvJob, job.metadata.name),
      literal(contract::kEnvJobNamespace, job.metadata.namespace_),
      literal(contract::kEnvJobUid, job.metadata.uid),
  };
  if (attempt) env.push_back(literal(contract::kEnvAttempt, std::to_string(*attempt)));
  env.push_back(
      literal(contract::kEnvGraceSeconds, std::to_string(chosen.termination_grace_period_seconds))
  );
  return env;
}

void add_own_environment(std::vector<api::EnvVar>& env, const api::PodTemplate& chosen) {
  env.insert(env.end(), chosen.env.begin(), chosen.env.end());
}

// The ranks of the job, and where their agents meet.
void add_world(std::vector<api::EnvVar>& env, const GnnJob& job) {
  const api::Workers& workers = job.spec.workers;
  env.push_back(literal(contract::kEnvNnodes, std::to_string(workers.nodes)));
  env.push_back(literal(contract::kEnvNprocPerNode, std::to_string(workers.processes_per_node)));
  env.push_back(literal(contract::kEnvMasterAddr, contract::master_address(job.metadata.name)));
  env.push_back(literal(contract::kEnvMasterPort, std::to_string(contract::kStorePort)));
}

// Of the job's time-outs those that are not the defaults: agents know these, and each variable makes
// each of a pod's writes dearer.
std::vector<api::EnvVar> chosen_timeouts(const GnnJob& job) {
  const std::vector<api::EnvVar> defaults = api::timeout_environment({});
  std::vector<api::EnvVar> chosen = api::timeout_environment(timeouts_of(job));
  std::erase_if(chosen, [&](const api::EnvVar& timeout) {
    return std::ranges::find(defaults, timeout) != defaults.end();
  });
  return chosen;
}

std::vector<api::EnvVar> environment(const GnnJob& job, const PodPlace& place) {
  const api::PodTemplate& chosen = *job.spec.workers.pod_template;
  std::vector<api::EnvVar> env = environment_of_all(job, chosen, place.attempt);
  env.push_back(literal(contract::kEnvRoundsLeft, std::to_string(place.rounds_left)));
  env.push_back(literal(contract::kEnvNodeRank, std::to_string(place.node)));
  add_world(env, job);
  if (may_replace_nodes(job)) {
    env.push_back(literal(contract::kEnvNodeRestart, std::to_string(place.restart)));
  }
  std::ranges::copy(chosen_timeouts(job), std::back_inserter(env));
  const auto server_timeout = job.spec.run_policy.server_timeout_seconds;
  if (server_timeout && *server_timeout != contract::kDefaultServerSeconds) {
    env.push_back(literal(contract::kEnvServerTimeout, std::to_string(*server_timeout)));
  }
  add_own_environment(env, chosen);
  return env;
}

std::vector<api::EnvVar> environment(const GnnJob& job, const ServerPlace& place) {
  const api::PodTemplate& chosen = *job.spec.servers->pod_template;
  std::vector<api::EnvVar> env = environment_of_all(job, chosen, std::nullopt);
  env.push_back(literal(contract::kEnvServer, std::to_string(place.server)));
  env.push_back(literal(contract::kEnvServerRestart, std::to_string(place.restart)));
  add_world(env, job);
  for (const api::EnvVar& timeout : chosen_timeouts(job)) {
    const bool of_servers = timeout.name == contract::kEnvPeerTimeout ||
                            timeout.name == contract::kEnvRendezvousTimeout;
    if (of_servers) env.push_back(timeout);
  }
  add_own_environment(env, chosen);
  return env;
}

bool needs_shared_memory(const GnnJob& job) {
  return job.spec.workers.gpus_per_process > 0 && job.spec.workers.processes_per_node > 1;
}

// Where every pod has the job and may write, and the user's.
void add_volumes(objects::Pod& pod, const GnnJob& job, const api::PodTemplate& chosen) {
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

// The key that the status names, for a pod that serves data or asks for it.
void add_data_key(objects::Pod& pod, const GnnJob& job) {
  if (!serves_data(job) || !job.status.data_key_secret) return;
  const std::string& secret = *job.status.data_key_secret;
  const auto suffix = contract::suffix_of_data_key(job.metadata.name, secret);
  if (!suffix) return;
  pod.metadata.labels[std::string(contract::kLabelDataKey)] = *suffix;
  pod.spec.secret_file = {
      .volume = std::string(kConfigVolume),
      .secret = secret,
      .key = std::string(contract::kDataKeyKey),
  };
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
objects::Container container_of(const api::PodTemplate& chosen, std::string_view command) {
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
  // Each probe that fails is a Warning event: the program has loaded by then.
  probe.initial_delay_seconds = 2;
  probe.period_seconds = 2;
  probe.timeout_seconds = 2;
  container.readiness_probe = probe;
  container.termination_message_path = contract::kTerminationLog;
  // If no result was written, the end of the log says why.
  container.termination_message_policy = "FallbackToLogsOnError";
  return container;
}

objects::ContainerPort data_port() {
  return {.name = std::string(contract::kDataPortName), .container_port = contract::kDataPort};
}

objects::Container worker_container(const GnnJob& job, const PodPlace& place) {
  const api::Workers& workers = job.spec.workers;
  objects::Container container = container_of(*workers.pod_template, "agent");
  container.env = environment(job, place);
  container.ports.push_back(
      {.name = std::string(contract::kStorePortName), .container_port = contract::kStorePort}
  );
  // Where there are servers, the workers hold no data.
  if (serves_data(job) && !job.spec.servers) container.ports.push_back(data_port());
  container.resources = workers.pod_template->resources;
  const int64_t gpus = workers.gpus_per_process * workers.processes_per_node;
  if (gpus > 0) {
    container.resources.limits[workers.gpu_resource.value_or(std::string(api::kGpuResource))] =
        std::to_string(gpus);
  }
  return container;
}

objects::Container prepare_container(const GnnJob& job, int64_t attempt) {
  const api::PodTemplate& chosen = *job.spec.workers.pod_template;
  objects::Container container = container_of(chosen, "prepare");
  container.env = environment_of_all(job, chosen, attempt);
  add_own_environment(container.env, chosen);
  container.resources = job.spec.prepare->resources.value_or(chosen.resources);
  return container;
}

objects::Container server_container(const GnnJob& job, const ServerPlace& place) {
  const api::PodTemplate& chosen = *job.spec.servers->pod_template;
  objects::Container container = container_of(chosen, "server");
  container.env = environment(job, place);
  container.ports.push_back(data_port());
  container.resources = chosen.resources;
  return container;
}

// The operator's labels are there already and stay.
void add_metadata(objects::ObjectMeta& meta, const api::PodTemplate& chosen) {
  if (chosen.metadata) {
    meta.labels.insert(chosen.metadata->labels.begin(), chosen.metadata->labels.end());
    meta.annotations = chosen.metadata->annotations;
  }
  for (const auto& [key, value] : contract::kMeshOptOutLabels) meta.labels.emplace(key, value);
  for (const auto& [key, value] : contract::kMeshOptOutAnnotations) {
    meta.annotations.emplace(key, value);
  }
}

// Whether the template says on which nodes by that label.
bool selects_by(const api::PodTemplate& chosen, std::string_view label) {
  if (chosen.node_selector.contains(std::string(label))) return true;
  if (!chosen.affinity || !chosen.affinity->node_affinity) return false;
  const auto names = [&](const api::NodeSelectorTerm& term) {
    return std::ranges::find(term.match_expressions, label, &api::NodeSelectorRequirement::key) !=
           term.match_expressions.end();
  };
  const api::NodeAffinity& affinity = *chosen.affinity->node_affinity;
  return (affinity.required && std::ranges::any_of(affinity.required->node_selector_terms, names)
         ) ||
         std::ranges::any_of(affinity.preferred, names, &api::PreferredNodeTerm::preference);
}

// The user's, and the machines that the images are for unless the user says otherwise.
Labels node_selector_of(const api::PodTemplate& chosen) {
  Labels selector = chosen.node_selector;
  for (const auto& [label, value] : kMachines) {
    if (!selects_by(chosen, label)) selector.emplace(label, value);
  }
  return selector;
}

objects::PodSecurityContext security_of(const api::PodSecurity& chosen, PodUser user) {
  const auto or_default = [user](const std::optional<int64_t>& id) {
    return id || user == PodUser::OfCluster ? id : std::optional(api::kDefaultPodUser);
  };
  objects::PodSecurityContext security;
  security.run_as_user = or_default(chosen.run_as_user);
  security.run_as_group = or_default(chosen.run_as_group);
  security.fs_group = or_default(chosen.fs_group);
  if (chosen.fs_group_change_policy) {
    security.fs_group_change_policy = api::to_string(*chosen.fs_group_change_policy);
  }
  return security;
}

// Any of the job's pods, but for the labels of its role, containers and volumes.
objects::Pod pod_within_bounds(
    const GnnJob& job, const api::PodTemplate& chosen, std::string name, PodUser user
) {
  objects::Pod pod;
  pod.metadata = child_meta(job, std::move(name));
  add_metadata(pod.metadata, chosen);
  objects::PodSpec& spec = pod.spec;
  spec.subdomain = contract::child_name(job.metadata.name);
  spec.restart_policy = "Never";
  spec.termination_grace_period_seconds = chosen.termination_grace_period_seconds;
  spec.priority_class_name = chosen.priority_class_name.value_or("");
  spec.scheduler_name = chosen.scheduler_name.value_or("");
  for (const api::LocalReference& secret : chosen.image_pull_secrets) {
    spec.image_pull_secrets.push_back(secret.name);
  }
  spec.node_selector = node_selector_of(chosen);
  spec.tolerations = tolerations_of(chosen);
  spec.affinity = chosen.affinity;
  spec.security = security_of(chosen.security_context, user);
  return pod;
}

// The pod of a node, or one in the gang's place: it stays until its result has been read.
objects::Pod pod_of_gang(const GnnJob& job, std::string name, PodUser user) {
  objects::Pod pod = pod_within_bounds(job, *job.spec.workers.pod_template, std::move(name), user);
  pod.metadata.finalizers = {std::string(contract::kPodFinalizer)};
  pod.spec.avoided_node_names = avoided_machines(job);
  return pod;
}

api::ResourceList requests_of_members(const GnnJob& job, const GroupMembers& members) {
  api::ResourceList sum;
  objects::add_resources(sum, objects::requests_of(desired_pod(job, {})), members.workers);
  if (members.servers > 0) {
    objects::add_resources(sum, objects::requests_of(desired_server_pod(job, {})), members.servers);
  }
  return sum;
}

// What users say by annotations of the pods' template.
std::optional<objects::TopologyRequest> topology_of(const Labels& annotations) {
  const auto said = [&](std::string_view key) -> std::optional<std::string> {
    const auto found = annotations.find(std::string(key));
    return found == annotations.end() ? std::nullopt : std::optional(found->second);
  };
  objects::TopologyRequest request;
  request.required = said(objects::kueue::kRequiredTopology);
  if (!request.required) request.preferred = said(objects::kueue::kPreferredTopology);
  if (!request.required && !request.preferred) {
    if (said(objects::kueue::kUnconstrainedTopology) == "true") request.unconstrained = true;
  }
  return request == objects::TopologyRequest{} ? std::nullopt : std::optional(request);
}

// `pod` is one of them, without what tells it from the others.
objects::PodSet pod_set_of(objects::Pod pod, std::string_view name, int64_t count) {
  for (const std::string_view key :
       {contract::kLabelAttempt,
        contract::kLabelNode,
        contract::kLabelServer,
        contract::kLabelDataKey}) {
    pod.metadata.labels.erase(std::string(key));
  }
  pod.spec.hostname.clear();
  pod.spec.avoided_node_names.clear();
  pod.spec.secret_file.reset();
  // As the API server does with pods, so that nobody's defaults say otherwise.
  for (objects::Container& each : pod.spec.containers) {
    each.resources.requests.insert(each.resources.limits.begin(), each.resources.limits.end());
  }
  const objects::Json json = encode(pod);
  objects::PodSet pod_set;
  pod_set.name = name;
  pod_set.count = count;
  pod_set.pod_template["metadata"]["labels"] = json["metadata"]["labels"];
  if (json["metadata"].contains("annotations")) {
    pod_set.pod_template["metadata"]["annotations"] = json["metadata"]["annotations"];
  }
  pod_set.pod_template["spec"] = json["spec"];
  pod_set.requests = objects::requests_of(pod);
  pod_set.topology = topology_of(pod.metadata.annotations);
  return pod_set;
}

void spread_over_machines(objects::Pod& pod, Labels peers) {
  objects::TopologySpreadConstraint spread;
  spread.topology_key = "kubernetes.io/hostname";
  spread.when_unsatisfiable = "ScheduleAnyway";
  spread.match_labels = std::move(peers);
  pod.spec.topology_spread_constraints = {spread};
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
  return job.spec.servers ||
         (placement && (placement->topology == api::PlacementMode::Partitioned ||
                        placement->features == api::PlacementMode::Partitioned));
}

objects::ConfigMap desired_config_map(const GnnJob& job) {
  objects::ConfigMap config_map;
  config_map.metadata = child_meta(job, contract::child_name(job.metadata.name));
  config_map.data[std::string(contract::kConfigKey)] = api::worker_config(job);
  config_map.immutable = true;
  return config_map;
}

objects::Secret desired_data_key(const GnnJob& job, std::string_view suffix) {
  objects::Secret secret;
  secret.metadata = child_meta(job, contract::data_key_name(job.metadata.name, suffix));
  return secret;
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

objects::PodGroup desired_group(
    const GnnJob& job, objects::GroupApi api, int64_t attempt, const GroupMembers& members
) {
  const api::Scheduling scheduling = job.spec.scheduling.value_or(api::Scheduling{});
  const auto& policy = scheduling.scheduling_policy;
  objects::PodGroup group;
  group.api = api;
  group.metadata = child_meta(job, contract::group_name(job.metadata.name, attempt));
  if (!policy || !policy->basic) {
    group.spec.min_count = members.workers + members.servers;
    group.spec.min_resources = requests_of_members(job, members);
  }
  const auto& constraints = scheduling.scheduling_constraints;
  if (constraints && !constraints->topology.empty()) {
    group.spec.topology_key = constraints->topology.front().key;
  }
  if (const auto& mode = scheduling.disruption_mode) {
    group.spec.disruption_mode = mode->all ? "all" : "single";
  }
  if (const auto& volcano = scheduling.volcano) {
    group.spec.queue = volcano->queue.value_or("");
    if (const auto& topology = volcano->network_topology) {
      group.spec.network_topology_mode = api::to_string(topology->mode);
      group.spec.network_topology_highest_tier = topology->highest_tier_allowed;
    }
  }
  // Of the pods, which must have the same.
  group.spec.priority_class_name = job.spec.workers.pod_template->priority_class_name.value_or("");
  return group;
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

Labels identifying_labels(const GnnJob& job, const ServerPlace& place) {
  Labels labels = identifying_labels(job);
  labels[std::string(contract::kLabelServer)] = std::to_string(place.server);
  return labels;
}

objects::Pod desired_pod(const GnnJob& job, const PodPlace& place, PodUser user) {
  const api::PodTemplate& chosen = *job.spec.workers.pod_template;
  objects::Pod pod = pod_of_gang(
      job, contract::pod_name(job.metadata.name, place.attempt, place.node, place.restart), user
  );
  pod.metadata.labels.merge(identifying_labels(job, place));
  pod.spec.hostname = contract::pod_hostname(job.metadata.name, place.node);
  pod.spec.group = place.group;
  pod.spec.containers = {worker_container(job, place)};
  add_volumes(pod, job, chosen);
  add_data_key(pod, job);
  if (needs_shared_memory(job)) add_shared_memory(pod, job);
  // Servers stand in nobody's way: each role is spread for itself.
  const bool alone = !job.spec.servers;
  spread_over_machines(
      pod, alone ? selector_of(job) : selector_of(job, contract::kComponentWorker)
  );
  if (place.admission) add_to(pod, *place.admission);
  return pod;
}

objects::Pod desired_prepare_pod(
    const GnnJob& job, int64_t attempt, PodUser user, const std::optional<PodAdmission>& admission
) {
  objects::Pod pod = pod_of_gang(job, contract::prepare_pod_name(job.metadata.name, attempt), user);
  pod.metadata.labels[std::string(contract::kLabelAppComponent)] = contract::kComponentPrepare;
  pod.spec.hostname = contract::prepare_hostname(job.metadata.name);
  pod.spec.containers = {prepare_container(job, attempt)};
  add_volumes(pod, job, *job.spec.workers.pod_template);
  if (admission) add_to(pod, *admission);
  return pod;
}

objects::Pod desired_server_pod(const GnnJob& job, const ServerPlace& place, PodUser user) {
  const api::PodTemplate& chosen = *job.spec.servers->pod_template;
  objects::Pod pod = pod_within_bounds(
      job, chosen, contract::server_pod_name(job.metadata.name, place.server, place.restart), user
  );
  pod.metadata.labels[std::string(contract::kLabelAppComponent)] = contract::kComponentServer;
  pod.metadata.labels.merge(identifying_labels(job, place));
  pod.spec.hostname = contract::server_hostname(job.metadata.name, place.server);
  pod.spec.group = place.group;
  pod.spec.containers = {server_container(job, place)};
  add_volumes(pod, job, chosen);
  add_data_key(pod, job);
  spread_over_machines(pod, selector_of(job, contract::kComponentServer));
  if (place.admission) add_to(pod, *place.admission);
  return pod;
}

objects::Workload desired_workload(const GnnJob& job, std::string name, bool prepares) {
  objects::Workload workload;
  workload.metadata = child_meta(job, std::move(name));
  workload.metadata.labels[std::string(objects::kueue::kLabelJobUid)] = job.metadata.uid;
  workload.metadata.finalizers = {std::string(objects::kueue::kFinalizer)};
  if (prepares) {
    workload.pod_sets = {pod_set_of(desired_prepare_pod(job, 1), kPreparePodSet, 1)};
  } else {
    workload.pod_sets = {pod_set_of(desired_pod(job, {}), kWorkersPodSet, job.spec.workers.nodes)};
    // Kueue places the pods of a set by the number that this label gives to each.
    if (auto& topology = workload.pod_sets.front().topology) {
      topology->pod_index_label = contract::kLabelNode;
    }
  }
  if (!prepares && job.spec.servers) {
    workload.pod_sets.push_back(
        pod_set_of(desired_server_pod(job, {}), kServersPodSet, desired_servers(job))
    );
  }
  workload.pod_sets_digest = objects::digest_of(workload.pod_sets);
  return workload;
}

}  // namespace gnn::reconcile
