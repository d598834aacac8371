#include "controller/reconcile/desired.h"

#include "common/api/codec.h"
#include "common/contract.h"
#include "tests/controller/reconcile/builders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace gnn::reconcile {
namespace {

TEST(Desired, PodCarriesTheContract) {
  api::GnnJob job = small_job(3);
  job.spec.workers.processes_per_node = 2;
  const objects::Pod pod = desired_pod(job, {.attempt = 4, .node = 1, .rounds_left = 2});
  EXPECT_EQ(pod.metadata.name, "arxiv-4-1");
  EXPECT_EQ(pod.spec.hostname, "arxiv-1");
  EXPECT_EQ(pod.spec.subdomain, "arxiv-gnn");
  EXPECT_EQ(pod.spec.restart_policy, "Never");
  EXPECT_EQ(env_of(pod, "GNN_CONTRACT"), "1");
  EXPECT_EQ(env_of(pod, "GNN_JOB"), "arxiv");
  EXPECT_EQ(env_of(pod, "GNN_JOB_NAMESPACE"), "train");
  EXPECT_EQ(env_of(pod, "GNN_JOB_UID"), job.metadata.uid);
  EXPECT_EQ(env_of(pod, "GNN_ATTEMPT"), "4");
  EXPECT_EQ(env_of(pod, "GNN_ROUNDS_LEFT"), "2");
  EXPECT_EQ(env_of(pod, "GNN_NODE_RANK"), "1");
  EXPECT_EQ(env_of(pod, "GNN_NNODES"), "3");
  EXPECT_EQ(env_of(pod, "GNN_NPROC_PER_NODE"), "2");
  EXPECT_EQ(env_of(pod, "GNN_GRACE_SECONDS"), "120");
  EXPECT_EQ(env_of(pod, "GNN_RENDEZVOUS_TIMEOUT"), "1200") << "it outlasts the placement";
  EXPECT_EQ(env_of(pod, "MASTER_ADDR"), "arxiv-0.arxiv-gnn");
  EXPECT_EQ(env_of(pod, "MASTER_PORT"), "29400");
  EXPECT_EQ(pod.metadata.labels.at("gnn.dev/attempt"), "4");
  EXPECT_EQ(pod.metadata.labels.at("gnn.dev/node"), "1");
  EXPECT_EQ(pod.metadata.labels.at("gnn.dev/job-uid"), job.metadata.uid);
  EXPECT_EQ(pod.metadata.finalizers, std::vector<std::string>{"gnn.dev/result"});
}

TEST(Desired, PodsHaveTheTimeoutsThatAreNotTheContractsDefaults) {
  const auto names_of = [](const api::GnnJob& job) {
    const objects::Pod pod = desired_pod(job, {.attempt = 1, .node = 0, .rounds_left = 0});
    std::vector<std::string> names;
    for (const api::EnvVar& variable : pod.spec.containers.at(0).env) {
      if (variable.name.ends_with("_TIMEOUT")) names.push_back(variable.name);
    }
    return names;
  };
  api::GnnJob job = small_job();
  EXPECT_EQ(names_of(job), (std::vector<std::string>{"GNN_RENDEZVOUS_TIMEOUT"}));
  job.spec.training.timeouts.setup_seconds = 7200;
  job.spec.training.timeouts.peer_seconds = 30;
  const objects::Pod pod = desired_pod(job, {.attempt = 1, .node = 0, .rounds_left = 0});
  EXPECT_EQ(env_of(pod, "GNN_SETUP_TIMEOUT"), "7200");
  EXPECT_EQ(env_of(pod, "GNN_PEER_TIMEOUT"), "30");
  EXPECT_EQ(env_of(pod, "GNN_COLLECTIVE_TIMEOUT"), "7260") << "it outlasts the longest stage";
}

TEST(Desired, EveryChildIsOwnedByTheJob) {
  const api::GnnJob job = small_job();
  for (const objects::ObjectMeta& meta :
       {desired_pod(job, {.attempt = 1, .node = 0, .rounds_left = 0}).metadata,
        desired_service(job).metadata,
        desired_config_map(job).metadata,
        desired_network_policy(job).metadata}) {
    const objects::OwnerReference* owner = objects::controller_of(meta);
    ASSERT_NE(owner, nullptr) << meta.name;
    EXPECT_EQ(owner->uid, job.metadata.uid);
    EXPECT_TRUE(owner->block_owner_deletion);
    EXPECT_EQ(meta.namespace_, "train");
  }
}

TEST(Desired, PodsOfEachRoleCarryTheMetadataOfTheirTemplateBesideOurs) {
  api::GnnJob job = job_with_servers();
  job.spec.prepare = api::sample_prepare_job().spec.prepare;
  const objects::ConfigMap config = desired_config_map(job);
  const std::string ours = "app.kubernetes.io/managed-by";
  job.spec.workers.pod_template->metadata = {
      .labels = {{"team", "graphs"}, {ours, "else"}}, .annotations = {{"note", "a"}}
  };
  for (const objects::Pod& pod :
       {desired_pod(job, {.attempt = 1, .node = 0}), desired_prepare_pod(job, 1)}) {
    EXPECT_EQ(pod.metadata.labels.at("team"), "graphs");
    EXPECT_EQ(pod.metadata.labels.at(ours), "gnn-operator");
    EXPECT_EQ(pod.metadata.labels.at("sidecar.istio.io/inject"), "false");
    EXPECT_EQ(pod.metadata.annotations.at("note"), "a");
  }
  job.spec.servers->pod_template->metadata = {.labels = {{"sidecar.istio.io/inject", "true"}}};
  const objects::ObjectMeta server = desired_server_pod(job, {}).metadata;
  EXPECT_EQ(server.labels.at("sidecar.istio.io/inject"), "true");
  EXPECT_FALSE(server.labels.contains("team"));
  EXPECT_FALSE(server.annotations.contains("note"));
  EXPECT_EQ(desired_config_map(job), config) << "what runs reads the same configuration";
}

TEST(Desired, PodsTakePartInNoServiceMeshUnlessTheJobSaysOtherwise) {
  api::GnnJob job = job_with_servers();
  job.spec.prepare.emplace();
  for (const objects::Pod& pod :
       {desired_pod(job, {}), desired_server_pod(job, {}), desired_prepare_pod(job, 1)}) {
    const objects::ObjectMeta& meta = pod.metadata;
    EXPECT_EQ(meta.labels.at("sidecar.istio.io/inject"), "false");
    EXPECT_EQ(meta.labels.at("istio.io/dataplane-mode"), "none");
    EXPECT_EQ(meta.labels.at("kuma.io/sidecar-injection"), "disabled");
    EXPECT_EQ(meta.annotations.at("linkerd.io/inject"), "disabled");
  }
  const api::AllowedKeys allowed;
  job.spec.workers.pod_template->metadata.emplace();
  api::PodMetadata& own = *job.spec.workers.pod_template->metadata;
  for (const auto& [key, value] : contract::kMeshOptOutLabels) {
    EXPECT_TRUE(allowed.contains(key)) << key;
    own.labels[std::string(key)] = "enabled";
  }
  for (const auto& [key, value] : contract::kMeshOptOutAnnotations) {
    EXPECT_TRUE(allowed.contains(key)) << key;
    own.annotations[std::string(key)] = "enabled";
  }
  const objects::ObjectMeta meta = desired_pod(job, {}).metadata;
  for (const auto& [key, value] : own.labels) EXPECT_EQ(meta.labels.at(key), value);
  EXPECT_EQ(meta.annotations, own.annotations);
}

TEST(Desired, PodsGoToTheMachinesOfTheImagesUnlessTheJobNamesOthers) {
  const Labels ours = {{"kubernetes.io/arch", "amd64"}, {"kubernetes.io/os", "linux"}};
  api::GnnJob job = job_with_servers();
  job.spec.prepare.emplace();
  for (const objects::Pod& pod :
       {desired_pod(job, {}), desired_server_pod(job, {}), desired_prepare_pod(job, 1)}) {
    EXPECT_EQ(pod.spec.node_selector, ours);
  }
  api::PodTemplate& chosen = *job.spec.workers.pod_template;
  chosen.node_selector = {{"kubernetes.io/arch", "arm64"}, {"pool", "a"}};
  EXPECT_EQ(
      desired_pod(job, {}).spec.node_selector,
      (Labels{{"kubernetes.io/arch", "arm64"}, {"kubernetes.io/os", "linux"}, {"pool", "a"}})
  );
  chosen.node_selector.clear();
  const api::NodeSelectorTerm arm{
      .match_expressions = {{.key = "kubernetes.io/arch", .op = "In", .values = {"arm64"}}}
  };
  const Labels only_os = {{"kubernetes.io/os", "linux"}};
  chosen.affinity = api::Affinity{
      .node_affinity = api::NodeAffinity{.required = api::NodeSelector{{arm}}, .preferred = {}}
  };
  EXPECT_EQ(desired_pod(job, {}).spec.node_selector, only_os);
  chosen.affinity->node_affinity =
      api::NodeAffinity{.required = {}, .preferred = {{.weight = 1, .preference = arm}}};
  EXPECT_EQ(desired_pod(job, {}).spec.node_selector, only_os);
}

TEST(Desired, PodIsWithinPodSecurityRestricted) {
  const objects::Json json =
      encode(desired_pod(small_job(), {.attempt = 1, .node = 0, .rounds_left = 0}));
  const objects::Json& spec = json["spec"];
  EXPECT_EQ(spec["automountServiceAccountToken"], false);
  EXPECT_EQ(spec["enableServiceLinks"], false);
  EXPECT_FALSE(spec.contains("serviceAccountName"));
  EXPECT_EQ(spec["securityContext"]["runAsNonRoot"], true);
  EXPECT_EQ(spec["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
  const objects::Json& container = spec["containers"][0];
  EXPECT_EQ(container["securityContext"]["allowPrivilegeEscalation"], false);
  EXPECT_EQ(container["securityContext"]["capabilities"]["drop"], objects::Json({"ALL"}));
  EXPECT_EQ(container["securityContext"]["readOnlyRootFilesystem"], true);
  for (const char* field : {"hostNetwork", "hostPID", "hostIPC"})
    EXPECT_FALSE(spec.contains(field));
}

// Of a large volume that has the group already, each start would walk all files.
TEST(Desired, AVolumeIsGivenToTheGroupOnlyWhereItsRootIsNot) {
  api::GnnJob job = small_job();
  const auto policy_of = [&] {
    return encode(desired_pod(job, {}))["spec"]["securityContext"]["fsGroupChangePolicy"];
  };
  EXPECT_EQ(policy_of(), "OnRootMismatch");
  job.spec.workers.pod_template->security_context.fs_group_change_policy =
      api::FsGroupChangePolicy::Always;
  EXPECT_EQ(policy_of(), "Always");
}

TEST(Desired, UserAndGroupsAreTheJobsElseTheImagesOrTheClusters) {
  api::GnnJob job = small_job();
  job.spec.workers.pod_template->security_context.run_as_group = 7;
  const auto ids_of = [&](PodUser user) {
    objects::Json context = encode(desired_pod(job, {}, user))["spec"]["securityContext"];
    EXPECT_EQ(context["runAsNonRoot"], true);
    for (const char* field : {"runAsNonRoot", "seccompProfile", "fsGroupChangePolicy"}) {
      context.erase(field);
    }
    return context;
  };
  EXPECT_EQ(
      ids_of(PodUser::OfImages),
      (objects::Json{{"runAsUser", 65532}, {"runAsGroup", 7}, {"fsGroup", 65532}})
  );
  EXPECT_EQ(ids_of(PodUser::OfCluster), (objects::Json{{"runAsGroup", 7}}));
}

TEST(Desired, ToleratesASilentMachineForThirtySeconds) {
  const objects::Pod pod = desired_pod(small_job(), {.attempt = 1, .node = 0, .rounds_left = 0});
  ASSERT_EQ(pod.spec.tolerations.size(), 2U);
  EXPECT_EQ(pod.spec.tolerations[0].key, "node.kubernetes.io/not-ready");
  EXPECT_EQ(pod.spec.tolerations[1].key, "node.kubernetes.io/unreachable");
  EXPECT_EQ(pod.spec.tolerations[0].toleration_seconds, 30);

  api::GnnJob chosen = small_job();
  chosen.spec.workers.pod_template->tolerations = {
      {.key = "node.kubernetes.io/unreachable", .op = "Exists", .toleration_seconds = 5}
  };
  EXPECT_EQ(
      desired_pod(chosen, {.attempt = 1, .node = 0, .rounds_left = 0}).spec.tolerations.size(), 2U
  );
}

TEST(Desired, RequestsGpusAndSharedMemoryPerProcess) {
  api::GnnJob job = small_job();
  EXPECT_TRUE(desired_pod(job, {.attempt = 1, .node = 0, .rounds_left = 0})
                  .spec.containers[0]
                  .resources.limits.empty());
  job.spec.workers.gpus_per_process = 1;
  job.spec.workers.processes_per_node = 4;
  const objects::Pod pod = desired_pod(job, {.attempt = 1, .node = 0, .rounds_left = 0});
  EXPECT_EQ(pod.spec.containers[0].resources.limits.at("nvidia.com/gpu"), "4");
  const auto& mounts = pod.spec.containers[0].volume_mounts;
  EXPECT_TRUE(std::any_of(mounts.begin(), mounts.end(), [](const api::VolumeMount& mount) {
    return mount.mount_path == "/dev/shm";
  }));
}

TEST(Desired, RequestsTheSliceOfAGpuThatAJobNames) {
  api::GnnJob job = small_job();
  job.spec.workers.gpus_per_process = 1;
  job.spec.workers.processes_per_node = 1;
  job.spec.workers.gpu_resource = "nvidia.com/mig-1g.10gb";
  EXPECT_EQ(
      desired_pod(job, {.attempt = 1, .node = 0, .rounds_left = 0})
          .spec.containers[0]
          .resources.limits,
      (api::ResourceList{{"nvidia.com/mig-1g.10gb", "1"}})
  );
}

TEST(Desired, ServicePublishesPodsThatAreNotReady) {
  const objects::Service service = desired_service(small_job());
  EXPECT_EQ(service.metadata.name, "arxiv-gnn");
  EXPECT_EQ(service.spec.cluster_ip, "None");
  EXPECT_TRUE(service.spec.publish_not_ready_addresses);
  EXPECT_EQ(service.spec.selector.at("gnn.dev/job-uid"), small_job().metadata.uid);
}

TEST(Desired, NetworkPolicyAdmitsTheGangAndTheHttpPort) {
  const objects::NetworkPolicy policy = desired_network_policy(small_job());
  ASSERT_EQ(policy.spec.ingress.size(), 2U);
  ASSERT_EQ(policy.spec.ingress[0].peers.size(), 1U);
  EXPECT_EQ(policy.spec.ingress[0].peers[0].pod_selector, policy.spec.pod_selector);
  EXPECT_TRUE(policy.spec.ingress[0].ports.empty());
  EXPECT_TRUE(policy.spec.ingress[1].peers.empty());
  ASSERT_EQ(policy.spec.ingress[1].ports.size(), 1U);
  EXPECT_EQ(policy.spec.ingress[1].ports[0].port, contract::kHttpPort);
}

TEST(Desired, FenceLimitsMetricsReadersAndEgress) {
  const objects::NetworkPolicyPeer monitoring{
      .pod_selector = {},
      .namespace_selector = objects::MatchLabels{{"kubernetes.io/metadata.name", "monitoring"}}
  };
  const objects::NetworkPolicyRule storage{
      .peers = {{.pod_selector = {}, .namespace_selector = {}, .ip_block = {{"10.1.0.0/16", {}}}}},
      .ports = {}
  };
  EXPECT_EQ(
      desired_network_policy(small_job()).spec.policy_types, std::vector<std::string>{"Ingress"}
  );
  const JobFence fence{.metrics_from = {monitoring}, .egress = {{storage}}};
  const objects::NetworkPolicySpec spec = desired_network_policy(small_job(), fence).spec;
  EXPECT_EQ(spec.policy_types, (std::vector<std::string>{"Ingress", "Egress"}));
  EXPECT_EQ(spec.ingress.at(1).peers, fence.metrics_from);
  ASSERT_EQ(spec.egress.size(), 3U);
  EXPECT_EQ(spec.egress[0].peers.at(0).pod_selector, spec.pod_selector);
  EXPECT_TRUE(spec.egress[1].peers.empty());
  EXPECT_EQ(spec.egress[1].ports.size(), 2U);
  EXPECT_EQ(spec.egress[2], storage);
}

TEST(Desired, OnlyAJobWhoseNodesServeDataHasADataKeyAndItsPort) {
  const auto ports_and_key = [](const api::GnnJob& job) {
    api::GnnJob recorded = job;
    recorded.status.data_key_secret = contract::data_key_name("arxiv", std::string(32, 'a'));
    std::set<std::string> names;
    const objects::Pod pod = desired_pod(recorded, {});
    for (const auto& port : pod.spec.containers[0].ports) names.insert(port.name);
    return std::pair(names, pod.spec.secret_file.has_value());
  };
  using Names = std::set<std::string>;
  api::GnnJob job = small_job();
  EXPECT_EQ(ports_and_key(job), std::pair(Names({"http", "store"}), false));
  job.spec.dataset = api::sample_partitioned_job().spec.dataset;
  job.spec.placement = api::Placement{.partitions = 2};
  EXPECT_EQ(ports_and_key(job), std::pair(Names({"http", "store"}), false));
  job.spec.placement->features = api::PlacementMode::Partitioned;
  EXPECT_EQ(ports_and_key(job), std::pair(Names({"data", "http", "store"}), true));
  // Nobody but the job's pods may connect to it.
  for (const api::GnnJob& each : {job, job_with_servers()}) {
    for (const auto& rule : desired_network_policy(each).spec.ingress) {
      for (const auto& port : rule.ports) EXPECT_EQ(port.port, contract::kHttpPort);
      if (!rule.ports.empty()) continue;
      ASSERT_EQ(rule.peers.size(), 1U);
      EXPECT_EQ(rule.peers[0].pod_selector->at("gnn.dev/job-uid"), job.metadata.uid);
      EXPECT_FALSE(rule.peers[0].namespace_selector);
    }
  }
}

TEST(Desired, AServersPodIsNoneOfTheGang) {
  api::GnnJob job = job_with_servers();
  job.spec.servers->pod_template->node_selector = {{"pool", "cpu"}};
  api::PodTemplate& of_workers = *job.spec.workers.pod_template;
  of_workers.tolerations = {{.key = "gpu", .op = "Exists"}};
  of_workers.priority_class_name = "training";
  of_workers.volumes = {{.name = "scratch", .empty_dir = api::EmptyDirVolume{}}};
  job.spec.run_policy.failure_policy.max_restarts_per_node = 0;
  job.status.machines = {{.name = "gpu-1", .restarts = 1}};
  job.spec.servers->pod_template->resources.requests = {{"cpu", "4"}};
  job.spec.training.timeouts.peer_seconds = 30;
  job.spec.training.timeouts.setup_seconds = 7200;
  const objects::Pod pod = desired_server_pod(job, {.server = 1, .restart = 2});
  EXPECT_EQ(pod.metadata.name, "arxiv-s1-2");
  EXPECT_EQ(pod.spec.hostname, "arxiv-s1");
  EXPECT_EQ(pod.spec.subdomain, "arxiv-gnn");
  EXPECT_EQ(pod.metadata.labels.at("gnn.dev/server"), "1");
  EXPECT_EQ(pod.metadata.labels.at("gnn.dev/job-uid"), job.metadata.uid);
  EXPECT_EQ(pod.metadata.labels.at("app.kubernetes.io/component"), "server");
  EXPECT_FALSE(pod.metadata.labels.contains("gnn.dev/attempt"));
  EXPECT_FALSE(pod.metadata.labels.contains("gnn.dev/node"));
  EXPECT_TRUE(pod.metadata.finalizers.empty());
  EXPECT_EQ(
      pod.spec.containers[0].command,
      (std::vector<std::string>{"/usr/local/bin/gnn-worker", "server"})
  );
  EXPECT_EQ(env_of(pod, "GNN_SERVER"), "1");
  EXPECT_EQ(env_of(pod, "GNN_SERVER_RESTART"), "2");
  EXPECT_EQ(env_of(pod, "GNN_NNODES"), "2");
  EXPECT_EQ(env_of(pod, "GNN_NPROC_PER_NODE"), "1");
  EXPECT_EQ(env_of(pod, "MASTER_ADDR"), "arxiv-0.arxiv-gnn");
  EXPECT_EQ(env_of(pod, "GNN_PEER_TIMEOUT"), "30");
  EXPECT_EQ(env_of(pod, "GNN_SETUP_TIMEOUT"), "(absent)");
  EXPECT_EQ(env_of(pod, "GNN_ATTEMPT"), "(absent)");
  EXPECT_EQ(pod.spec.node_selector.at("pool"), "cpu");
  EXPECT_EQ(pod.spec.containers[0].resources.requests.at("cpu"), "4");
  std::set<std::string> ports;
  for (const auto& port : pod.spec.containers[0].ports) ports.insert(port.name);
  EXPECT_EQ(ports, (std::set<std::string>{"data", "http"}));
  // Both roles have one service and one fence, and each its own machines.
  EXPECT_EQ(desired_network_policy(job).spec.pod_selector, desired_service(job).spec.selector);
  EXPECT_EQ(
      pod.metadata.labels.at("gnn.dev/job-uid"),
      desired_service(job).spec.selector.at("gnn.dev/job-uid")
  );
  const objects::Pod worker = desired_pod(job, {.attempt = 1, .node = 0, .rounds_left = 0});
  EXPECT_FALSE(worker.spec.node_selector.contains("pool"));
  EXPECT_EQ(worker.spec.tolerations.size(), 3U);
  EXPECT_EQ(pod.spec.tolerations.size(), 2U) << "a silent machine's";
  EXPECT_EQ(pod.spec.priority_class_name, "");
  EXPECT_TRUE(std::ranges::none_of(pod.spec.volumes, [](const api::Volume& volume) {
    return volume.name == "scratch";
  }));
  EXPECT_EQ(worker.spec.avoided_node_names.size(), 1U);
  EXPECT_TRUE(pod.spec.avoided_node_names.empty());
  EXPECT_EQ(env_of(worker, "GNN_SERVER"), "(absent)");
  EXPECT_NE(
      worker.spec.topology_spread_constraints[0].match_labels,
      pod.spec.topology_spread_constraints[0].match_labels
  );
  EXPECT_EQ(env_of(worker, "GNN_SERVER_TIMEOUT"), "(absent)") << "the default";
  job.spec.run_policy.server_timeout_seconds = 60;
  EXPECT_EQ(
      env_of(desired_pod(job, {.attempt = 1, .node = 0, .rounds_left = 0}), "GNN_SERVER_TIMEOUT"),
      "60"
  );
}

// A probe that fails makes a Warning event, also of a pod that starts in good order.
TEST(Desired, ProbesBeginOnceTheProgramHasLoaded) {
  const objects::Pod pod = desired_pod(small_job(), {.attempt = 1, .node = 0, .rounds_left = 0});
  const auto& probe = pod.spec.containers.front().readiness_probe;
  ASSERT_TRUE(probe);
  EXPECT_EQ(probe->initial_delay_seconds, 2);
}

TEST(Desired, ConfigMapHoldsWhatTheWorkerReads) {
  const api::GnnJob job = small_job();
  const objects::ConfigMap config_map = desired_config_map(job);
  EXPECT_TRUE(config_map.immutable);
  const auto read = api::parse_job_yaml(
      config_map.data.at(std::string(contract::kConfigKey)), api::UnknownFields::Reject
  );
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->spec.training, job.spec.training);
  EXPECT_FALSE(read->spec.workers.pod_template);
}

TEST(Desired, TheLongestNameStillMakesDnsLabels) {
  api::GnnJob job = small_job(1024);
  job.metadata.name = std::string(40, 'a');
  const objects::Pod pod = desired_pod(job, {.attempt = 999999, .node = 1023, .rounds_left = 0});
  EXPECT_LE(pod.metadata.name.size(), 63U);
  EXPECT_LE(pod.spec.hostname.size(), 63U);
  EXPECT_LE(pod.spec.subdomain.size(), 63U);
}

}  // namespace
}  // namespace gnn::reconcile
