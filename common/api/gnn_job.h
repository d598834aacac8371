#pragma once

#include "common/clock.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

/// The GNNJob (gnn.dev/v1alpha1): plain data, read by the controller and by the worker alike.
///
/// manifests/crds/gnnjobs.gnn.dev.yaml is the truth; a test holds names, enums, defaults and bounds
/// here against it. A member initializer is the field's default. `std::optional` means that absence
/// has a meaning of its own, and the comment says which. Decoding, encoding, defaults that depend
/// on other fields, and validation: codec.h, defaults.h, validation.h.
namespace gnn::api {

/// A decimal number kept as the text the user wrote ("0.01", "5e-4"), so that the API holds no
/// floats.
struct Decimal {
  std::string text = {};
  /// The number. Text that validation would refuse gives NaN.
  [[nodiscard]] double value() const;
  friend bool operator==(const Decimal&, const Decimal&) = default;
};

// ---- spec: task

enum class TaskType {
  NodeClassification,   ///< one class per node of one big graph; mini-batches by neighbour sampling
                        ///< (tutorials 1 and 3)
  GraphClassification,  ///< one class per graph of a set of small graphs; mini-batches are
                        ///< block-diagonal unions (tutorial 2)
};

struct Task {
  TaskType type = TaskType::NodeClassification;
  friend bool operator==(const Task&, const Task&) = default;
};

// ---- spec: dataset

enum class DatasetFormat {
  OGB,  ///< a node-property folder of the Open Graph Benchmark: raw/*.csv.gz or *.npz,
        ///< split/<name>/
  TU,   ///< a TU folder: <NAME>_A.txt, <NAME>_graph_indicator.txt, <NAME>_graph_labels.txt, …
  GIN,  ///< the text form of "How powerful are graph neural networks?" (one file)
  EdgeList,   ///< a folder with an edge list and .npy files for features, labels and splits
  Native,     ///< our own memory-mapped form, made by `gnn-worker data import` (the package index
              ///< comes this way)
  Synthetic,  ///< generated on the spot by `synthetic`; no path
};

enum class SyntheticShape { Arxiv, Products, Reddit, FakeDataset };

/// A generated graph: power-law degrees, planted communities; the same bits for the same four
/// values.
struct Synthetic {
  SyntheticShape shape = SyntheticShape::Arxiv;
  Decimal scale{"1"};  ///< factor on the number of nodes of the shape, in (0, 100]
  std::int64_t seed = 0;
  Decimal flipped_labels{"0"
  };  ///< fraction f of labels drawn anew, in [0, 1]; the accuracy's ceiling is 1 − f·(C−1)/C
  friend bool operator==(const Synthetic&, const Synthetic&) = default;
};

enum class SplitType {
  Provided,  ///< the files of the data set (or of the generator); `name` picks one of several
  Random,    ///< permutation by `seed`, cut at the fractions train, validation, test
  KFold,     ///< stratified folds by `seed`; fold `fold` is held out
};

struct Split {
  SplitType type = SplitType::Provided;
  std::optional<std::string> name = {
  };  ///< Provided: the split's folder or name; absent: the only one there is
  std::optional<Decimal> train = {};       ///< Random: fraction, required
  std::optional<Decimal> validation = {};  ///< fraction; Random: required; KFold: of the rest
  std::optional<Decimal> test = {};  ///< Random: fraction, required; the three sum to at most 1
  std::optional<std::int64_t> folds = {};  ///< KFold: number of folds, 2–100, required
  std::optional<std::int64_t> fold = {
  };  ///< KFold: the fold held out for test; absent: each in turn, one training per fold
  std::optional<std::int64_t> seed = {};  ///< Random and KFold: absent means training.seed
  friend bool operator==(const Split&, const Split&) = default;
};

enum class NodeFeatures {
  Provided,      ///< what the data set has
  Constant,      ///< a single 1.0 per node (DGL's GINDataset without node labels)
  DegreeOneHot,  ///< one-hot of the in-degree, as wide as the largest degree of the set
};

enum class FeatureTransform {
  None,
  RowNormalize,  ///< each row divided by its sum; rows of zeros stay (PyG's NormalizeFeatures)
};

struct Dataset {
  DatasetFormat format = DatasetFormat::Native;
  std::optional<std::string> path = {};     ///< where the worker sees it (inside the pod: below a
                                            ///< volume mount); all formats but Synthetic
  std::optional<Synthetic> synthetic = {};  ///< exactly with format Synthetic
  Split split;
  bool to_undirected = false;   ///< add each edge's reverse, then remove duplicates
  bool add_self_loops = false;  ///< add v→v where it is missing
  bool coalesce = false;        ///< remove duplicate edges
  NodeFeatures node_features = NodeFeatures::Provided;
  FeatureTransform feature_transform = FeatureTransform::None;
  friend bool operator==(const Dataset&, const Dataset&) = default;
};

// ---- spec: model

enum class SageParameters {
  DGL,  ///< fc_self with bias, fc_neigh without; projects before aggregating where that is
        ///< narrower; Xavier
  PyG,  ///< lin_l of the neighbours' mean with bias, lin_r of the node itself without;
        ///< Kaiming-uniform
};

/// Mean aggregation, ReLU and dropout between layers.
struct GraphSage {
  std::int64_t layers = 3;             ///< 1–16
  std::int64_t hidden_channels = 256;  ///< 1–16384
  Decimal dropout{"0.5"};              ///< in [0, 1)
  SageParameters parameters = SageParameters::DGL;
  friend bool operator==(const GraphSage&, const GraphSage&) = default;
};

/// Symmetric normalisation with self-loops on the (sampled) graph, ReLU and dropout between layers.
struct Gcn {
  std::int64_t layers = 2;
  std::int64_t hidden_channels = 16;
  Decimal dropout{"0.5"};
  friend bool operator==(const Gcn&, const Gcn&) = default;
};

enum class Pooling { Sum, Mean, Max };

enum class Readout {
  LastLayer,   ///< the last layer is as wide as there are classes; its pooled output is the score
               ///< (tutorial 2)
  EveryLayer,  ///< the pooled input and each layer's pooled output go through a linear layer of
               ///< their own; scores are summed (Xu et al. 2019)
};

struct Gin {
  std::int64_t layers = 5;  ///< number of convolutions
  std::int64_t hidden_channels = 64;
  std::int64_t mlp_layers =
      2;  ///< linear layers inside each convolution, 1–4; 1 is tutorial 2's single Linear
  bool batch_norm = true;  ///< inside the MLPs and after each convolution
  bool learn_eps = false;  ///< the self weight 1+ε is learned; otherwise ε = 0
  Decimal dropout{"0.5"};  ///< on the scores of Readout::EveryLayer
  Pooling pooling = Pooling::Sum;
  Readout readout = Readout::EveryLayer;
  friend bool operator==(const Gin&, const Gin&) = default;
};

enum class ModelType {
  GraphSAGE,  ///< NodeClassification
  GCN,        ///< NodeClassification
  GIN,        ///< GraphClassification
};

/// A union: exactly the member that `type` names is there.
struct Model {
  ModelType type = ModelType::GraphSAGE;
  std::optional<GraphSage> graph_sage = {};  ///< "graphSage"
  std::optional<Gcn> gcn = {};
  std::optional<Gin> gin = {};
  friend bool operator==(const Model&, const Model&) = default;
};

// ---- spec: sampling

enum class SamplingRule {
  PyG,  ///< a hop expands only the nodes that are new in the hop before
  DGL,  ///< a hop samples again for every node seen so far
};

/// Neighbour sampling; exactly with NodeClassification.
struct Sampling {
  std::vector<std::int64_t> fanout = {};  ///< one per model layer; fanout[0] is the hop next to the
                                          ///< seeds; −1 all, 0 none (no edges at all)
  bool replace = false;
  SamplingRule rule = SamplingRule::PyG;
  std::optional<std::int64_t> num_threads = {
  };  ///< sampler threads per rank; absent: from the CPUs the rank may use
  friend bool operator==(const Sampling&, const Sampling&) = default;
};

// ---- spec: training

enum class DeviceChoice {
  Auto,  ///< CUDA where the rank has one, else CPU
  CPU,
  CUDA,  ///< absent CUDA is a configuration error, never a silent CPU
};

enum class OptimizerType { Adam, SGD };

struct Optimizer {
  OptimizerType type = OptimizerType::Adam;
  Decimal learning_rate{"0.01"};
  Decimal weight_decay{"0"};
  std::optional<Decimal> momentum = {};  ///< SGD alone; absent: 0
  friend bool operator==(const Optimizer&, const Optimizer&) = default;
};

/// How items are dealt to the ranks of each epoch.
enum class Sharding {
  Slice,       ///< one permutation over all items, a contiguous slice per rank (DGL's
               ///< DistributedItemSampler)
  Interleave,  ///< permutation padded by repetition to a multiple of the ranks, every world-th item
               ///< (torch's DistributedSampler)
};

/// What ranks do that have fewer batches than others.
enum class UnevenInputs {
  Shadow,  ///< they shadow the others' reductions for the number of steps known in closed form
  Join,  ///< the same by a handshake each step (torch's Join), for lengths nobody knows beforehand
  Drop,  ///< every rank is cut to the smallest number of batches (drop_uneven_inputs)
};

enum class EvaluationMode {
  Sampled,    ///< mini-batches with the evaluation's fanout
  LayerWise,  ///< exact: layer by layer over all nodes, full neighbourhoods; NodeClassification
              ///< alone
};

struct Evaluation {
  std::int64_t every = 1;  ///< epochs between two evaluations of the validation set; 0: only after
                           ///< the last epoch. The test set is evaluated once, at the end
  EvaluationMode mode = EvaluationMode::Sampled;
  std::optional<std::vector<std::int64_t>> fanout = {
  };  ///< Sampled, NodeClassification; absent: sampling.fanout
  friend bool operator==(const Evaluation&, const Evaluation&) = default;
};

/// Seconds after which the agent takes a stage for hung and restarts the round.
struct StageTimeouts {
  std::int64_t rendezvous_seconds = 600;  ///< all nodes present
  std::int64_t setup_seconds =
      1800;  ///< ranks spawned → first step (loading or generating the data included)
  std::int64_t step_seconds = 300;  ///< between two steps or evaluation batches
  std::int64_t checkpoint_seconds = 600;
  friend bool operator==(const StageTimeouts&, const StageTimeouts&) = default;
};

struct Training {
  DeviceChoice device = DeviceChoice::Auto;
  std::int64_t epochs = 5;
  std::int64_t batch_size = 1024;  ///< seeds (or graphs) per rank and step
  bool shuffle = true;
  bool drop_last = false;  ///< drop a rank's last, smaller batch
  std::int64_t seed = 0;
  Optimizer optimizer;
  std::optional<Sharding> sharding = {
  };  ///< absent: Slice for NodeClassification, Interleave for GraphClassification
  UnevenInputs uneven_inputs = UnevenInputs::Shadow;
  bool weigh_by_batch_size = false;  ///< weigh each rank's gradient by its batch, so that N ranks
                                     ///< compute the gradient of the union batch
  std::int64_t gradient_accumulation = 1;  ///< batches per optimizer step
  Evaluation evaluation;
  StageTimeouts timeouts;
  friend bool operator==(const Training&, const Training&) = default;
};

// ---- spec: workers

enum class Backend {
  Auto,  ///< NCCL when the ranks run on CUDA, else Gloo
  Gloo,
  NCCL,
};

/// From here to PodTemplate: names and shapes as in a Kubernetes pod, less what is not allowed. A
/// Kubernetes resource list: name → quantity text.
using ResourceList = std::map<std::string, std::string>;

struct Resources {
  ResourceList requests = {};
  ResourceList limits = {};
  friend bool operator==(const Resources&, const Resources&) = default;
};

struct Toleration {
  std::optional<std::string> key = {};
  std::optional<std::string> op = {};  ///< "operator": Exists | Equal
  std::optional<std::string> value = {};
  std::optional<std::string> effect = {};  ///< NoSchedule | PreferNoSchedule | NoExecute
  std::optional<std::int64_t> toleration_seconds = {};
  friend bool operator==(const Toleration&, const Toleration&) = default;
};

struct NodeSelectorRequirement {
  std::string key = {};
  std::string op = {};  ///< "operator": In | NotIn | Exists | DoesNotExist | Gt | Lt
  std::vector<std::string> values = {};
  friend bool operator==(const NodeSelectorRequirement&, const NodeSelectorRequirement&) = default;
};

struct NodeSelectorTerm {
  std::vector<NodeSelectorRequirement> match_expressions = {};
  friend bool operator==(const NodeSelectorTerm&, const NodeSelectorTerm&) = default;
};

struct PreferredNodeTerm {
  std::int64_t weight = 1;
  NodeSelectorTerm preference;
  friend bool operator==(const PreferredNodeTerm&, const PreferredNodeTerm&) = default;
};

struct NodeSelector {
  std::vector<NodeSelectorTerm> node_selector_terms = {};  ///< one of them must match
  friend bool operator==(const NodeSelector&, const NodeSelector&) = default;
};

/// "requiredDuringSchedulingIgnoredDuringExecution" and
/// "preferredDuringSchedulingIgnoredDuringExecution".
struct NodeAffinity {
  std::optional<NodeSelector> required = {};
  std::vector<PreferredNodeTerm> preferred = {};
  friend bool operator==(const NodeAffinity&, const NodeAffinity&) = default;
};

struct Affinity {
  std::optional<NodeAffinity> node_affinity = {};
  friend bool operator==(const Affinity&, const Affinity&) = default;
};

struct FieldRef {
  std::string field_path = {};  ///< e.g. spec.nodeName
  friend bool operator==(const FieldRef&, const FieldRef&) = default;
};

struct EnvVarSource {
  FieldRef field_ref;
  friend bool operator==(const EnvVarSource&, const EnvVarSource&) = default;
};

/// One environment variable: a literal, or a field of the pod itself.
struct EnvVar {
  std::string name = {};
  std::optional<std::string> value = {};
  std::optional<EnvVarSource> value_from = {};
  friend bool operator==(const EnvVar&, const EnvVar&) = default;
};

struct LocalReference {
  std::string name = {};
  friend bool operator==(const LocalReference&, const LocalReference&) = default;
};

struct ClaimVolume {
  std::string claim_name = {};
  bool read_only = false;
  friend bool operator==(const ClaimVolume&, const ClaimVolume&) = default;
};

struct EmptyDirVolume {
  std::optional<std::string> medium = {};  ///< Memory
  std::optional<std::string> size_limit = {};
  friend bool operator==(const EmptyDirVolume&, const EmptyDirVolume&) = default;
};

struct ConfigMapVolume {
  std::string name = {};
  friend bool operator==(const ConfigMapVolume&, const ConfigMapVolume&) = default;
};

/// Exactly one of the three sources.
struct Volume {
  std::string name = {};
  std::optional<ClaimVolume> persistent_volume_claim = {};
  std::optional<EmptyDirVolume> empty_dir = {};
  std::optional<ConfigMapVolume> config_map = {};
  friend bool operator==(const Volume&, const Volume&) = default;
};

struct VolumeMount {
  std::string name = {};
  std::string mount_path = {};
  std::optional<std::string> sub_path = {};
  bool read_only = false;
  friend bool operator==(const VolumeMount&, const VolumeMount&) = default;
};

/// User, group and volume group of the worker; never root.
struct PodSecurity {
  std::int64_t run_as_user = 65532;
  std::int64_t run_as_group = 65532;
  std::int64_t fs_group = 65532;
  friend bool operator==(const PodSecurity&, const PodSecurity&) = default;
};

enum class ImagePullPolicy { Always, IfNotPresent, Never };

/// The part of a pod that a user may choose. An allow-list: what is not here can't be had (no host
/// namespaces or paths, no privilege, no service account, nothing of another namespace). Absent in
/// manifests run by `gnn-worker run`.
struct PodTemplate {
  std::string image = {};
  ImagePullPolicy image_pull_policy = ImagePullPolicy::IfNotPresent;
  /// Secrets of the job's namespace, read by the kubelet alone.
  std::vector<LocalReference> image_pull_secrets = {};
  Resources resources;
  std::map<std::string, std::string> node_selector = {};
  std::vector<Toleration> tolerations = {};
  std::optional<Affinity> affinity = {};
  std::optional<std::string> priority_class_name = {};
  std::optional<std::string> scheduler_name = {};
  std::vector<EnvVar> env = {};
  std::vector<Volume> volumes = {};
  std::vector<VolumeMount> volume_mounts = {};
  PodSecurity security_context;
  std::int64_t termination_grace_period_seconds = 120;
  friend bool operator==(const PodTemplate&, const PodTemplate&) = default;
};

struct Workers {
  std::int64_t nodes = 1;               ///< pods
  std::int64_t processes_per_node = 1;  ///< ranks per pod
  std::int64_t gpus_per_process = 0;    ///< 0 or 1
  Backend backend = Backend::Auto;
  std::optional<PodTemplate> pod_template = {};  ///< "template"
  friend bool operator==(const Workers&, const Workers&) = default;
};

// ---- spec: checkpoint, run policy

/// Absent: no checkpoint is written and none is read.
struct Checkpoint {
  std::string path = {
  };  ///< folder, on a volume that all nodes share if the job is to survive a lost node
  std::int64_t every_epochs = 1;  ///< 0: not by epochs
  std::int64_t every_steps = 0;   ///< 0: not by steps
  std::int64_t keep = 3;          ///< newest valid ones kept
  std::string resume = "Auto";    ///< Auto: the newest valid one, if any; Never; or the path of one
                                  ///< checkpoint, which must be valid
  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

enum class CleanPodPolicy {
  Running,  ///< at the end delete pods that still run, keep finished ones for their logs
  All,
  None,  ///< also keep those that still run when the job fails, but stop them
};

struct RunPolicy {
  std::int64_t max_restarts = 3;  ///< charged attempts + rounds; disruptions are free
  std::optional<std::int64_t> active_deadline_seconds = {};  ///< since startTime; absent: none
  /// A gang not placed whole by then is released and tried again later.
  std::int64_t scheduling_timeout_seconds = 600;
  std::optional<std::int64_t> ttl_seconds_after_finished = {};  ///< absent: the job stays
  CleanPodPolicy clean_pod_policy = CleanPodPolicy::Running;
  friend bool operator==(const RunPolicy&, const RunPolicy&) = default;
};

// ---- spec

struct GnnJobSpec {
  bool suspend = false;                        ///< no pods while true
  std::optional<std::string> managed_by = {};  ///< absent or "gnn.dev/gnn-controller": ours; any
                                               ///< other: the controller keeps its hands off
  Task task;
  Dataset dataset;
  Model model;
  std::optional<Sampling> sampling = {};
  Training training;
  Workers workers;
  std::optional<Checkpoint> checkpoint = {};
  RunPolicy run_policy;
  friend bool operator==(const GnnJobSpec&, const GnnJobSpec&) = default;
};

// ---- status

struct Condition {
  std::string type = {};
  std::string status = {};  ///< True | False | Unknown
  std::string reason = {};
  std::string message = {};
  std::int64_t observed_generation = 0;
  TimePoint last_transition_time{};
  friend bool operator==(const Condition&, const Condition&) = default;
};

struct NodeCounts {
  std::int64_t desired = 0;
  std::int64_t ready = 0;  ///< running and ready, or succeeded
  std::int64_t succeeded = 0;
  std::int64_t failed = 0;
  std::string summary = {};  ///< "ready/desired" for the printer column
  friend bool operator==(const NodeCounts&, const NodeCounts&) = default;
};

/// The last that is known of the training: pulled from node 0 while it runs, from its termination
/// message at the end. Decimal strings; NaN and infinities as "NaN", "Inf", "-Inf".
struct JobProgress {
  std::optional<std::int64_t> epoch = {};  ///< epochs begun, from 1
  std::optional<std::int64_t> epochs = {};
  std::optional<std::int64_t> step = {};  ///< optimizer steps done
  std::optional<std::string> loss = {};   ///< mean of the last epoch
  std::optional<std::string> train_metric = {};
  std::optional<std::string> validation_metric = {};
  std::optional<std::string> test_metric = {};
  std::optional<std::string> rate = {};  ///< seeds (or graphs) per second, all ranks
  std::optional<std::int64_t> eta_seconds = {};
  std::optional<std::string> checkpoint = {};  ///< newest one written
  friend bool operator==(const JobProgress&, const JobProgress&) = default;
};

struct LastFailure {
  std::int64_t attempt = 0;
  std::optional<std::int64_t> node = {};
  std::optional<std::int64_t> rank = {};  ///< the rank that failed first, if its agent could say
  std::optional<std::int64_t> exit_code = {};
  std::string reason = {};
  std::string message = {};
  TimePoint time{};
  friend bool operator==(const LastFailure&, const LastFailure&) = default;
};

struct GnnJobStatus {
  std::int64_t observed_generation = 0;
  std::vector<Condition> conditions = {};
  std::string state = {};     ///< one word derived from the conditions, for the printer column
  std::string message = {};   ///< why it is in this state, what it waits for
  std::int64_t attempt = 0;   ///< incarnation of the gang's pods, from 1; 0: none was started yet
  std::int64_t round = 0;     ///< highest in-place restart seen in this attempt
  std::int64_t restarts = 0;  ///< charged attempts + rounds; never falls
  std::int64_t out_of_memory = 0;  ///< times the job ran out of memory; the second ends it
  std::int64_t releases =
      0;  ///< times the gang was released because it could not be placed, since it last ran
  std::optional<TimePoint> next_attempt_time = {};  ///< a released gang is not tried before
  NodeCounts nodes;
  std::optional<JobProgress> progress = {};
  std::optional<TimePoint> start_time = {
  };  ///< when the job was begun, or begun again after a resume
  std::optional<TimePoint> completion_time = {};
  std::optional<LastFailure> last_failure = {};
  friend bool operator==(const GnnJobStatus&, const GnnJobStatus&) = default;
};

// ---- job

/// What we read of metadata; written back by patches only.
struct JobMetadata {
  std::string name = {};
  std::string namespace_ = {};
  std::string uid = {};
  std::string resource_version = {};
  std::int64_t generation = 0;
  std::optional<TimePoint> creation_timestamp = {};
  std::optional<TimePoint> deletion_timestamp = {};
  std::vector<std::string> finalizers = {};
  std::map<std::string, std::string> labels = {};
  std::map<std::string, std::string> annotations = {};
  friend bool operator==(const JobMetadata&, const JobMetadata&) = default;
};

struct GnnJob {
  JobMetadata metadata;
  GnnJobSpec spec;
  GnnJobStatus status;
  friend bool operator==(const GnnJob&, const GnnJob&) = default;
};

}  // namespace gnn::api
