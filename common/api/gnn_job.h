#pragma once

#include "common/clock.h"
#include "common/contract.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The GNNJob (gnn.dev/v1alpha1) as plain data, for controller and worker.
///
/// manifests/crds/gnnjobs.gnn.dev.yaml is the truth; a test compares names, enums, defaults and
/// bounds with it. A member initializer is the field's default. `std::optional` means that absence
/// has a meaning of its own, which the comment explains. See codec.h for decoding and encoding,
/// defaults.h for defaults that depend on other fields, and validation.h.
namespace gnn::api {

/// A decimal number, kept as the user's text ("0.01", "5e-4"): the API has no floats.
struct Decimal {
  std::string text = {};
  /// The number, or NaN for text that validation refuses.
  [[nodiscard]] double value() const;
  friend bool operator==(const Decimal&, const Decimal&) = default;
};

// ---- spec: task

enum class TaskType {
  /// Predicts a class per node of one large graph; mini-batches by neighbour sampling.
  NodeClassification,
  /// Predicts a class per graph of a set of small graphs; mini-batches are block-diagonal unions.
  GraphClassification,
  /// Predicts whether two nodes are joined by an edge of one type; mini-batches are links, true ones
  /// and drawn ones, with the sampled neighbourhoods of their ends.
  LinkPrediction,
};

/// An edge type by its names. A plain graph has one: node, to, node.
struct EdgeType {
  std::string source = {};  ///< node type
  std::string relation = {};
  std::string destination = {};  ///< node type
  friend bool operator==(const EdgeType&, const EdgeType&) = default;
};

enum class TaskMode {
  Training,
  Inference,  ///< nothing is trained: model.from is applied to the nodes of the data set
};

struct Task {
  TaskType type = TaskType::NodeClassification;
  std::optional<TaskMode> mode = {};  ///< absent: Training
  std::optional<EdgeType> link = {};  ///< what is predicted; if and only if LinkPrediction
  friend bool operator==(const Task&, const Task&) = default;
};

// ---- spec: dataset

enum class DatasetFormat {
  /// A node-property folder of the Open Graph Benchmark: raw/*.csv.gz or *.npz, split/<name>/.
  OGB,
  TU,   ///< a TU folder: <NAME>_A.txt, <NAME>_graph_indicator.txt, <NAME>_graph_labels.txt, …
  GIN,  ///< the text form of "How powerful are graph neural networks?" (one file)
  /// A folder with an edge list and .npy files for features, labels and splits; or, with several
  /// types, with a folder each.
  EdgeList,
  Reddit,  ///< the folder that PyG and DGL download: reddit_data.npz, reddit_graph.npz
  Taobao,  ///< a folder with UserBehavior.csv: users, items and what users did with items
  /// Our own memory-mapped form, written by `gnn-worker data import`.
  Native,
  Synthetic,  ///< generated at the start, as `synthetic` says; no path
};

/// Taobao's has users, items and links from users to items; the others have one node type.
enum class SyntheticShape { Arxiv, Products, Reddit, FakeDataset, Taobao };

/// A generated graph with power-law degrees and planted communities. The same values give the same
/// bits.
struct Synthetic {
  SyntheticShape shape = SyntheticShape::Arxiv;
  Decimal scale{"1"};  ///< factor on the number of nodes of the shape, in (0, 100]
  int64_t seed = 0;
  /// Fraction f of labels replaced by random ones, in [0, 1]; limits accuracy to 1 − f·(C−1)/C. 0 with
  /// Taobao, which has none.
  Decimal flipped_labels{"0"};
  friend bool operator==(const Synthetic&, const Synthetic&) = default;
};

enum class SplitType {
  Provided,  ///< the data set's (or generator's) own split; `name` chooses one of several
  Random,    ///< a permutation by `seed`, cut at the fractions train, validation and test
  KFold,     ///< stratified folds by `seed`; `fold` is the test fold
  /// A permutation of the links by `seed`, cut into training, validation and test links. Validation
  /// passes messages along training links, the test along those of training and validation.
  RandomLink,
};

struct Split {
  SplitType type = SplitType::Provided;
  /// Provided: the split's folder or name; may be absent if there is only one.
  std::optional<std::string> name = {};
  std::optional<Decimal> train = {};  ///< Random: fraction, required
  /// Fraction; Random and RandomLink: required; KFold: of the rest.
  std::optional<Decimal> validation = {};
  /// Fraction; Random and RandomLink: required. Random: the three sum to at most 1; RandomLink: the
  /// two sum to less than 1.
  std::optional<Decimal> test = {};
  std::optional<int64_t> folds = {};  ///< KFold: number of folds, 2–100, required
  /// KFold: the test fold; absent: each fold in turn, with one training per fold.
  std::optional<int64_t> fold = {};
  std::optional<int64_t> seed = {};  ///< not with Provided; absent means training.seed
  /// RandomLink: negatives of a part for each of its links, not with metric MRR; absent: 1.
  std::optional<Decimal> negative_ratio = {};
  /// RandomLink: fraction of the training links that are predicted and pass no messages, while the
  /// others only pass messages; absent or 0: all do both.
  std::optional<Decimal> disjoint_train = {};
  friend bool operator==(const Split&, const Split&) = default;
};

enum class CoOccurrenceEdges {
  Train,  ///< links that pass messages in training
  All,    ///< also held-out ones, whose ends the model then sees joined: as PyG's example does
};

/// Edges between the nodes of one type that share neighbours of another, without a node's own.
struct CoOccurrence {
  std::string node = {};     ///< the type that gets the edges (node, to, node)
  std::string through = {};  ///< the type of the neighbours
  /// Least number of shared neighbours; links that occur several times count as often.
  int64_t at_least = 1;
  CoOccurrenceEdges edges = CoOccurrenceEdges::Train;
  friend bool operator==(const CoOccurrence&, const CoOccurrence&) = default;
};

enum class NodeFeatures {
  Provided,      ///< what the data set has
  Constant,      ///< a single 1.0 per node (DGL's GINDataset without node labels)
  DegreeOneHot,  ///< one-hot in-degree, as wide as the set's largest degree
};

enum class FeatureTransform {
  None,
  /// PyG's NormalizeFeatures: subtracts the smallest value of the whole matrix, then divides each
  /// row by its sum, or by 1 if that is less.
  RowNormalize,
};

struct Dataset {
  DatasetFormat format = DatasetFormat::Native;
  /// As the worker sees it, in a pod below a volume mount; for all formats but Synthetic.
  std::optional<std::string> path = {};
  std::optional<Synthetic> synthetic = {};  ///< if and only if the format is Synthetic
  Split split;
  bool to_undirected = false;   ///< add the reverse of each edge, then remove duplicates
  bool add_self_loops = false;  ///< add missing edges v→v
  bool coalesce = false;        ///< remove duplicate edges
  /// BipartiteSAGE: add the edge type (destination, rev_ + relation, source) of all links reversed.
  /// Messages pass along a reversed link where they pass along the link itself.
  bool add_reverse = false;
  std::optional<CoOccurrence> co_occurrence = {};  ///< BipartiteSAGE; absent: none
  NodeFeatures node_features = NodeFeatures::Provided;
  FeatureTransform feature_transform = FeatureTransform::None;
  friend bool operator==(const Dataset&, const Dataset&) = default;
};

// ---- spec: model

enum class SageParameters {
  /// fc_self with bias, fc_neigh without; projects before it aggregates where that is narrower;
  /// Xavier initialization.
  DGL,
  /// lin_l of the neighbours' mean with bias, lin_r of the node itself without; Kaiming-uniform
  /// initialization.
  PyG,
};

/// Mean aggregation, ReLU and dropout between layers.
struct GraphSage {
  int64_t layers = 3;             ///< 1–16
  int64_t hidden_channels = 256;  ///< 1–16384
  Decimal dropout{"0.5"};         ///< in [0, 1)
  SageParameters parameters = SageParameters::DGL;
  friend bool operator==(const GraphSage&, const GraphSage&) = default;
};

/// Symmetric normalisation with self-loops on the (sampled) graph, ReLU and dropout between layers.
struct Gcn {
  int64_t layers = 2;
  int64_t hidden_channels = 16;
  Decimal dropout{"0.5"};
  friend bool operator==(const Gcn&, const Gcn&) = default;
};

enum class Pooling { Sum, Mean, Max };

enum class Readout {
  /// The width of the last layer is the number of classes; its pooled output is the score.
  LastLayer,
  /// The pooled input and each layer's pooled output go through a linear layer of their own; scores
  /// are summed (Xu et al. 2019).
  EveryLayer,
};

struct Gin {
  int64_t layers = 5;  ///< number of convolutions
  int64_t hidden_channels = 64;
  /// Linear layers inside each convolution, 1–4; 1 is a single Linear.
  int64_t mlp_layers = 2;
  bool batch_norm = true;  ///< inside the MLPs and after each convolution
  bool learn_eps = false;  ///< whether the weight 1+ε of the node itself is learned; else ε = 0
  Decimal dropout{"0.5"};  ///< on the scores of Readout::EveryLayer
  Pooling pooling = Pooling::Sum;
  Readout readout = Readout::EveryLayer;
  friend bool operator==(const Gin&, const Gin&) = default;
};

/// Learned embeddings of both node types; destinations are encoded by two convolutions over edges
/// between them, sources by three over the reverse of the link, with the encoded destinations; a
/// two-layer decoder scores pairs. The convolutions are PyG's SAGEConv.
struct BipartiteSage {
  int64_t hidden_channels = 64;  ///< also the width of the embeddings
  int64_t out_channels = 64;
  friend bool operator==(const BipartiteSage&, const BipartiteSage&) = default;
};

enum class DecoderType {
  Dot,  ///< the scalar product of the two ends
  MLP,  ///< two linear layers with ReLU between over the two ends side by side
};

/// How a GraphSAGE scores a link by the last hidden rows of its ends.
struct Decoder {
  DecoderType type = DecoderType::Dot;
  std::optional<int64_t> hidden_channels = {};  ///< MLP; absent: that of the GraphSAGE
  friend bool operator==(const Decoder&, const Decoder&) = default;
};

enum class ModelType {
  GraphSAGE,      ///< NodeClassification; LinkPrediction between nodes of one type
  GCN,            ///< NodeClassification
  GIN,            ///< GraphClassification
  BipartiteSAGE,  ///< LinkPrediction between nodes of two types
};

/// A union: exactly the member that matches `type` is set, and `decoder` beside it.
struct Model {
  ModelType type = ModelType::GraphSAGE;
  std::optional<GraphSage> graph_sage = {};  ///< "graphSage"
  std::optional<Gcn> gcn = {};
  std::optional<Gin> gin = {};
  std::optional<BipartiteSage> bipartite_sage = {};  ///< "bipartiteSage"
  /// GraphSAGE with LinkPrediction; absent: Dot.
  std::optional<Decoder> decoder = {};
  /// The trained parameters: the path of a checkpoint, of a folder of them (its newest valid one), or
  /// of an exported .safetensors file. Required by Inference, and only for it.
  std::optional<std::string> from = {};
  friend bool operator==(const Model&, const Model&) = default;
};

// ---- spec: sampling

enum class SamplingRule {
  NewNodes,  ///< PyG's: a hop samples neighbours only for the nodes that the previous hop added
  AllSeen,   ///< DGL's: a hop samples again for every node seen so far
};

struct EdgeTypeFanout {
  EdgeType edge_type;  ///< its names stand beside `fanout`
  std::vector<int64_t> fanout = {};
  friend bool operator==(const EdgeTypeFanout&, const EdgeTypeFanout&) = default;
};

enum class NegativesType {
  Binary,  ///< pairs of their own, with label 0
};

enum class NegativeWeights {
  Uniform,
  Degree,  ///< by the number of training links to the power of 0.75
};

/// The pairs that training takes for absent links.
struct Negatives {
  NegativesType type = NegativesType::Binary;
  Decimal amount{"1"};  ///< for each link; a batch's number is rounded up
  NegativeWeights weights = NegativeWeights::Uniform;  ///< of a pair's ends, which are drawn apart
  bool strict = false;                                 ///< draw again where a training link is met
  friend bool operator==(const Negatives&, const Negatives&) = default;
};

/// Which processor draws neighbours. The batches are the same, bit for bit.
enum class SamplingDevice {
  CPU,
  CUDA,  ///< the rank's GPU; never a silent fallback to the CPU
};

/// Where the graph lies that ranks sample.
enum class TopologyMemory {
  Host,      ///< the node's memory, which CPUs read
  ZeroCopy,  ///< pinned memory of the node, which GPUs read in place over the bus
  Device,    ///< the GPU of each rank, all of it
};

/// Neighbour sampling; set if and only if the task is NodeClassification or LinkPrediction.
struct Sampling {
  /// One per model layer; fanout[0] is the hop next to the seeds; −1 all, 0 none (no edges at all).
  std::vector<int64_t> fanout = {};
  /// LinkPrediction: edge types with a fan-out of their own, in training and evaluation; each once.
  std::vector<EdgeTypeFanout> fanout_by_edge_type = {};
  bool replace = false;
  SamplingRule rule = SamplingRule::NewNodes;
  /// Sampler threads per rank; absent: follows from the CPUs that the rank may use.
  std::optional<int64_t> num_threads = {};
  /// Batches that wait for other nodes' answers at once, for each sampler thread; absent: 4 with a
  /// Partitioned placement. No effect where all data is local.
  std::optional<int64_t> concurrency = {};
  /// Batches that lie ready, beyond those that are being made; absent: 2.
  std::optional<int64_t> prefetch = {};
  /// Bytes of batches that lie ready, as a whole number of Mi or Gi; a batch beyond them waits until
  /// another is taken. Absent: `prefetch` alone counts.
  std::optional<std::string> channel_size = {};
  std::optional<SamplingDevice> device = {};  ///< absent: CPU
  /// Host if and only if the device is the CPU; absent: Device on CUDA.
  std::optional<TopologyMemory> topology_memory = {};
  std::optional<Negatives> negatives = {};  ///< LinkPrediction; absent: the defaults
  /// LinkPrediction: a batch's training links, and their reverse, pass no messages in that batch.
  bool exclude_seed_edges = false;
  friend bool operator==(const Sampling&, const Sampling&) = default;

