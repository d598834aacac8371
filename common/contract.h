#pragma once

#include "common/result.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// The names that the controller, the worker, the chart and the dashboards agree on.
/// docs/worker-contract.md describes the protocol around them; tests hold the two together.
namespace gnn::contract {

/// Version of the contract, in GNN_CONTRACT. A worker refuses any other with a configuration error.
inline constexpr int kVersion = 1;

// ---- API
inline constexpr std::string_view kApiGroup = "gnn.dev";
inline constexpr std::string_view kApiVersion = "v1alpha1";
inline constexpr std::string_view kApiGroupVersion = "gnn.dev/v1alpha1";
inline constexpr std::string_view kKind = "GNNJob";
inline constexpr std::string_view kPlural = "gnnjobs";
/// Our value of spec.managedBy and of the managed-by label.
inline constexpr std::string_view kManagedBy = "gnn.dev/gnn-controller";
/// Longest job name: pod names append "-<attempt>-<node>-r<restart>", or "-s<server>-<restart>", and
/// must remain DNS labels.
inline constexpr int64_t kMaxJobNameLength = 40;

// ---- Labels, finalizers
/// Name of the GNNJob that a child belongs to.
inline constexpr std::string_view kLabelJob = "gnn.dev/job";
/// UID of that GNNJob; a job created again under the same name has another one.
inline constexpr std::string_view kLabelJobUid = "gnn.dev/job-uid";
/// Attempt that a pod belongs to, decimal.
inline constexpr std::string_view kLabelAttempt = "gnn.dev/attempt";
/// Node rank of a pod inside its job, decimal from 0.
inline constexpr std::string_view kLabelNode = "gnn.dev/node";
/// How often this node's pod was replaced before in this attempt, decimal from 1; the first pod of a
/// node has no such label.
inline constexpr std::string_view kLabelNodeRestart = "gnn.dev/node-restart";
/// Number of a sampling server inside its job, decimal from 0. Its pods have no label of an attempt or
/// a node.
inline constexpr std::string_view kLabelServer = "gnn.dev/server";
/// Which data key a pod has: the random part of its Secret's name. Pods without one have no such label.
inline constexpr std::string_view kLabelDataKey = "gnn.dev/data-key";
inline constexpr std::string_view kLabelAppName = "app.kubernetes.io/name";
inline constexpr std::string_view kLabelAppInstance = "app.kubernetes.io/instance";
inline constexpr std::string_view kLabelAppComponent = "app.kubernetes.io/component";
inline constexpr std::string_view kLabelAppManagedBy = "app.kubernetes.io/managed-by";
/// What every pod has unless the job says otherwise, so that no service mesh takes part in it. A sidecar
/// would outlive the worker, and meshes do not carry what ranks say to each other.
struct MeshOptOut {
  std::string_view key;
  std::string_view value;
};
inline constexpr std::array kMeshOptOutLabels = {
    MeshOptOut{"sidecar.istio.io/inject", "false"},
    MeshOptOut{"istio.io/dataplane-mode", "none"},
    MeshOptOut{"kuma.io/sidecar-injection", "disabled"},
};
inline constexpr std::array kMeshOptOutAnnotations = {MeshOptOut{"linkerd.io/inject", "disabled"}};
inline constexpr std::string_view kAppName = "gnn-operator";
inline constexpr std::string_view kComponentWorker = "worker";
/// Of the pod that makes the job's data before its gang starts.
inline constexpr std::string_view kComponentPrepare = "prepare";
/// Of the pods of sampling servers.
inline constexpr std::string_view kComponentServer = "server";
/// Keeps a finished pod until the controller has read its result.
inline constexpr std::string_view kPodFinalizer = "gnn.dev/result";
/// Kubernetes' own, of an object that is deleted alone: what it owns stays (--cascade=orphan).
inline constexpr std::string_view kOrphanFinalizer = "orphan";

// ---- Environment of the agent (set by the controller)
inline constexpr std::string_view kEnvContract = "GNN_CONTRACT";
inline constexpr std::string_view kEnvJob = "GNN_JOB";
inline constexpr std::string_view kEnvJobNamespace = "GNN_JOB_NAMESPACE";
inline constexpr std::string_view kEnvJobUid = "GNN_JOB_UID";
inline constexpr std::string_view kEnvAttempt = "GNN_ATTEMPT";
/// In-place restarts that this attempt may still use; fixed when the pods are created.
inline constexpr std::string_view kEnvRoundsLeft = "GNN_ROUNDS_LEFT";
inline constexpr std::string_view kEnvNodeRank = "GNN_NODE_RANK";
/// How often this node's pod was replaced before in this attempt, from 0. Set only where the
/// controller may replace a lost node's pod alone; an agent that does not know it may ignore it.
inline constexpr std::string_view kEnvNodeRestart = "GNN_NODE_RESTART";
/// Number of the sampling server that runs in this pod, from 0. Set in the pods of servers alone.
inline constexpr std::string_view kEnvServer = "GNN_SERVER";
/// How many pods this server had before, from 0; of two of them the one with the larger number holds.
inline constexpr std::string_view kEnvServerRestart = "GNN_SERVER_RESTART";
inline constexpr std::string_view kEnvNnodes = "GNN_NNODES";
inline constexpr std::string_view kEnvNprocPerNode = "GNN_NPROC_PER_NODE";
/// Seconds between SIGTERM and SIGKILL of the pod (terminationGracePeriodSeconds).
inline constexpr std::string_view kEnvGraceSeconds = "GNN_GRACE_SECONDS";
/// File with the job's spec (YAML); default kConfigFile.
inline constexpr std::string_view kEnvConfig = "GNN_CONFIG";
/// File for the final result; default kTerminationLog.
inline constexpr std::string_view kEnvTerminationLog = "GNN_TERMINATION_LOG";
/// host:port that the agent's HTTP server listens on; default ":9400".
inline constexpr std::string_view kEnvHttpAddress = "GNN_HTTP_ADDRESS";
/// host:port on which local rank 0 serves the node's partition of the data; default ":29600".
inline constexpr std::string_view kEnvDataAddress = "GNN_DATA_ADDRESS";
/// File with the job's data key, 64 hexadecimal digits; default kDataKeyFile.
inline constexpr std::string_view kEnvDataKeyFile = "GNN_DATA_KEY_FILE";
inline constexpr std::string_view kEnvMasterAddr = "MASTER_ADDR";
inline constexpr std::string_view kEnvMasterPort = "MASTER_PORT";

// ---- Environment of a rank (set by the agent; torchrun's names)
inline constexpr std::string_view kEnvRank = "RANK";
inline constexpr std::string_view kEnvLocalRank = "LOCAL_RANK";
inline constexpr std::string_view kEnvWorldSize = "WORLD_SIZE";
inline constexpr std::string_view kEnvLocalWorldSize = "LOCAL_WORLD_SIZE";
inline constexpr std::string_view kEnvGroupRank = "GROUP_RANK";
/// In-place restart number inside the attempt, from 0.
inline constexpr std::string_view kEnvRound = "GNN_ROUND";
/// Unix socket on which a rank reports to its agent: "fd:<number>", inherited.
inline constexpr std::string_view kEnvAgentSocket = "GNN_AGENT_SOCKET";
/// CPUs that a rank may keep busy: its share of the pod's CPU limit.
inline constexpr std::string_view kEnvRankCpus = "GNN_RANK_CPUS";
/// Version of the data that a rank of this node has found right in an earlier round; empty if none.
inline constexpr std::string_view kEnvCheckedData = "GNN_CHECKED_DATA";

// ---- Time-outs of agent and ranks, in whole seconds
// Their defaults stand here alone: those of spec.training.timeouts, which a job's agents are told,
// and those of an agent that is told nothing.

/// Longest wait of an agent for all other agents of its attempt.
inline constexpr std::string_view kEnvRendezvousTimeout = "GNN_RENDEZVOUS_TIMEOUT";
inline constexpr int64_t kDefaultRendezvousSeconds = 600;
/// Silence after which another agent, or the store, counts as lost.
inline constexpr std::string_view kEnvPeerTimeout = "GNN_PEER_TIMEOUT";
inline constexpr int64_t kDefaultPeerSeconds = 10;
/// Silence after which an agent considers one of its ranks stopped.
inline constexpr std::string_view kEnvHeartbeatTimeout = "GNN_HEARTBEAT_TIMEOUT";
inline constexpr int64_t kDefaultHeartbeatSeconds = 30;
/// Longest time without progress in each stage of a rank.
inline constexpr std::string_view kEnvSetupTimeout = "GNN_SETUP_TIMEOUT";
inline constexpr int64_t kDefaultSetupSeconds = 1800;
inline constexpr std::string_view kEnvStepTimeout = "GNN_STEP_TIMEOUT";
inline constexpr int64_t kDefaultStepSeconds = 300;
inline constexpr std::string_view kEnvEvaluationTimeout = "GNN_EVALUATION_TIMEOUT";
inline constexpr int64_t kDefaultEvaluationSeconds = kDefaultStepSeconds;
inline constexpr std::string_view kEnvCheckpointTimeout = "GNN_CHECKPOINT_TIMEOUT";
inline constexpr int64_t kDefaultCheckpointSeconds = 600;
/// Longest wait of a rank for the other ranks in one collective. It exceeds the time-out of every
/// stage, so that the agents find out first who hangs.
inline constexpr std::string_view kEnvCollectiveTimeout = "GNN_COLLECTIVE_TIMEOUT";
inline constexpr int64_t kCollectiveMarginSeconds = 60;
inline constexpr int64_t kDefaultCollectiveSeconds =
    std::max({kDefaultSetupSeconds, kDefaultStepSeconds, kDefaultCheckpointSeconds}) +
    kCollectiveMarginSeconds;
/// Longest wait of a rank while no live sampling server holds a part of the data that it needs
/// (runPolicy.serverTimeoutSeconds).
inline constexpr std::string_view kEnvServerTimeout = "GNN_SERVER_TIMEOUT";
inline constexpr int64_t kDefaultServerSeconds = 300;
/// Time between SIGTERM and SIGKILL of a pod (terminationGracePeriodSeconds).
inline constexpr int64_t kDefaultGraceSeconds = 120;

/// Names that the env of a pod template must not set, besides all that start with GNN_.
inline constexpr std::array<std::string_view, 32> kReservedEnv = {
    kEnvContract,     kEnvJob,           kEnvJobNamespace,   kEnvJobUid,        kEnvAttempt,
    kEnvRoundsLeft,   kEnvNodeRank,      kEnvNodeRestart,    kEnvNnodes,        kEnvNprocPerNode,
    kEnvGraceSeconds, kEnvConfig,        kEnvTerminationLog, kEnvHttpAddress,   kEnvMasterAddr,
    kEnvMasterPort,   kEnvRank,          kEnvLocalRank,      kEnvWorldSize,     kEnvLocalWorldSize,
    kEnvGroupRank,    kEnvRound,         kEnvAgentSocket,    kEnvRankCpus,      kEnvCheckedData,
    kEnvDataAddress,  kEnvDataKeyFile,   kEnvServer,         kEnvServerRestart, kEnvServerTimeout,
    "LD_PRELOAD",     "LD_LIBRARY_PATH",
};

// ---- Ports and paths of a pod
/// TCPStore of node 0.
inline constexpr uint16_t kStorePort = 29400;
inline constexpr std::string_view kStorePortName = "store";
/// /metrics, /progress and /healthz of the agent.
inline constexpr uint16_t kHttpPort = 9400;
inline constexpr std::string_view kHttpPortName = "http";
/// Partitions of the data, served to the job's other nodes.
inline constexpr uint16_t kDataPort = 29600;
inline constexpr std::string_view kDataPortName = "data";
inline constexpr std::string_view kMetricsPath = "/metrics";
inline constexpr std::string_view kProgressPath = "/progress";
inline constexpr std::string_view kHealthPath = "/healthz";
/// The phase of a pod that prepares data, in /progress.
inline constexpr std::string_view kPhasePrepare = "Prepare";
/// That of a sampling server, once it serves.
inline constexpr std::string_view kPhaseServe = "Serve";
inline constexpr std::string_view kConfigDir = "/etc/gnn";
inline constexpr std::string_view kConfigKey = "job.yaml";
inline constexpr std::string_view kConfigFile = "/etc/gnn/job.yaml";
/// The data key, in the same volume.
inline constexpr std::string_view kDataKeyKey = "data.key";
inline constexpr std::string_view kDataKeyFile = "/etc/gnn/data.key";
inline constexpr std::string_view kTerminationLog = "/dev/termination-log";
inline constexpr std::string_view kWorkerContainer = "worker";
inline constexpr std::string_view kWorkerBinary = "/usr/local/bin/gnn-worker";

// ---- Names of a job's children
// No two children of one kind in a namespace have the same name, whatever their jobs are called: each
// name can be read from its end in one way only.

/// "<job>-<attempt>-<node>"; "<job>-<attempt>-<node>-r<restart>" for a pod that replaced another. Without
/// the letter it would be the name of a pod of the job "<job>-<attempt>".
[[nodiscard]] std::string pod_name(
    std::string_view job, int64_t attempt, int64_t node, int64_t restart = 0
);
/// What pod_name() was made of. Nothing for any other name.
struct PodNumbers {
  int64_t attempt = 0;
  int64_t node = 0;
  int64_t restart = 0;
};
[[nodiscard]] std::optional<PodNumbers> numbers_of_pod(std::string_view job, std::string_view pod);
/// "<job>-<attempt>", the name of the object that groups an attempt's pods for the scheduler
[[nodiscard]] std::string group_name(std::string_view job, int64_t attempt);
/// The attempt in the name of such an object. Nothing for any other name.
[[nodiscard]] std::optional<int64_t> attempt_of_group(std::string_view job, std::string_view group);
/// "<job>-prepare-<attempt>"
[[nodiscard]] std::string prepare_pod_name(std::string_view job, int64_t attempt);
/// The attempt in the name of a pod that prepares the job's data. Nothing for any other name.
[[nodiscard]] std::optional<int64_t> attempt_of_prepare_pod(
    std::string_view job, std::string_view pod
);
/// "<job>-prepare"
[[nodiscard]] std::string prepare_hostname(std::string_view job);
/// "<job>-s<server>-<restart>", the restart from 0
[[nodiscard]] std::string server_pod_name(std::string_view job, int64_t server, int64_t restart);
/// What server_pod_name() was made of. Nothing for any other name.
struct ServerPodNumbers {
  int64_t server = 0;
  int64_t restart = 0;
};
[[nodiscard]] std::optional<ServerPodNumbers> numbers_of_server_pod(
    std::string_view job, std::string_view pod
);
/// "<job>-s<server>"
[[nodiscard]] std::string server_hostname(std::string_view job, int64_t server);
/// "<job>-<node>": the same in every attempt, so that the rendezvous address does not change.
[[nodiscard]] std::string pod_hostname(std::string_view job, int64_t node);
/// "<job>-gnn", the name of the headless Service, the ConfigMap and the NetworkPolicy.
[[nodiscard]] std::string child_name(std::string_view job);
/// "<job>-key-<suffix>", the name of the Secret with the job's data key. The suffix is 128 random bits
/// in hexadecimal, so that nobody can make a Secret of that name first.
[[nodiscard]] std::string data_key_name(std::string_view job, std::string_view suffix);
/// The suffix in such a name. Nothing for any other name.
[[nodiscard]] std::optional<std::string> suffix_of_data_key(
    std::string_view job, std::string_view secret
);
/// "<job>-0.<job>-gnn": resolved through the pod's search domains.
[[nodiscard]] std::string master_address(std::string_view job);

// ---- Exit codes of the agent and its ranks
inline constexpr int kExitDone = 0;
inline constexpr int kExitConfiguration = 64;  ///< never retried
inline constexpr int kExitData = 65;           ///< never retried
inline constexpr int kExitOther = 70;          ///< retried, charged to maxRestarts
inline constexpr int kExitPeerLost = 75;       ///< retried; the lost peer is charged, not this one
inline constexpr int kExitPreempted = 76;      ///< retried, not charged
inline constexpr int kExitOutOfMemory = 77;    ///< retried once, charged; final the second time

[[nodiscard]] int exit_code_for(ErrorKind kind);
/// The word for an exit code of the contract ("Configuration"), or "Error" for any other.
[[nodiscard]] std::string_view exit_reason(int exit_code);

// ---- Sizes and times
/// Longest termination message that an agent writes; the kubelet keeps 4,096 bytes.
inline constexpr int64_t kMaxResultBytes = 3500;
/// Most that the controller reads of /progress or a termination message.
inline constexpr int64_t kMaxProgressBytes = int64_t{64} * 1024;
/// How long pods stay on a node that is not ready or unreachable.
inline constexpr int64_t kNodeLostSeconds = 30;

}  // namespace gnn::contract
