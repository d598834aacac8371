#pragma once

#include "common/api/gnn_job.h"

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>

/// The only place that maps members to JSON fields and says which fields are required and which
/// values they allow. Decoder, encoder, validation and the test against the CRD all walk the
/// structs by `visit`.
namespace gnn::api {

/// The form that a string must have. The CRD has the same pattern, word for word.
enum class TextForm {
  Any,
  DnsLabel,      ///< RFC 1123 label
  DnsSubdomain,  ///< RFC 1123 subdomain
  AbsolutePath,
  RelativePath,
  EnvName,
  QualifiedName,  ///< label and taint keys: optional prefix and name
  LabelValue,
  Quantity,     ///< Kubernetes quantity, not negative
  ByteSize,     ///< Kubernetes quantity: a whole number of Mi or Gi, not 0
  Resume,       ///< Auto, Never or an absolute path
  GpuResource,  ///< of NVIDIA's device plugin: GPUs, MIG slices by profile, shares of either
};

/// The regular expression of a form; empty for Any.
[[nodiscard]] std::string_view pattern(TextForm form);

/// The values that a field allows; only the members that fit the field's type apply.
struct Bounds {
  std::optional<int64_t> min;  ///< integers, and the elements of integer lists
  std::optional<int64_t> max;
  int64_t min_length = 0;  ///< strings, and the keys and values of string maps
  int64_t max_length = 1024;
  TextForm form = TextForm::Any;
  int64_t min_items = 0;  ///< lists and maps
  int64_t max_items = 64;
  double min_decimal = 0;  ///< decimal strings, inclusive
  double max_decimal = std::numeric_limits<double>::infinity();
  bool above_min = false;  ///< the decimal must be greater than min_decimal
  bool below_max = false;  ///< the decimal must be less than max_decimal
};

[[nodiscard]] constexpr Bounds between(int64_t min, int64_t max) {
  Bounds bounds;
  bounds.min = min;
  bounds.max = max;
  return bounds;
}

[[nodiscard]] constexpr Bounds items(int64_t min, int64_t max) {
  Bounds bounds;
  bounds.min_items = min;
  bounds.max_items = max;
  return bounds;
}

[[nodiscard]] constexpr Bounds text(TextForm form, int64_t max_length, int64_t min_length = 1) {
  Bounds bounds;
  bounds.form = form;
  bounds.max_length = max_length;
  bounds.min_length = min_length;
  return bounds;
}

/// A decimal in [min, max].
[[nodiscard]] constexpr Bounds decimal(double min, double max) {
  Bounds bounds;
  bounds.min_decimal = min;
  bounds.max_decimal = max;
  return bounds;
}

/// A decimal in [min, max).
[[nodiscard]] constexpr Bounds decimal_below(double min, double max) {
  Bounds bounds = decimal(min, max);
  bounds.below_max = true;
  return bounds;
}

/// A decimal in (min, max].
[[nodiscard]] constexpr Bounds decimal_above(double min, double max) {
  Bounds bounds = decimal(min, max);
  bounds.above_min = true;
  return bounds;
}

inline constexpr int64_t kMaxNodes = 1024;
inline constexpr int64_t kMaxProcessesPerNode = 64;
inline constexpr int64_t kMaxSeed = 9007199254740991;  // 2^53 − 1: exact in every JSON reader
inline constexpr int64_t kMaxSeconds = 31536000;       // a year
inline constexpr int64_t kMaxPeerSeconds = 86400;      // sockets count milliseconds in an int
inline constexpr int64_t kMaxBackoffSeconds = 86400;
inline constexpr int64_t kMaxFailureRecords = 10;
inline constexpr int64_t kMaxMachines = 8;
inline constexpr int64_t kMaxReplacedNodes = 1000;
inline constexpr int64_t kMaxLayers = 16;
inline constexpr int64_t kMaxWidth = 16384;
inline constexpr Bounds kTypeName = text(TextForm::Any, 128);
inline constexpr Bounds kFanout = [] {
  Bounds bounds = items(1, kMaxLayers);
  bounds.min = -1;
  bounds.max = 100000;
  return bounds;
}();

template <class T, class S>
concept Of = std::same_as<std::remove_const_t<T>, S>;

// A visitor has: required(name, member, bounds) for what a manifest must say;
// field(name, member, bounds) for what has a default, or, where the member is a std::optional, a
// meaning when absent; added(name, member, bounds) for a flag, off by default, that came after jobs
// were written without it: it is left out while it is off, so that older workers read the job and its
// checkpoints go on fitting.

void visit(auto& v, Of<EdgeType> auto& x) {
  v.required("source", x.source, kTypeName);
  v.required("relation", x.relation, kTypeName);
  v.required("destination", x.destination, kTypeName);
}

void visit(auto& v, Of<Task> auto& x) {
  v.required("type", x.type, Bounds{});
  v.field("mode", x.mode, Bounds{});
  v.field("link", x.link, Bounds{});
}

void visit(auto& v, Of<Synthetic> auto& x) {
  v.required("shape", x.shape, Bounds{});
  v.field("scale", x.scale, decimal_above(0, 100));
  v.field("seed", x.seed, between(0, kMaxSeed));
  v.field("flippedLabels", x.flipped_labels, decimal(0, 1));
}

void visit(auto& v, Of<Split> auto& x) {
  v.field("type", x.type, Bounds{});
  v.field("name", x.name, text(TextForm::DnsSubdomain, 63));
  v.field("train", x.train, decimal_above(0, 1));
  v.field("validation", x.validation, decimal(0, 1));
  v.field("test", x.test, decimal(0, 1));
  v.field("folds", x.folds, between(2, 100));
  v.field("fold", x.fold, between(0, 99));
  v.field("seed", x.seed, between(0, kMaxSeed));
  v.field("negativeRatio", x.negative_ratio, decimal_above(0, 1000));
  v.field("disjointTrain", x.disjoint_train, decimal_below(0, 1));
}

void visit(auto& v, Of<CoOccurrence> auto& x) {
  v.required("node", x.node, kTypeName);
  v.required("through", x.through, kTypeName);
  v.required("atLeast", x.at_least, between(1, 1000000000));
  v.field("edges", x.edges, Bounds{});
}

void visit(auto& v, Of<Dataset> auto& x) {
  v.required("format", x.format, Bounds{});
  v.field("path", x.path, text(TextForm::Any, 1024));
  v.field("synthetic", x.synthetic, Bounds{});
  v.field("split", x.split, Bounds{});
  v.field("toUndirected", x.to_undirected, Bounds{});
  v.field("addSelfLoops", x.add_self_loops, Bounds{});
  v.field("coalesce", x.coalesce, Bounds{});
  v.added("addReverse", x.add_reverse, Bounds{});
  v.field("coOccurrence", x.co_occurrence, Bounds{});
  v.field("nodeFeatures", x.node_features, Bounds{});
  v.field("featureTransform", x.feature_transform, Bounds{});
}

void visit(auto& v, Of<GraphSage> auto& x) {
  v.field("layers", x.layers, between(1, kMaxLayers));
  v.field("hiddenChannels", x.hidden_channels, between(1, kMaxWidth));
  v.field("dropout", x.dropout, decimal_below(0, 1));
  v.field("parameters", x.parameters, Bounds{});
}

void visit(auto& v, Of<Gcn> auto& x) {
  v.field("layers", x.layers, between(1, kMaxLayers));
  v.field("hiddenChannels", x.hidden_channels, between(1, kMaxWidth));
  v.field("dropout", x.dropout, decimal_below(0, 1));
}

void visit(auto& v, Of<Gin> auto& x) {
  v.field("layers", x.layers, between(1, kMaxLayers));
  v.field("hiddenChannels", x.hidden_channels, between(1, kMaxWidth));
  v.field("mlpLayers", x.mlp_layers, between(1, 4));
  v.field("batchNorm", x.batch_norm, Bounds{});
  v.field("learnEps", x.learn_eps, Bounds{});
  v.field("dropout", x.dropout, decimal_below(0, 1));
  v.field("pooling", x.pooling, Bounds{});
  v.field("readout", x.readout, Bounds{});
}

void visit(auto& v, Of<BipartiteSage> auto& x) {
  v.field("hiddenChannels", x.hidden_channels, between(1, kMaxWidth));
  v.field("outChannels", x.out_channels, between(1, kMaxWidth));
}

void visit(auto& v, Of<Decoder> auto& x) {
  v.field("type", x.type, Bounds{});
  v.field("hiddenChannels", x.hidden_channels, between(1, kMaxWidth));
}

void visit(auto& v, Of<Model> auto& x) {
  v.required("type", x.type, Bounds{});
  v.field("graphSage", x.graph_sage, Bounds{});
  v.field("gcn", x.gcn, Bounds{});
  v.field("gin", x.gin, Bounds{});
  v.field("bipartiteSage", x.bipartite_sage, Bounds{});
  v.field("decoder", x.decoder, Bounds{});
  v.field("from", x.from, text(TextForm::Any, 1024));
}

void visit(auto& v, Of<EdgeTypeFanout> auto& x) {
  visit(v, x.edge_type);
  v.required("fanout", x.fanout, kFanout);
}

void visit(auto& v, Of<Negatives> auto& x) {
  v.field("type", x.type, Bounds{});
  v.field("amount", x.amount, decimal_above(0, 1000));
  v.field("weights", x.weights, Bounds{});
  v.field("strict", x.strict, Bounds{});
}

void visit(auto& v, Of<Sampling> auto& x) {
  v.required("fanout", x.fanout, kFanout);
  v.field("fanoutByEdgeType", x.fanout_by_edge_type, items(0, 32));
  v.field("replace", x.replace, Bounds{});
  v.field("rule", x.rule, Bounds{});
  v.field("numThreads", x.num_threads, between(1, 256));
  v.field("concurrency", x.concurrency, between(1, 64));
  v.field("prefetch", x.prefetch, between(1, 1024));
  v.field("channelSize", x.channel_size, text(TextForm::ByteSize, 32));
  v.field("device", x.device, Bounds{});
  v.field("topologyMemory", x.topology_memory, Bounds{});
  v.field("negatives", x.negatives, Bounds{});
  v.added("excludeSeedEdges", x.exclude_seed_edges, Bounds{});
}

void visit(auto& v, Of<Warmup> auto& x) {
  v.required("length", x.length, between(1, 1000000000));
  v.field("startFactor", x.start_factor, decimal_above(0, 1));
}

void visit(auto& v, Of<LearningRateSchedule> auto& x) {
  v.field("type", x.type, Bounds{});
  v.field("interval", x.interval, Bounds{});
  v.field("stepSize", x.step_size, between(1, 1000000000));
  v.field("gamma", x.gamma, decimal_above(0, 1));
  v.field("minLearningRate", x.min_learning_rate, decimal(0, 1000));
  v.field("warmup", x.warmup, Bounds{});
}

void visit(auto& v, Of<Optimizer> auto& x) {
  v.field("type", x.type, Bounds{});
  v.field("learningRate", x.learning_rate, decimal_above(0, 1000));
  v.field("weightDecay", x.weight_decay, decimal(0, 1000));
  v.field("momentum", x.momentum, decimal_below(0, 1));
  v.field("schedule", x.schedule, Bounds{});
  v.field("maxGradientNorm", x.max_gradient_norm, decimal_above(0, 1000));
}

void visit(auto& v, Of<Embeddings> auto& x) {
  v.field("update", x.update, Bounds{});
}

void visit(auto& v, Of<Evaluation> auto& x) {
  v.field("every", x.every, between(0, 1000000));
  v.field("parts", x.parts, items(1, 3));
  v.field("mode", x.mode, Bounds{});
  v.field("fanout", x.fanout, kFanout);
  v.field("maxBatches", x.max_batches, between(1, 1000000000));
  v.field("metric", x.metric, Bounds{});
  v.field("hitsK", x.hits_k, between(1, 1000000000));
  v.field("negatives", x.negatives, between(1, 100000));
  v.field("testModel", x.test_model, Bounds{});
}

void visit(auto& v, Of<EarlyStopping> auto& x) {
  v.required("metric", x.metric, Bounds{});
  v.required("patience", x.patience, between(1, 1000000));
  v.field("minDelta", x.min_delta, decimal(0, 1));
}

inline constexpr Bounds kClassWeights = [] {
  Bounds bounds = decimal_above(0, 1000);
  bounds.max_items = 1024;
  return bounds;
}();

void visit(auto& v, Of<ClassWeights> auto& x) {
  v.field("type", x.type, Bounds{});
  v.field("weights", x.weights, kClassWeights);
}

void visit(auto& v, Of<StageTimeouts> auto& x) {
  v.field("rendezvousSeconds", x.rendezvous_seconds, between(1, kMaxSeconds));
  v.field("setupSeconds", x.setup_seconds, between(1, kMaxSeconds));
  v.field("stepSeconds", x.step_seconds, between(1, kMaxSeconds));
  v.field("checkpointSeconds", x.checkpoint_seconds, between(1, kMaxSeconds));
  v.field("peerSeconds", x.peer_seconds, between(1, kMaxPeerSeconds));
}

void visit(auto& v, Of<Training> auto& x) {
  v.field("device", x.device, Bounds{});
  v.field("epochs", x.epochs, between(1, 1000000));
  v.field("batchSize", x.batch_size, between(1, 16777216));
  v.field("shuffle", x.shuffle, Bounds{});
  v.field("dropLast", x.drop_last, Bounds{});
  v.field("seed", x.seed, between(0, kMaxSeed));
  v.field("precision", x.precision, Bounds{});
  v.field("optimizer", x.optimizer, Bounds{});
  v.field("embeddings", x.embeddings, Bounds{});
  v.field("sharding", x.sharding, Bounds{});
  v.field("unevenInputs", x.uneven_inputs, Bounds{});
  v.field("weighByBatchSize", x.weigh_by_batch_size, Bounds{});
  v.field("gradientAccumulation", x.gradient_accumulation, between(1, 4096));
  v.field("classWeights", x.class_weights, Bounds{});
  v.field("earlyStopping", x.early_stopping, Bounds{});
  v.field("logSteps", x.log_steps, between(0, 1000000));
  v.field("evaluation", x.evaluation, Bounds{});
  v.field("timeouts", x.timeouts, Bounds{});
}

void visit(auto& v, Of<Features> auto& x) {
  v.field("memory", x.memory, Bounds{});
  v.field("deviceRows", x.device_rows, decimal(0, 1));
}

void visit(auto& v, Of<FeatureCache> auto& x) {
  v.field("rows", x.rows, decimal(0, 1));
  v.field("policy", x.policy, Bounds{});
}

void visit(auto& v, Of<Placement> auto& x) {
  v.field("topology", x.topology, Bounds{});
  v.field("features", x.features, Bounds{});
  v.required("partitions", x.partitions, between(1, kMaxNodes));
  v.field("cache", x.cache, Bounds{});
}

// ---- the pod template

/// Keys of maps are qualified names. As many as CEL can compare within its cost limit.
inline constexpr Bounds kResourceList = [] {
  Bounds bounds = text(TextForm::Quantity, 64, 0);
  bounds.max_items = 15;
  return bounds;
}();

[[nodiscard]] constexpr Bounds label_values(int64_t max_items) {
  Bounds bounds = text(TextForm::LabelValue, 63, 0);
  bounds.max_items = max_items;
  return bounds;
}

// Kubernetes allows 256 KiB in all; every pod of a gang has them.
inline constexpr Bounds kPodAnnotations = [] {
  Bounds bounds = text(TextForm::Any, 1024, 0);
  bounds.max_items = 16;
  return bounds;
}();

void visit(auto& v, Of<PodMetadata> auto& x) {
  v.field("labels", x.labels, label_values(16));
  v.field("annotations", x.annotations, kPodAnnotations);
}

void visit(auto& v, Of<Resources> auto& x) {
  v.field("requests", x.requests, kResourceList);
  v.field("limits", x.limits, kResourceList);
}

void visit(auto& v, Of<Toleration> auto& x) {
  v.field("key", x.key, text(TextForm::QualifiedName, 317));
  v.field("operator", x.op, Bounds{});
  v.field("value", x.value, text(TextForm::LabelValue, 63, 0));
  v.field("effect", x.effect, Bounds{});
  v.field("tolerationSeconds", x.toleration_seconds, between(0, kMaxSeconds));
}

void visit(auto& v, Of<NodeSelectorRequirement> auto& x) {
  v.required("key", x.key, text(TextForm::QualifiedName, 317));
  v.required("operator", x.op, Bounds{});
  v.field("values", x.values, label_values(16));
}

void visit(auto& v, Of<NodeSelectorTerm> auto& x) {
  v.required("matchExpressions", x.match_expressions, items(1, 8));
}

void visit(auto& v, Of<PreferredNodeTerm> auto& x) {
  v.required("weight", x.weight, between(1, 100));
  v.required("preference", x.preference, Bounds{});
}

void visit(auto& v, Of<NodeSelector> auto& x) {
  v.required("nodeSelectorTerms", x.node_selector_terms, items(1, 4));
}

void visit(auto& v, Of<NodeAffinity> auto& x) {
  v.field("requiredDuringSchedulingIgnoredDuringExecution", x.required, Bounds{});
  v.field("preferredDuringSchedulingIgnoredDuringExecution", x.preferred, items(0, 4));
}

void visit(auto& v, Of<Affinity> auto& x) {
  v.field("nodeAffinity", x.node_affinity, Bounds{});
}

void visit(auto& v, Of<FieldRef> auto& x) {
  v.required("fieldPath", x.field_path, Bounds{});
}

void visit(auto& v, Of<EnvVarSource> auto& x) {
  v.required("fieldRef", x.field_ref, Bounds{});
}

void visit(auto& v, Of<EnvVar> auto& x) {
  v.required("name", x.name, text(TextForm::EnvName, 128));
  v.field("value", x.value, text(TextForm::Any, 4096, 0));
  v.field("valueFrom", x.value_from, Bounds{});
}

void visit(auto& v, Of<LocalReference> auto& x) {
  v.required("name", x.name, text(TextForm::DnsSubdomain, 253));
}

void visit(auto& v, Of<ClaimVolume> auto& x) {
  v.required("claimName", x.claim_name, text(TextForm::DnsSubdomain, 253));
  v.field("readOnly", x.read_only, Bounds{});
}

void visit(auto& v, Of<EmptyDirVolume> auto& x) {
  v.field("medium", x.medium, Bounds{});
  v.field("sizeLimit", x.size_limit, text(TextForm::Quantity, 32));
}

void visit(auto& v, Of<ConfigMapVolume> auto& x) {
  v.required("name", x.name, text(TextForm::DnsSubdomain, 253));
}

void visit(auto& v, Of<Volume> auto& x) {
  v.required("name", x.name, text(TextForm::DnsLabel, 63));
  v.field("persistentVolumeClaim", x.persistent_volume_claim, Bounds{});
  v.field("emptyDir", x.empty_dir, Bounds{});
  v.field("configMap", x.config_map, Bounds{});
}

void visit(auto& v, Of<VolumeMount> auto& x) {
  v.required("name", x.name, text(TextForm::DnsLabel, 63));
  v.required("mountPath", x.mount_path, text(TextForm::AbsolutePath, 512));
  v.field("subPath", x.sub_path, text(TextForm::RelativePath, 512));
  v.field("readOnly", x.read_only, Bounds{});
}

void visit(auto& v, Of<PodSecurity> auto& x) {
  v.field("runAsUser", x.run_as_user, between(1, 2147483647));
  v.field("runAsGroup", x.run_as_group, between(1, 2147483647));
  v.field("fsGroup", x.fs_group, between(1, 2147483647));
  v.field("fsGroupChangePolicy", x.fs_group_change_policy, Bounds{});
}

void visit(auto& v, Of<PodTemplate> auto& x) {
  v.field("metadata", x.metadata, Bounds{});
  v.required("image", x.image, text(TextForm::Any, 512));
  v.field("imagePullPolicy", x.image_pull_policy, Bounds{});
  v.field("imagePullSecrets", x.image_pull_secrets, items(0, 8));
  v.field("resources", x.resources, Bounds{});
  v.field("nodeSelector", x.node_selector, label_values(64));
  v.field("tolerations", x.tolerations, items(0, 32));
  v.field("affinity", x.affinity, Bounds{});
  v.field("priorityClassName", x.priority_class_name, text(TextForm::DnsSubdomain, 253));
  v.field("schedulerName", x.scheduler_name, text(TextForm::DnsSubdomain, 253));
  v.field("env", x.env, items(0, 64));
  v.field("volumes", x.volumes, items(0, 32));
  v.field("volumeMounts", x.volume_mounts, items(0, 32));
  v.field("securityContext", x.security_context, Bounds{});
  v.field("terminationGracePeriodSeconds", x.termination_grace_period_seconds, between(1, 86400));
}

void visit(auto& v, Of<Workers> auto& x) {
  v.field("nodes", x.nodes, between(1, kMaxNodes));
  v.field("processesPerNode", x.processes_per_node, between(1, kMaxProcessesPerNode));
  v.field("gpusPerProcess", x.gpus_per_process, between(0, 1));
  v.field("gpuResource", x.gpu_resource, text(TextForm::GpuResource, 63));
  v.field("backend", x.backend, Bounds{});
  v.field("template", x.pod_template, Bounds{});
}

void visit(auto& v, Of<Servers> auto& x) {
  v.field("nodes", x.nodes, between(1, kMaxNodes));
  v.field("maxBytesInFlight", x.max_bytes_in_flight, text(TextForm::ByteSize, 32));
  v.field("template", x.pod_template, Bounds{});
}

void visit(auto& v, Of<BestCheckpoint> auto& x) {
  v.required("metric", x.metric, Bounds{});
}

void visit(auto& v, Of<Checkpoint> auto& x) {
  v.required("path", x.path, text(TextForm::Any, 1024));
  v.field("everyEpochs", x.every_epochs, between(0, 1000000));
  v.field("everySteps", x.every_steps, between(0, 1000000000));
  v.field("keep", x.keep, between(1, 1000));
  v.field("best", x.best, Bounds{});
  v.field("resume", x.resume, text(TextForm::Resume, 1024));
}

void visit(auto& v, Of<Export> auto& x) {
  v.required("path", x.path, text(TextForm::Any, 1024));
  v.field("names", x.names, Bounds{});
}

void visit(auto& v, Of<Predictions> auto& x) {
  v.required("path", x.path, text(TextForm::Any, 1024));
  v.field("outputs", x.outputs, items(1, 3));
  v.field("nodes", x.nodes, text(TextForm::Any, 1024));
}

void visit(auto& v, Of<TensorBoard> auto& x) {
  v.required("path", x.path, text(TextForm::Any, 1024));
}

void visit(auto& v, Of<Mlflow> auto& x) {
  v.required("uri", x.uri, text(TextForm::Any, 1024));
  v.required("experiment", x.experiment, text(TextForm::Any, 256));
}

void visit(auto& v, Of<Tracking> auto& x) {
  v.field("tensorBoard", x.tensor_board, Bounds{});
  v.field("mlflow", x.mlflow, Bounds{});
}

void visit(auto& v, Of<BackoffPolicy> auto& x) {
  v.field("initialSeconds", x.initial_seconds, between(1, kMaxBackoffSeconds));
  v.field("maxSeconds", x.max_seconds, between(1, kMaxBackoffSeconds));
  v.field("healthySeconds", x.healthy_seconds, between(1, kMaxSeconds));
}

inline constexpr Bounds kExitCodes = [] {
  Bounds bounds = items(0, 32);
  bounds.min = 1;
  bounds.max = 255;
  return bounds;
}();

void visit(auto& v, Of<FailureRule> auto& x) {
  v.field("role", x.role, Bounds{});
  v.field("exitCodes", x.exit_codes, kExitCodes);
  v.field("reasons", x.reasons, items(0, 16));
  v.required("action", x.action, Bounds{});
  v.field("charge", x.charge, Bounds{});
}

void visit(auto& v, Of<FailurePolicy> auto& x) {
  v.field("rules", x.rules, items(0, 16));
  v.field("backoff", x.backoff, Bounds{});
  v.field("maxRestartsPerNode", x.max_restarts_per_node, between(0, 1000));
}

void visit(auto& v, Of<RunPolicy> auto& x) {
  v.field("maxRestarts", x.max_restarts, between(0, 1000));
  v.field("activeDeadlineSeconds", x.active_deadline_seconds, between(1, kMaxSeconds));
  v.field("schedulingTimeoutSeconds", x.scheduling_timeout_seconds, between(1, kMaxSeconds));
  v.field("startupDeadlineSeconds", x.startup_deadline_seconds, between(1, kMaxSeconds));
  v.field("serverTimeoutSeconds", x.server_timeout_seconds, between(1, kMaxSeconds));
  v.field("ttlSecondsAfterFinished", x.ttl_seconds_after_finished, between(0, kMaxSeconds));
  v.field("cleanPodPolicy", x.clean_pod_policy, Bounds{});
  v.field("failurePolicy", x.failure_policy, Bounds{});
}

void visit(auto& v, Of<DataImport> auto& x) {
  v.required("format", x.format, Bounds{});
  v.required("path", x.path, text(TextForm::Any, 1024));
  v.field("output", x.output, text(TextForm::Any, 1024));
  v.field("replace", x.replace, Bounds{});
  v.field("split", x.split, text(TextForm::DnsSubdomain, 63));
  v.field("noSplit", x.no_split, Bounds{});
  v.field("toUndirected", x.to_undirected, Bounds{});
  v.field("coalesce", x.coalesce, Bounds{});
  v.field("addReverse", x.add_reverse, Bounds{});
  v.field("link", x.link, Bounds{});
  v.field("rowNormalize", x.row_normalize, Bounds{});
  v.field("selfLoops", x.self_loops, Bounds{});
  v.field("featureType", x.feature_type, Bounds{});
  v.field("classes", x.classes, between(1, 1000000000));
  v.field("features", x.features, between(1, 65536));
  v.field("seed", x.seed, between(0, 4294967295));
}

void visit(auto& v, Of<DataPartition> auto& x) {
  v.field("input", x.input, text(TextForm::Any, 1024));
  v.field("parts", x.parts, between(1, kMaxNodes));
  v.field("method", x.method, Bounds{});
  v.field("fanout", x.fanout, kFanout);
  v.field("batchSize", x.batch_size, between(1, 16777216));
  v.field("hotRows", x.hot_rows, decimal(0, 1));
  v.field("replace", x.replace, Bounds{});
}

void visit(auto& v, Of<Prepare> auto& x) {
  v.field("import", x.data_import, Bounds{});
  v.field("partition", x.partition, Bounds{});
  v.field("resources", x.resources, Bounds{});
}

void visit(auto&, Of<Chosen> auto&) {}

void visit(auto& v, Of<SchedulingPolicy> auto& x) {
  v.field("gang", x.gang, Bounds{});
  v.field("basic", x.basic, Bounds{});
}

void visit(auto& v, Of<TopologyConstraint> auto& x) {
  v.required("key", x.key, text(TextForm::QualifiedName, 317));
}

void visit(auto& v, Of<SchedulingConstraints> auto& x) {
  v.field("topology", x.topology, items(0, 1));
}

void visit(auto& v, Of<DisruptionMode> auto& x) {
  v.field("single", x.single, Bounds{});
  v.field("all", x.all, Bounds{});
}

void visit(auto& v, Of<NetworkTopology> auto& x) {
  v.field("mode", x.mode, Bounds{});
  v.field("highestTierAllowed", x.highest_tier_allowed, between(0, 1000));
}

void visit(auto& v, Of<VolcanoScheduling> auto& x) {
  v.field("queue", x.queue, text(TextForm::DnsSubdomain, 253));
  v.field("networkTopology", x.network_topology, Bounds{});
}

void visit(auto& v, Of<Scheduling> auto& x) {
  v.field("schedulingPolicy", x.scheduling_policy, Bounds{});
  v.field("schedulingConstraints", x.scheduling_constraints, Bounds{});
  v.field("disruptionMode", x.disruption_mode, Bounds{});
  v.field("provider", x.provider, Bounds{});
  v.field("volcano", x.volcano, Bounds{});
}

void visit(auto& v, Of<GnnJobSpec> auto& x) {
  v.field("suspend", x.suspend, Bounds{});
  v.field("managedBy", x.managed_by, text(TextForm::QualifiedName, 63));
  v.required("task", x.task, Bounds{});
  v.required("dataset", x.dataset, Bounds{});
  v.required("model", x.model, Bounds{});
  v.field("sampling", x.sampling, Bounds{});
  v.field("training", x.training, Bounds{});
  v.field("features", x.features, Bounds{});
  v.field("placement", x.placement, Bounds{});
  v.field("workers", x.workers, Bounds{});
  v.field("servers", x.servers, Bounds{});
  v.field("prepare", x.prepare, Bounds{});
  v.field("checkpoint", x.checkpoint, Bounds{});
  v.field("export", x.model_export, Bounds{});
  v.field("predictions", x.predictions, Bounds{});
  v.field("tracking", x.tracking, Bounds{});
  v.field("runPolicy", x.run_policy, Bounds{});
  v.field("scheduling", x.scheduling, Bounds{});
}

// ---- status: written by the controller alone

void visit(auto& v, Of<Condition> auto& x) {
  v.required("type", x.type, text(TextForm::Any, 63));
  v.required("status", x.status, Bounds{});
  v.required("reason", x.reason, text(TextForm::Any, 128));
  v.required("message", x.message, text(TextForm::Any, 4096, 0));
  v.field("observedGeneration", x.observed_generation, Bounds{});
  v.required("lastTransitionTime", x.last_transition_time, Bounds{});
}

void visit(auto& v, Of<NodeCounts> auto& x) {
  v.field("desired", x.desired, Bounds{});
  v.field("ready", x.ready, Bounds{});
  v.field("succeeded", x.succeeded, Bounds{});
  v.field("failed", x.failed, Bounds{});
  v.field("summary", x.summary, text(TextForm::Any, 32, 0));
}

void visit(auto& v, Of<ServerRecord> auto& x) {
  v.required("server", x.server, Bounds{});
  v.field("restart", x.restart, Bounds{});
  v.field("made", x.made, Bounds{});
  v.field("failures", x.failures, Bounds{});
  v.field("nextTime", x.next_time, Bounds{});
}

void visit(auto& v, Of<ServerCounts> auto& x) {
  v.field("desired", x.desired, Bounds{});
  v.field("ready", x.ready, Bounds{});
  v.field("restarts", x.restarts, Bounds{});
  v.field("summary", x.summary, text(TextForm::Any, 32, 0));
  v.field("pods", x.pods, items(0, kMaxNodes));
}

void visit(auto& v, Of<SchedulingStatus> auto& x) {
  v.field("provider", x.provider, text(TextForm::Any, 32, 0));
  v.field("group", x.group, text(TextForm::Any, 253));
  v.field("message", x.message, text(TextForm::Any, 1024));
  v.field("workload", x.workload, text(TextForm::Any, 253));
  v.field("clusterQueue", x.cluster_queue, text(TextForm::Any, 253));
}

void visit(auto& v, Of<JobProgress> auto& x) {
  v.field("epoch", x.epoch, Bounds{});
  v.field("epochs", x.epochs, Bounds{});
  v.field("globalStep", x.global_step, Bounds{});
  v.field("loss", x.loss, text(TextForm::Any, 32));
  v.field("metricName", x.metric_name, text(TextForm::Any, 32));
  v.field("trainMetric", x.train_metric, text(TextForm::Any, 32));
  v.field("validationMetric", x.validation_metric, text(TextForm::Any, 32));
  v.field("testMetric", x.test_metric, text(TextForm::Any, 32));
  v.field("testModel", x.test_model, text(TextForm::Any, 32));
  v.field("bestEpoch", x.best_epoch, Bounds{});
  v.field("bestMetric", x.best_metric, text(TextForm::Any, 32));
  v.field("bestCheckpoint", x.best_checkpoint, text(TextForm::Any, 1024));
  v.field("rate", x.rate, text(TextForm::Any, 32));
  v.field("etaSeconds", x.eta_seconds, Bounds{});
  v.field("eta", x.eta, text(TextForm::Any, 32));
  v.field("checkpoint", x.checkpoint, text(TextForm::Any, 1024));
}

void visit(auto& v, Of<FailureRecord> auto& x) {
  v.field("attempt", x.attempt, Bounds{});
  v.field("node", x.node, Bounds{});
  v.field("machine", x.machine, text(TextForm::Any, 253));
  v.field("rank", x.rank, Bounds{});
  v.field("exitCode", x.exit_code, Bounds{});
  v.field("reason", x.reason, text(TextForm::Any, 128, 0));
  v.field("charged", x.charged, Bounds{});
  v.field("time", x.time, Bounds{});
}

void visit(auto& v, Of<LastFailure> auto& x) {
  v.field("attempt", x.attempt, Bounds{});
  v.field("node", x.node, Bounds{});
  v.field("machine", x.machine, text(TextForm::Any, 253));
  v.field("rank", x.rank, Bounds{});
  v.field("exitCode", x.exit_code, Bounds{});
  v.field("reason", x.reason, text(TextForm::Any, 128, 0));
  v.field("message", x.message, text(TextForm::Any, 4096, 0));
  v.field("stderrTail", x.stderr_tail, text(TextForm::Any, 4096, 0));
  v.field("time", x.time, Bounds{});
}

void visit(auto& v, Of<RestartStreaks> auto& x) {
  v.field("charged", x.charged, Bounds{});
  v.field("free", x.free, Bounds{});
}

void visit(auto& v, Of<MachineRestarts> auto& x) {
  v.required("name", x.name, text(TextForm::Any, 253));
  v.field("restarts", x.restarts, Bounds{});
}

inline constexpr Bounds kReplacedNodes = [] {
  Bounds bounds = items(0, kMaxReplacedNodes);
  bounds.min = 1;
  return bounds;
}();

void visit(auto& v, Of<GnnJobStatus> auto& x) {
  v.field("observedGeneration", x.observed_generation, Bounds{});
  v.field("conditions", x.conditions, items(0, 16));
  v.field("state", x.state, text(TextForm::Any, 32, 0));
  v.field("message", x.message, text(TextForm::Any, 4096, 0));
  v.field("attempt", x.attempt, Bounds{});
  v.field("round", x.round, Bounds{});
  v.field("restarts", x.restarts, Bounds{});
  v.field("outOfMemory", x.out_of_memory, Bounds{});
  v.field("storageExceeded", x.storage_exceeded, Bounds{});
  v.field("backoff", x.backoff, Bounds{});
  v.field("releases", x.releases, Bounds{});
  v.field("nextAttemptTime", x.next_attempt_time, Bounds{});
  v.field("nodes", x.nodes, Bounds{});
  v.field("servers", x.servers, Bounds{});
  v.field("scheduling", x.scheduling, Bounds{});
  v.field("progress", x.progress, Bounds{});
  v.field("startTime", x.start_time, Bounds{});
  v.field("completionTime", x.completion_time, Bounds{});
  v.field("lastFailure", x.last_failure, Bounds{});
  v.field("failures", x.failures, items(0, kMaxFailureRecords));
  v.field("machines", x.machines, items(0, kMaxMachines));
  v.field("replacedNodes", x.replaced_nodes, kReplacedNodes);
  v.field("dataKeySecret", x.data_key_secret, text(TextForm::Any, 253, 0));
}

}  // namespace gnn::api