  /// channel_size as a number, of a valid job.
  [[nodiscard]] std::optional<int64_t> channel_bytes() const;
};

// ---- spec: training

enum class DeviceChoice {
  Auto,  ///< CUDA if workers.gpusPerProcess is 1 and the rank finds its GPU, else CPU
  CPU,
  CUDA,  ///< a configuration error without a GPU, never a silent fallback to the CPU
};

enum class OptimizerType { Adam, SGD };

/// How the learning rate goes on once it is warm.
enum class ScheduleType {
  Constant,
  Step,    ///< torch's StepLR: times gamma after each stepSize
  Cosine,  ///< torch's CosineAnnealingLR: from learningRate to minLearningRate at the end of training
};

/// What a schedule counts.
enum class ScheduleInterval {
  Step,  ///< optimizer steps
  Epoch,
};

/// The learning rate rises linearly to optimizer.learningRate: torch's LinearLR. The schedule's type
/// begins after it, as in SequentialLR.
struct Warmup {
  int64_t length = 0;            ///< in the schedule's interval; less than the training is long
  Decimal start_factor{"0.01"};  ///< of the first one's learning rate, in (0, 1]
  friend bool operator==(const Warmup&, const Warmup&) = default;
};

struct LearningRateSchedule {
  ScheduleType type = ScheduleType::Constant;
  ScheduleInterval interval = ScheduleInterval::Epoch;
  std::optional<int64_t> step_size = {};          ///< "stepSize": Step, required
  std::optional<Decimal> gamma = {};              ///< with Step; absent: 0.1
  std::optional<Decimal> min_learning_rate = {};  ///< with Cosine; absent: 0
  std::optional<Warmup> warmup = {};              ///< absent: none
  friend bool operator==(const LearningRateSchedule&, const LearningRateSchedule&) = default;
};

struct Optimizer {
  OptimizerType type = OptimizerType::Adam;
  Decimal learning_rate{"0.01"};
  Decimal weight_decay{"0"};
  std::optional<Decimal> momentum = {};               ///< SGD alone; absent: 0
  std::optional<LearningRateSchedule> schedule = {};  ///< absent: learningRate throughout
  /// Gradients whose norm, over all of them together, is larger are scaled down to it (torch's
  /// clip_grad_norm_); absent: none are.
  std::optional<Decimal> max_gradient_norm = {};
  friend bool operator==(const Optimizer&, const Optimizer&) = default;
};

enum class EmbeddingUpdate {
  Dense,  ///< torch's Adam on the whole table; a row that was not read is caught up when it is
  Lazy,   ///< SparseAdam's rule: rows that a step does not read stay as they are
};

/// The learned rows of nodes; the model says how wide they are.
struct Embeddings {
  EmbeddingUpdate update = EmbeddingUpdate::Dense;
  friend bool operator==(const Embeddings&, const Embeddings&) = default;
};

/// In which numbers the model computes. Parameters, optimizer and losses are float32 in any case.
enum class Precision {
  Float32,
  TF32,      ///< products of float32 operands that a GPU rounds to ten bits of fraction
  BFloat16,  ///< products and sums over neighbours of bfloat16 operands
};

/// How the items of an epoch are divided among the ranks.
enum class Sharding {
  /// One permutation over all items, a contiguous slice per rank (DGL's DistributedItemSampler).
  Slice,
  /// Each of n ranks gets every n-th item of a permutation, which is padded by repetition to a
  /// multiple of n (torch's DistributedSampler).
  Interleave,
  /// Items that lie in one partition of the data go to the ranks of the nodes that hold it, in an
  /// order of its own.
  Owner,
};

/// What ranks with fewer batches than others do.
enum class UnevenInputs {
  Shadow,  ///< take part in the others' reductions for a number of steps known beforehand
  Join,    ///< the same with a handshake per step, for unknown numbers (torch's Join)
  Drop,    ///< all ranks stop at the smallest number of batches (drop_uneven_inputs)
};

enum class EvaluationMode {
  Sampled,  ///< mini-batches with the evaluation's fanout
  /// Exact: layer by layer over all nodes, full neighbourhoods; NodeClassification alone.
  LayerWise,
};

/// The parts of a split that a model is measured on.
enum class Part { Train, Validation, Test };

enum class Metric {
  Accuracy,          ///< classification
  AUC,               ///< area under the ROC curve, over the part's links and negatives
  AveragePrecision,  ///< over the same
  Hits,  ///< share of the links with a higher score than the `hitsK`-th best of all negatives
  MRR,   ///< mean of 1/rank of each link among its own `negatives`, ties at their mean rank
};

/// Which parameters are measured on the test set.
enum class TestModel {
  Last,  ///< those at the end of training
  Best,  ///< those of checkpoint.best
};

struct Evaluation {
  /// Epochs between two evaluations of `parts`; 0: only after the last epoch.
  int64_t every = 1;
  /// Each at most once; absent: Validation. Test is evaluated after the last epoch in any case. Not
  /// Train with LinkPrediction.
  std::optional<std::vector<Part>> parts = {};
  EvaluationMode mode = EvaluationMode::Sampled;
  /// Sampled, not GraphClassification; absent: sampling.fanout.
  std::optional<std::vector<int64_t>> fanout = {};
  /// Sampled: the most batches of a rank in the evaluation of a part other than Test; absent: all.
  std::optional<int64_t> max_batches = {};
  std::optional<Metric> metric = {};      ///< absent: Accuracy; AUC with LinkPrediction
  std::optional<int64_t> hits_k = {};     ///< "hitsK": Hits
  std::optional<int64_t> negatives = {};  ///< MRR: number for each link, fixed by the split's seed
  std::optional<TestModel> test_model = {};  ///< absent: Last
  friend bool operator==(const Evaluation&, const Evaluation&) = default;
};

/// Ends the training once validation no longer improves.
struct EarlyStopping {
  Metric metric = Metric::Accuracy;  ///< that of the evaluations
  int64_t patience = 1;              ///< evaluations in a row without an improvement
  Decimal min_delta{"0"};            ///< only a rise by more than this is an improvement
  friend bool operator==(const EarlyStopping&, const EarlyStopping&) = default;
};

enum class ClassWeighting {
  Balanced,  ///< training items / (classes among them · items of the class), as in scikit-learn
  Given,
};

/// How much the items of each class count in the loss, which is a weighted mean.
struct ClassWeights {
  ClassWeighting type = ClassWeighting::Balanced;
  std::vector<Decimal> weights = {};  ///< with Given, one for each class, in order
  friend bool operator==(const ClassWeights&, const ClassWeights&) = default;
};

/// Seconds without progress after which the agent considers a stage hung and starts a new round,
/// or of silence after which it gives up another node.
struct StageTimeouts {
  /// Until all nodes have joined; pods have runPolicy.schedulingTimeoutSeconds more.
  int64_t rendezvous_seconds = contract::kDefaultRendezvousSeconds;
  /// Between two signs of progress while a rank reads or generates the data, up to its first step.
  /// A rank that waits for others progresses with them.
  int64_t setup_seconds = contract::kDefaultSetupSeconds;
  /// Between two steps or evaluation batches.
  int64_t step_seconds = contract::kDefaultStepSeconds;
  int64_t checkpoint_seconds = contract::kDefaultCheckpointSeconds;
  /// Of silence, until another node or the store counts as lost.
  int64_t peer_seconds = contract::kDefaultPeerSeconds;
  friend bool operator==(const StageTimeouts&, const StageTimeouts&) = default;
};

struct Training {
  DeviceChoice device = DeviceChoice::Auto;
  int64_t epochs = 5;
  /// Seeds (or graphs, or links without the negatives that come with them) per rank and batch.
  int64_t batch_size = 1024;
  bool shuffle = true;
  bool drop_last = false;  ///< drop a rank's last, smaller batch
  int64_t seed = 0;
  std::optional<Precision> precision = {};  ///< absent: Float32
  Optimizer optimizer;
  std::optional<Embeddings> embeddings = {};  ///< BipartiteSAGE; absent: the defaults
  /// Owner if and only if the spec has a placement; absent: that, Interleave for GraphClassification,
  /// or Slice.
  std::optional<Sharding> sharding = {};
  UnevenInputs uneven_inputs = UnevenInputs::Shadow;
  /// Whether each rank's gradient is weighted by the size of its batch, so that all ranks together
  /// compute the gradient of the union of their batches.
  bool weigh_by_batch_size = false;
  int64_t gradient_accumulation = 1;                 ///< batches per optimizer step
  std::optional<ClassWeights> class_weights = {};    ///< classification; absent: all count the same
  std::optional<EarlyStopping> early_stopping = {};  ///< absent: all epochs are trained
  int64_t log_steps = 0;  ///< optimizer steps between two log lines; 0: none
  Evaluation evaluation;
  StageTimeouts timeouts;
  friend bool operator==(const Training&, const Training&) = default;
};

// ---- spec: features

/// Where the feature rows of a node lie that its ranks gather batches from.
enum class FeatureMemory {
  Host,      ///< the node's memory; CPUs gather
  ZeroCopy,  ///< pinned memory of the node, from which GPUs gather in place over the bus
  Device,    ///< all of them on the GPU of each rank, never a silent fallback to Host
};

/// It changes neither batches nor results.
struct Features {
  FeatureMemory memory = FeatureMemory::Host;
  /// ZeroCopy: the rows that batches read most are on each GPU as well, as a share of all rows that the
  /// rank reads itself, in [0, 1]; absent: none.
  std::optional<Decimal> device_rows = {};
  friend bool operator==(const Features&, const Features&) = default;
};

// ---- spec: placement

/// Where a kind of data lies.
enum class PlacementMode {
  Replicated,   ///< each node reads all of it
  Partitioned,  ///< node n of a data set of P partitions reads partition n mod P, and asks others
};

/// Which remote rows a rank keeps.
enum class CachePolicy {
  Hotness,  ///< those that batches of its partition are expected to read most often
  Degree,   ///< those of the nodes that most lists of neighbours hold
  None,
};

/// Feature rows of other partitions that each rank keeps in memory.
struct FeatureCache {
  Decimal rows{"0.1"};  ///< as a share of all rows of a node type, in [0, 1]
  CachePolicy policy = CachePolicy::Hotness;
  friend bool operator==(const FeatureCache&, const FeatureCache&) = default;
};

/// Where the data of a partitioned set lies. It changes neither batches nor results.
struct Placement {
  PlacementMode topology = PlacementMode::Replicated;
  PlacementMode features = PlacementMode::Replicated;
  int64_t partitions = 1;  ///< of the data set, which must have as many; at most workers.nodes
  /// Only if features are Partitioned; absent: the defaults.
  std::optional<FeatureCache> cache = {};
  friend bool operator==(const Placement&, const Placement&) = default;
};

// ---- spec: workers

enum class Backend {
  Auto,  ///< NCCL when the ranks run on CUDA, else Gloo
  Gloo,  ///< only for ranks on the CPU
  NCCL,
};

// From here to PodTemplate: names and shapes as in a Kubernetes pod, without what is not allowed.

/// A Kubernetes resource list: name → quantity.
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
  std::optional<int64_t> toleration_seconds = {};
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
  int64_t weight = 1;
  NodeSelectorTerm preference;
  friend bool operator==(const PreferredNodeTerm&, const PreferredNodeTerm&) = default;
};

struct NodeSelector {
  std::vector<NodeSelectorTerm> node_selector_terms = {};  ///< at least one must match
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
  std::optional<std::string> medium = {};  ///< "Memory"
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

/// Whom a job's pods run as, and whose its volumes are, where neither the job nor the cluster says:
/// the user and group of the images.
inline constexpr int64_t kDefaultPodUser = 65532;

/// When the volumes' files are given to fsGroup: at each start, or only if their root is not the group's.
enum class FsGroupChangePolicy { OnRootMismatch, Always };

/// User, group and volume group of the worker; never root.
struct PodSecurity {
  /// Each absent: kDefaultPodUser, or the cluster's choice.
  std::optional<int64_t> run_as_user = {};
  std::optional<int64_t> run_as_group = {};
  std::optional<int64_t> fs_group = {};
  std::optional<FsGroupChangePolicy> fs_group_change_policy = {};  ///< absent: OnRootMismatch
  friend bool operator==(const PodSecurity&, const PodSecurity&) = default;
};

/// What a job puts on its pods beside the operator's own labels; pod_metadata.h says with which keys.
struct PodMetadata {
  std::map<std::string, std::string> labels = {};
  std::map<std::string, std::string> annotations = {};
  friend bool operator==(const PodMetadata&, const PodMetadata&) = default;
};

enum class ImagePullPolicy { Always, IfNotPresent, Never };

/// The part of a pod that users choose. It is an allow-list: there are no host namespaces or paths,
/// no privileges, no service account and nothing of another namespace. May be absent in manifests
/// for `gnn-worker run`.
struct PodTemplate {
  std::optional<PodMetadata> metadata = {};  ///< absent: nothing
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
  int64_t termination_grace_period_seconds = contract::kDefaultGraceSeconds;
  friend bool operator==(const PodTemplate&, const PodTemplate&) = default;
};

/// A whole GPU, as the device plugin of NVIDIA names it.
inline constexpr std::string_view kGpuResource = "nvidia.com/gpu";

struct Workers {
  int64_t nodes = 1;               ///< pods
  int64_t processes_per_node = 1;  ///< ranks per pod
  int64_t gpus_per_process = 0;    ///< 0 or 1
  /// What a pod requests for its GPUs: whole ones, MIG slices or shares; absent: kGpuResource.
  std::optional<std::string> gpu_resource = {};
  Backend backend = Backend::Auto;
  std::optional<PodTemplate> pod_template = {};  ///< "template"
  friend bool operator==(const Workers&, const Workers&) = default;
};

/// Sampling servers: pods beside the gang that hold the data and make the batches, so that the workers
/// need neither graph nor features. They change neither batches nor results. Server n holds partition
/// n mod placement.partitions.
struct Servers {
  /// Pods; absent: as many as placement.partitions. May change while the job runs.
  std::optional<int64_t> nodes = {};
  /// Bytes of answers that a server keeps at a time, as a whole number of Mi or Gi.
  std::string max_bytes_in_flight = "256Mi";
  std::optional<PodTemplate> pod_template = {};  ///< "template"
  friend bool operator==(const Servers&, const Servers&) = default;

  /// max_bytes_in_flight as a number, of a valid job.
  [[nodiscard]] int64_t bytes_in_flight() const;
};

// ---- spec: checkpoint, run policy

/// Absent: no checkpoint is written and none is read.
/// The checkpoint of the epoch whose validation is best; the first of equals.
struct BestCheckpoint {
  Metric metric = Metric::Accuracy;  ///< that of the evaluations
  friend bool operator==(const BestCheckpoint&, const BestCheckpoint&) = default;
};

struct Checkpoint {
  /// A folder, on a volume that all nodes share if the job is to survive the loss of a node.
  std::string path = {};
  int64_t every_epochs = 1;                 ///< 0: not by epochs
  int64_t every_steps = 0;                  ///< 0: not by steps
  int64_t keep = 3;                         ///< number of newest valid checkpoints to keep
  std::optional<BestCheckpoint> best = {};  ///< kept beside them; absent: none
  /// Auto: from the newest valid one, if any; Never; or the path of a checkpoint, which must be
  /// valid.
  std::string resume = "Auto";
  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

/// Whose names the tensors of an exported model have.
enum class ParameterNames { DGL, PyG };

/// Where trained models are written for other programs, as safetensors.
struct Export {
  std::string path = {};  ///< a folder, on a volume
  /// Absent: model.graphSage.parameters, and PyG's for other models.
  std::optional<ParameterNames> names = {};
  friend bool operator==(const Export&, const Export&) = default;
};

/// What is written of each node.
enum class Output {
  Classes,     ///< the class with the highest score, int64
  Scores,      ///< of each class, before softmax, float32
  Embeddings,  ///< the input of the last layer, float32
};

/// What the trained model says of nodes, as .npy files: one of their ids, and one for each output.
struct Predictions {
  std::string path = {};                            ///< a folder, on a volume
  std::optional<std::vector<Output>> outputs = {};  ///< each at most once; absent: Classes
  std::optional<std::string> nodes = {};  ///< a .npy file of int64 node ids; absent: all nodes
  friend bool operator==(const Predictions&, const Predictions&) = default;
};

struct TensorBoard {
  std::string path = {};  ///< a folder, on a volume; each job writes into one of its own
  friend bool operator==(const TensorBoard&, const TensorBoard&) = default;
};

struct Mlflow {
  std::string uri = {};         ///< of the tracking server: https:// or http://, without user-info
  std::string experiment = {};  ///< its name; it is made if it is not there
  friend bool operator==(const Mlflow&, const Mlflow&) = default;
};

/// Where other programs can watch losses and metrics. It changes neither batches nor results, and a
/// tracker that fails stops no job.
struct Tracking {
  std::optional<TensorBoard> tensor_board = {};  ///< "tensorBoard"
  std::optional<Mlflow> mlflow = {};
  friend bool operator==(const Tracking&, const Tracking&) = default;
};

enum class CleanPodPolicy {
  Running,  ///< delete pods that still run, keep finished ones for their logs
  All,      ///< delete all pods
  None,     ///< delete none, but stop those that still run when the job fails
};

/// How long the next attempt waits after one that failed. The first restart after a healthy stretch
/// follows at once; each further one waits twice as long as the one before.
struct BackoffPolicy {
  int64_t initial_seconds = 10;  ///< of the second restart in a row
  int64_t max_seconds = 360;
  /// An attempt that has run for so long was healthy: restarts are counted from 0 again.
  int64_t healthy_seconds = 600;
  friend bool operator==(const BackoffPolicy&, const BackoffPolicy&) = default;
};

/// Why a node or a server failed; docs/state-machine.md says what each means.
enum class FailureReason {
  Configuration,
  Data,
  OutOfMemory,
  StorageExceeded,
  Error,
  NotStarted,
  PeerLost,
  Preempted,
  Disrupted,
  PodDeleted,
  NodeLost,
};

enum class FailureAction {
  Restart,      ///< the whole gang
  RestartNode,  ///< the lost node's pod alone, where that is possible; else the whole gang
  Fail,         ///< the job, for good
  Ignore,       ///< only of a server: its pod is replaced, whatever the default
};

/// Whose failures a rule is about.
enum class FailureRole { Worker, Server };

/// What to do about failures with one of the exit codes and one of the reasons; an empty list
/// matches all, but not both are empty.
struct FailureRule {
  std::optional<FailureRole> role = {};  ///< absent: Worker
  std::vector<int64_t> exit_codes = {};
  std::vector<FailureReason> reasons = {};
  FailureAction action = FailureAction::Restart;
  bool charge = true;  ///< whether a restart counts against maxRestarts
  friend bool operator==(const FailureRule&, const FailureRule&) = default;
};

/// What follows from a node's failure.
struct FailurePolicy {
  std::vector<FailureRule> rules = {};  ///< the first that matches decides
  BackoffPolicy backoff;
  /// Restarts that failures on one Kubernetes node may cause until pods avoid it; absent: they never
  /// do.
  std::optional<int64_t> max_restarts_per_node = {};
  friend bool operator==(const FailurePolicy&, const FailurePolicy&) = default;
};

struct RunPolicy {
  int64_t max_restarts = 3;  ///< attempts and rounds together; disruptions do not count
  std::optional<int64_t> active_deadline_seconds = {};  ///< since startTime; absent: none
  /// A gang whose pods are not all scheduled by then is released, to be tried again later.
  int64_t scheduling_timeout_seconds = 600;
  /// A gang that is scheduled whole, but whose containers have not all started by then, has failed.
  int64_t startup_deadline_seconds = 900;
  /// How long ranks wait while no live server holds a part that they need; absent: 300.
  std::optional<int64_t> server_timeout_seconds = {};
  std::optional<int64_t> ttl_seconds_after_finished = {};  ///< absent: the job stays
  CleanPodPolicy clean_pod_policy = CleanPodPolicy::Running;
  FailurePolicy failure_policy;
  friend bool operator==(const RunPolicy&, const RunPolicy&) = default;
};

// ---- spec: prepare

/// The forms of raw data that an import reads.
enum class ImportFormat {
  OGB,
  TU,
  GIN,
  EdgeList,
  Reddit,
  Taobao,
  PackageIndex,  ///< a Debian package index, whose packages are the nodes
  PackageTags,   ///< the same, as packages and their tags
};

enum class SelfLoops {
  Keep,
  Remove,
  Add,
  AddRemaining,  ///< to nodes without one
};

enum class FeatureType { Float32, Float16 };

/// What `gnn-worker data import` is asked for; docs/data.md says which option fits which format.
struct DataImport {
  ImportFormat format = ImportFormat::OGB;
  std::string path = {};  ///< folder or file of the raw data, in a pod below a volume mount
  /// Where the imported data go if they are partitioned next; absent: dataset.path.
  std::optional<std::string> output = {};
  bool replace = false;  ///< exchange a data set that was made from other inputs or options
  std::optional<std::string> split = {};  ///< name of the split; absent: the only one
  bool no_split = false;                  ///< accept data without a split
  bool to_undirected = false;
  bool coalesce = false;
  bool add_reverse = false;
  std::optional<EdgeType> link = {};  ///< what is to be predicted: the data then need no split
  bool row_normalize = false;
  SelfLoops self_loops = SelfLoops::Keep;
  FeatureType feature_type = FeatureType::Float32;
  std::optional<int64_t> classes = {};   ///< absent: the largest label + 1
  std::optional<int64_t> features = {};  ///< of package formats; absent: 512
  std::optional<int64_t> seed = {};      ///< of PackageIndex's split; absent: 0
  friend bool operator==(const DataImport&, const DataImport&) = default;
};

/// How nodes are dealt to partitions.
enum class PartitionMethod {
  Random,
  Hotness,  ///< by how often the batches of each partition read a node
  LDG,      ///< linear deterministic greedy: by where a node's neighbours are
  METIS,    ///< cuts few edges; needs memory for the whole graph
};

/// What `gnn-worker data partition` is asked for. Its output is dataset.path; sampling.replace, rule,
/// fanoutByEdgeType and negatives.amount are the job's.
struct DataPartition {
  std::optional<std::string> input = {};  ///< native data that are there; absent: import.output
  std::optional<int64_t> parts = {};      ///< absent: placement.partitions
  PartitionMethod method = PartitionMethod::Hotness;
  std::optional<std::vector<int64_t>> fanout = {};  ///< absent: sampling.fanout
  std::optional<int64_t> batch_size = {};           ///< absent: training.batchSize
  /// Rows of other partitions to list as a partition's hottest, as a share of all rows in [0, 1];
  /// absent: 0.2, or the share that a cache by Hotness is to hold if that is larger.
  std::optional<Decimal> hot_rows = {};
  bool replace = false;  ///< exchange data that were made from other inputs or options
  friend bool operator==(const DataPartition&, const DataPartition&) = default;
};

/// Makes the data at dataset.path before the gang starts, in a pod of its own: by import, by
/// partition, or by both in this order.
struct Prepare {
  std::optional<DataImport> data_import = {};  ///< "import"
  std::optional<DataPartition> partition = {};
  std::optional<Resources> resources = {};  ///< of its pod; absent: those of the workers' template
  friend bool operator==(const Prepare&, const Prepare&) = default;
};

/// A choice without fields of its own.
struct Chosen {
  friend bool operator==(const Chosen&, const Chosen&) = default;
};

/// One of them; absent: gang.
struct SchedulingPolicy {
  std::optional<Chosen> gang = {};   ///< all pods of the attempt get a place, or none
  std::optional<Chosen> basic = {};  ///< each for itself, as without a group
  friend bool operator==(const SchedulingPolicy&, const SchedulingPolicy&) = default;
};

struct TopologyConstraint {
  std::string key = {};  ///< a label of Kubernetes nodes, e.g. topology.kubernetes.io/rack
  friend bool operator==(const TopologyConstraint&, const TopologyConstraint&) = default;
};

struct SchedulingConstraints {
  std::vector<TopologyConstraint> topology = {};  ///< at most one
  friend bool operator==(const SchedulingConstraints&, const SchedulingConstraints&) = default;
};

/// One of them.
struct DisruptionMode {
  std::optional<Chosen> single = {};  ///< the scheduler may preempt a pod alone
  std::optional<Chosen> all = {};     ///< or only all pods of the group together
  friend bool operator==(const DisruptionMode&, const DisruptionMode&) = default;
};

/// What places the pods of an attempt together.
enum class GangProvider {
  Auto,          ///< what the cluster serves and the operator may use
  None,          ///< nothing: pods are placed one by one
  Native,        ///< the PodGroup of Kubernetes 1.37, scheduling.k8s.io/v1beta1
  Coscheduling,  ///< that of the plugin, scheduling.x-k8s.io/v1alpha1
  Volcano,       ///< that of Volcano, scheduling.volcano.sh/v1beta1
};

enum class NetworkTopologyMode { Hard, Soft };

/// Volcano's: how far apart the pods may be, in tiers of its HyperNodes.
struct NetworkTopology {
  NetworkTopologyMode mode = NetworkTopologyMode::Hard;
  std::optional<int64_t> highest_tier_allowed = {};  ///< absent: any
  friend bool operator==(const NetworkTopology&, const NetworkTopology&) = default;
};

/// What only Volcano has.
struct VolcanoScheduling {
  std::optional<std::string> queue = {};  ///< absent: Volcano's default
  std::optional<NetworkTopology> network_topology = {};
  friend bool operator==(const VolcanoScheduling&, const VolcanoScheduling&) = default;
};

/// How the pods of an attempt are placed: by a group object that a scheduler knows.
struct Scheduling {
  std::optional<SchedulingPolicy> scheduling_policy = {};            ///< absent: gang
  std::optional<SchedulingConstraints> scheduling_constraints = {};  ///< absent: none
  std::optional<DisruptionMode> disruption_mode = {};  ///< absent: the provider's default
  GangProvider provider = GangProvider::Auto;
  std::optional<VolcanoScheduling> volcano = {};
  friend bool operator==(const Scheduling&, const Scheduling&) = default;
};

// ---- spec

struct GnnJobSpec {
  bool suspend = false;  ///< no pods while true
  /// Absent or "gnn.dev/gnn-controller": ours; the controller ignores jobs with any other value.
  std::optional<std::string> managed_by = {};
  Task task;
  Dataset dataset;
  Model model;
  std::optional<Sampling> sampling = {};
  Training training;
  std::optional<Features> features = {};    ///< NodeClassification; absent: the defaults
  std::optional<Placement> placement = {};  ///< absent: each node reads the whole data set
  Workers workers;
  std::optional<Servers> servers = {};  ///< absent: the workers make their batches themselves
  std::optional<Prepare> prepare = {};  ///< absent: the data are there
  std::optional<Checkpoint> checkpoint = {};
  std::optional<Export> model_export = {};      ///< "export"; absent: no model is written
  std::optional<Predictions> predictions = {};  ///< required by Inference; absent: none
  std::optional<Tracking> tracking = {};        ///< absent: no tracker is told
  RunPolicy run_policy;
  std::optional<Scheduling> scheduling = {};  ///< absent: pods are placed one by one
  friend bool operator==(const GnnJobSpec&, const GnnJobSpec&) = default;
};

// ---- status

struct Condition {
  std::string type = {};
  std::string status = {};  ///< True | False | Unknown
  std::string reason = {};
  std::string message = {};
  int64_t observed_generation = 0;
  TimePoint last_transition_time{};
  friend bool operator==(const Condition&, const Condition&) = default;
};

struct NodeCounts {
  int64_t desired = 0;
  int64_t ready = 0;  ///< running and ready, or succeeded
  int64_t succeeded = 0;
  int64_t failed = 0;
  std::string summary = {};  ///< "ready/desired" for the printer column
  friend bool operator==(const NodeCounts&, const NodeCounts&) = default;
};

/// The latest known progress: from node 0's /progress while it runs, from its termination message
/// at the end. Numbers are decimal strings, or "NaN", "Inf" and "-Inf".
struct JobProgress {
  std::optional<int64_t> epoch = {};  ///< number of the current epoch, from 1
  std::optional<int64_t> epochs = {};
  std::optional<int64_t> global_step = {};  ///< optimizer steps done since the start of training
  std::optional<std::string> loss = {};     ///< mean of the last epoch
  /// "accuracy", "auc", ...: what the next three are values of. An older worker says nothing.
  std::optional<std::string> metric_name = {};
  std::optional<std::string> train_metric = {};
  std::optional<std::string> validation_metric = {};
  std::optional<std::string> test_metric = {};
  /// Whose test_metric it is: "last" or "best". An older worker says nothing and means the last.
  std::optional<std::string> test_model = {};
  std::optional<int64_t> best_epoch = {};           ///< of the best validation so far, from 1
  std::optional<std::string> best_metric = {};      ///< its validation
  std::optional<std::string> best_checkpoint = {};  ///< path; only with spec.checkpoint.best
  std::optional<std::string> rate = {};             ///< seeds (or graphs) per second, all ranks
  std::optional<int64_t> eta_seconds = {};
  std::optional<std::string> eta = {};         ///< the same for people, such as "3m20s"
  std::optional<std::string> checkpoint = {};  ///< newest one written
  friend bool operator==(const JobProgress&, const JobProgress&) = default;
};

/// One of the last failures, each of which ended an attempt or had a node replaced.
struct FailureRecord {
  int64_t attempt = 0;
  std::optional<int64_t> node = {};
  std::optional<std::string> machine = {};  ///< the Kubernetes node that the pod was on
  std::optional<int64_t> rank = {};
  std::optional<int64_t> exit_code = {};
  std::string reason = {};
  bool charged = false;  ///< whether it counted against maxRestarts
  TimePoint time{};
  friend bool operator==(const FailureRecord&, const FailureRecord&) = default;
};

struct LastFailure {
  int64_t attempt = 0;
  std::optional<int64_t> node = {};
  std::optional<std::string> machine = {};  ///< the Kubernetes node that the pod was on
  std::optional<int64_t> rank = {};         ///< the rank that failed first, if its agent could tell
  std::optional<int64_t> exit_code = {};
  std::string reason = {};
  std::string message = {};
  std::optional<std::string> stderr_tail = {};  ///< the end of the failed rank's stderr
  TimePoint time{};
  friend bool operator==(const LastFailure&, const LastFailure&) = default;
};

/// Restarts since the job last ran for failurePolicy.backoff.healthySeconds.
struct RestartStreaks {
  int64_t charged = 0;
  int64_t free = 0;
  friend bool operator==(const RestartStreaks&, const RestartStreaks&) = default;
};

/// Restarts since the last healthy stretch that were caused by failures on one Kubernetes node.
struct MachineRestarts {
  std::string name = {};
  int64_t restarts = 0;
  friend bool operator==(const MachineRestarts&, const MachineRestarts&) = default;
};

/// A sampling server that has had a pod.
struct ServerRecord {
  int64_t server = 0;
  int64_t restart = 0;   ///< number of its present pod, or of the next one if `made` is false
  bool made = false;     ///< the pod of that number has been seen
  int64_t failures = 0;  ///< since it last ran for failurePolicy.backoff.healthySeconds
  std::optional<TimePoint> next_time = {};  ///< the next pod is not made before
  friend bool operator==(const ServerRecord&, const ServerRecord&) = default;
};

struct ServerCounts {
  int64_t desired = 0;
  int64_t ready = 0;
  int64_t restarts = 0;      ///< pods that replaced lost ones; never decreases
  std::string summary = {};  ///< "ready/desired", for the printer column
  /// Those that have had a pod, by number. They stay when the job is scaled down, because no number of
  /// a pod is used twice.
  std::vector<ServerRecord> pods = {};
  friend bool operator==(const ServerCounts&, const ServerCounts&) = default;
};

/// How the pods of the current attempt are placed.
struct SchedulingStatus {
  /// A word of GangProvider; a newer version may know others. Only with spec.scheduling.
  std::optional<std::string> provider = {};
  std::optional<std::string> group = {};     ///< name of the attempt's group object
  std::optional<std::string> message = {};   ///< why there is none, although the spec asks for one
  std::optional<std::string> workload = {};  ///< name of the Workload by which the job is queued
  std::optional<std::string> cluster_queue = {};  ///< the ClusterQueue that has admitted it
  friend bool operator==(const SchedulingStatus&, const SchedulingStatus&) = default;
};

struct GnnJobStatus {
  int64_t observed_generation = 0;
  std::vector<Condition> conditions = {};
  std::string state = {};    ///< one word derived from the conditions, for the printer column
  std::string message = {};  ///< why the job is in this state, or what it waits for
  int64_t attempt = 0;       ///< number of the current gang of pods, from 1; 0 before the first
  int64_t round = 0;         ///< in-place restarts in this attempt
  int64_t restarts = 0;      ///< restarts that count against maxRestarts; never decreases
  /// How often the job ran out of memory since it last ran well; the second time ends it.
  int64_t out_of_memory = 0;
  /// The same for pods that were evicted because they wrote more than their storage limits allow.
  int64_t storage_exceeded = 0;
  RestartStreaks backoff;  ///< decides how long the next restart waits
  /// How often the gang was released unscheduled since it last ran.
  int64_t releases = 0;
  std::optional<TimePoint> next_attempt_time = {};  ///< the next attempt does not start before
  NodeCounts nodes;
  std::optional<ServerCounts> servers = {};  ///< only with spec.servers
  /// Only with spec.scheduling, once the attempt has been decided on, or in a queue.
  std::optional<SchedulingStatus> scheduling = {};
  std::optional<JobProgress> progress = {};
  /// When the operator started the job, or restarted it after a suspension.
  std::optional<TimePoint> start_time = {};
  std::optional<TimePoint> completion_time = {};
  std::optional<LastFailure> last_failure = {};
  std::vector<FailureRecord> failures = {};  ///< the last kMaxFailureRecords, oldest first
  /// Kept if failurePolicy.maxRestartsPerNode is set; at most kMaxMachines.
  std::vector<MachineRestarts> machines = {};
  /// The nodes whose pods were replaced in this attempt, in order: a node twice if its pod was
  /// replaced twice. Written before the new pod is created.
  std::vector<int64_t> replaced_nodes = {};
  /// The Secret with the data key that new pods have. Written before the first of them is created.
  std::optional<std::string> data_key_secret = {};
  /// A JSON object with the fields of a newer version, at any depth, to be written back; empty: none.
  /// Those of a list's entry go with the entry: a condition's type, a machine's name, and of a failure
  /// the attempt, node and time.
  std::string unknown_fields = {};
  friend bool operator==(const GnnJobStatus&, const GnnJobStatus&) = default;
};

// ---- job

/// What we read of metadata; written back by patches only.
struct JobMetadata {
  std::string name = {};
  std::string namespace_ = {};
  std::string uid = {};
  std::string resource_version = {};
  int64_t generation = 0;
  std::optional<TimePoint> creation_timestamp = {};
  std::optional<TimePoint> deletion_timestamp = {};
  std::vector<std::string> finalizers = {};
  std::map<std::string, std::string> labels = {};
  std::map<std::string, std::string> annotations = {};
  friend bool operator==(const JobMetadata&, const JobMetadata&) = default;
};

/// A word of an enum that this version does not know.
struct UnknownWord {
  std::string path = {};  ///< e.g. "spec.model.type"
  std::string word = {};  ///< as JSON, shortened
  friend bool operator==(const UnknownWord&, const UnknownWord&) = default;
};

struct GnnJob {
  JobMetadata metadata;
  GnnJobSpec spec;
  GnnJobStatus status;
  /// Of the spec, as stored under a newer CRD. Their fields have the defaults, and lists lack them:
  /// nothing may be started from such a spec.
  std::vector<UnknownWord> unknown_words = {};
  friend bool operator==(const GnnJob&, const GnnJob&) = default;
};

}  // namespace gnn::api
