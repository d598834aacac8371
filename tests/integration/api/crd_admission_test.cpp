#include "common/api/codec.h"
#include "common/api/validation.h"
#include "common/api/yaml.h"
#include "tests/common/api/sample_job.h"
#include "tests/integration/api/changes.h"
#include "tests/support/control_plane.h"
#include "tests/support/source_dir.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

// What a real API server takes and refuses by our CRD. Every CEL rule is broken here once, with
// its exact message, and every rule is passed by jobs that use what it guards.
namespace gnn::api {
namespace {

using nlohmann::json;
using testing::Changes;
using testing::ControlPlane;

const std::string kCrd = gnn::testing::source_dir() + "/manifests/crds/gnnjobs.gnn.dev.yaml";

json job(const GnnJob& base, const std::string& name, const Changes& changes) {
  json object = encode(base);
  object["metadata"] = {{"name", name}};
  return testing::changed(std::move(object), changes);
}

json nodes(const std::string& name, const Changes& changes) {
  return job(sample_job(), name, changes);
}

json parts(const std::string& name, const Changes& changes) {
  return job(sample_partitioned_job(), name, changes);
}

json served(const std::string& name, const Changes& changes) {
  return job(sample_served_job(), name, changes);
}

json prepared(const std::string& name, const Changes& changes) {
  return job(sample_prepare_job(), name, changes);
}

json parted(const std::string& name, const Changes& changes) {
  return job(sample_prepare_partitions_job(), name, changes);
}

json graphs(const std::string& name, const Changes& changes) {
  GnnJob base = sample_graph_job();
  base.spec.workers.pod_template.emplace();
  base.spec.workers.pod_template->image = "gnn-worker:0.1";
  return job(base, name, changes);
}

json links(const std::string& name, const Changes& changes) {
  return job(sample_link_job(), name, changes);
}

json plain_links(const std::string& name, const Changes& changes) {
  return job(sample_plain_link_job(), name, changes);
}

json inference(const std::string& name, const Changes& changes) {
  return job(sample_inference_job(), name, changes);
}

class CrdAdmission : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ControlPlane& cluster = ControlPlane::shared();
    const Status applied = cluster.apply(kCrd);
    ASSERT_TRUE(applied) << applied.error().message;
    name_space() = cluster.create_namespace("crd").value();
  }

  static std::string& name_space() {
    static std::string name;
    return name;
  }

  static testing::CommandOutput kubectl(
      std::vector<std::string> arguments, const std::string& input = ""
  ) {
    arguments.push_back("--namespace=" + name_space());
    auto output = ControlPlane::shared().kubectl(arguments, input);
    EXPECT_TRUE(output) << output.error().message;
    return *output;
  }

  // What the API server says to each of many objects, in one call; by name.
  static std::map<std::string, std::string> submit(const std::vector<json>& objects) {
    json list = {{"apiVersion", "v1"}, {"kind", "List"}, {"items", objects}};
    const auto output =
        kubectl({"create", "--dry-run=server", "--validate=false", "-f", "-"}, list.dump());
    std::map<std::string, std::string> said;
    for (const json& object : objects) {
      const std::string name = object["metadata"]["name"];
      const size_t refused = output.errors.find("\"" + name + "\" is invalid");
      const size_t unknown = output.errors.find("in version");
      if (refused != std::string::npos) {
        const size_t end = output.errors.find("The GNNJob \"", refused);
        said[name] = output.errors.substr(refused, end - refused);
      } else if (output.output.find("/" + name + " created") != std::string::npos) {
        said[name] = "created";
      } else {
        said[name] = output.errors.substr(unknown == std::string::npos ? 0 : unknown);
      }
    }
    return said;
  }
};

struct Refusal {
  json object;
  std::string path;  // as the API server names it
  std::string text;  // part of what it says
};

std::vector<Refusal> broken_link_rules() {
  const json item_to_item = {
      {"source", "item"}, {"relation", "to"}, {"destination", "item"}, {"fanout", {8, 4}}
  };
  const json three_hops = {
      {"source", "item"}, {"relation", "to"}, {"destination", "item"}, {"fanout", {8, 4, 2}}
  };
  json nameless = item_to_item;
  nameless["relation"] = "";
  json unnamed = item_to_item;
  unnamed.erase("relation");
  const std::string two_layers =
      "must have one entry per layer of the model: BipartiteSAGE has two";
  const std::string evaluation = "/spec/training/evaluation";
  return {
      {links("", {{"/spec/task/link", nullptr}}),
       "spec.task",
       "link must be set if and only if type is LinkPrediction"},
      {nodes(
           "", {{"/spec/task/link", {{"source", "a"}, {"relation", "to"}, {"destination", "a"}}}}
       ),
       "spec.task",
       "link must be set if and only if type is LinkPrediction"},
      {links("", {{"/spec/task/link/source", ""}}),
       "spec.task.link.source",
       "should be at least 1 chars long"},
      {links("", {{"/spec/task/link/relation", nullptr}}),
       "spec.task.link.relation",
       "Required value"},
      {nodes("", {{"/spec/dataset", {{"format", "Taobao"}, {"path", "/data/taobao"}}}}),
       "spec.dataset.format",
       "LinkPrediction reads these and Taobao"},
      {links("", {{"/spec/dataset/addSelfLoops", true}}),
       "spec.dataset",
       "addSelfLoops is only for NodeClassification"},
      {nodes("", {{"/spec/dataset/addReverse", true}}),
       "spec.dataset",
       "addReverse and coOccurrence are only for BipartiteSAGE, which reads their edges"},
      {nodes(
           "", {{"/spec/dataset/coOccurrence", {{"node", "a"}, {"through", "b"}, {"atLeast", 1}}}}
       ),
       "spec.dataset",
       "addReverse and coOccurrence are only for BipartiteSAGE, which reads their edges"},
      {links("", {{"/spec/dataset/coOccurrence/node", "user"}}),
       "spec.dataset.coOccurrence",
       "node must be the destination of task.link, and through its source"},
      {links("", {{"/spec/dataset/coOccurrence/atLeast", nullptr}}),
       "spec.dataset.coOccurrence.atLeast",
       "Required value"},
      {links("", {{"/spec/dataset/featureTransform", "RowNormalize"}}),
       "spec.dataset.featureTransform",
       "must be None with BipartiteSAGE, which learns embeddings and reads no features"},
      {links("", {{"/spec/dataset/addReverse", nullptr}}),
       "spec.dataset",
       "BipartiteSAGE reads the reverse of the links and edges between their destinations: set "
       "addReverse: true and coOccurrence, unless EdgeList or Native data have such edges"},
      {nodes("", {{"/spec/dataset/synthetic/shape", "Taobao"}}),
       "spec.dataset.synthetic",
       "shape Taobao is only for LinkPrediction"},
      {links(
           "",
           {{"/spec/dataset/format", "Synthetic"},
            {"/spec/dataset/path", nullptr},
            {"/spec/dataset/synthetic", {{"shape", "Taobao"}, {"flippedLabels", "0.1"}}}}
       ),
       "spec.dataset.synthetic",
       "flippedLabels must be 0 with shape Taobao, which has no labels"},
      {links("", {{"/spec/dataset/split", nullptr}}),
       "spec.dataset.split",
       "LinkPrediction needs type RandomLink, and the other tasks need another one"},
      {nodes(
           "",
           {{"/spec/dataset/split", {{"type", "RandomLink"}, {"validation", "0.1"}, {"test", "0.1"}}
           }}
       ),
       "spec.dataset.split",
       "LinkPrediction needs type RandomLink, and the other tasks need another one"},
      {links("", {{"/spec/dataset/split/validation", "0.9"}}),
       "spec.dataset.split",
       "validation and test must sum to less than 1 with type RandomLink"},
      {nodes("", {{"/spec/dataset/split/negativeRatio", "1"}}),
       "spec.dataset.split",
       "negativeRatio and disjointTrain require type RandomLink"},
      {links(
           "",
           {{"/spec/dataset/split/negativeRatio", "1"},
            {evaluation, {{"metric", "MRR"}, {"negatives", 10}}}}
       ),
       "spec.dataset.split",
       "negativeRatio has no effect with metric MRR: leave it out and set evaluation.negatives"},
      {links("", {{"/spec/dataset/split/negativeRatio", "0"}}),
       "spec.dataset.split.negativeRatio",
       "must be a decimal number above 0 and at most 1000"},
      {links("", {{"/spec/dataset/split/disjointTrain", "1"}}),
       "spec.dataset.split.disjointTrain",
       "must be a decimal number of at least 0 and below 1"},
      {links("", {{"/spec/model", {{"type", "GraphSAGE"}, {"graphSage", {{"layers", 2}}}}}}),
       "spec.model.type",
       "GraphSAGE predicts links between nodes of one type, BipartiteSAGE between nodes of two: "
       "compare source and destination of task.link"},
      {links("", {{"/spec/model/decoder", json::object()}}),
       "spec.model",
       "decoder is only for GraphSAGE with LinkPrediction"},
      {plain_links("", {{"/spec/model/decoder", {{"hiddenChannels", 8}}}}),
       "spec.model.decoder",
       "hiddenChannels requires type MLP"},
      {links("", {{"/spec/sampling/fanout", {8, 4, 2}}}), "spec.sampling.fanout", two_layers},
      {nodes("", {{"/spec/sampling/negatives", json::object()}}),
       "spec.sampling",
       "fanoutByEdgeType, negatives and excludeSeedEdges are only for LinkPrediction"},
      {nodes("", {{"/spec/sampling/excludeSeedEdges", true}}),
       "spec.sampling",
       "fanoutByEdgeType, negatives and excludeSeedEdges are only for LinkPrediction"},
      {nodes("", {{"/spec/sampling/fanoutByEdgeType", json::array({three_hops})}}),
       "spec.sampling",
       "fanoutByEdgeType, negatives and excludeSeedEdges are only for LinkPrediction"},
      {links("", {{"/spec/sampling/fanoutByEdgeType", json::array({three_hops})}}),
       "spec.sampling.fanoutByEdgeType",
       "each fanout must have one entry per layer of the model"},
      {links("", {{"/spec/sampling/fanoutByEdgeType", {item_to_item, item_to_item}}}),
       "spec.sampling.fanoutByEdgeType[1]",
       "Duplicate value"},
      {links("", {{"/spec/sampling/fanoutByEdgeType", json::array({nameless})}}),
       "spec.sampling.fanoutByEdgeType[0].relation",
       "should be at least 1 chars long"},
      {links("", {{"/spec/sampling/fanoutByEdgeType", json::array({unnamed})}}),
       "spec.sampling.fanoutByEdgeType[0].relation",
       "Required value"},
      {links("", {{"/spec/sampling/negatives", {{"amount", "0"}}}}),
       "spec.sampling.negatives.amount",
       "must be a decimal number above 0 and at most 1000"},
      {links("", {{"/spec/sampling/negatives", {{"type", "Triplet"}}}}),
       "spec.sampling.negatives.type",
       "Unsupported value"},
      {plain_links("", {{"/spec/training/embeddings", json::object()}}),
       "spec.training",
       "embeddings is only for BipartiteSAGE, which learns embeddings"},
      {links("", {{"/spec/training/optimizer", {{"type", "SGD"}}}}),
       "spec.training.optimizer.type",
       "must be Adam with BipartiteSAGE, whose embeddings follow Adam's rule"},
      {links("", {{"/spec/training/optimizer", {{"weightDecay", "1e-5"}}}}),
       "spec.training.optimizer.weightDecay",
       "must be 0 with BipartiteSAGE, whose embeddings do not decay"},
      {links("", {{evaluation + "/mode", "LayerWise"}}),
       "spec.training.evaluation.mode",
       "LayerWise is only for NodeClassification"},
      {links("", {{evaluation + "/parts", {"Train"}}}),
       "spec.training.evaluation.parts",
       "must not name Train with LinkPrediction: only held-out links have negatives of their own"},
      {links("", {{evaluation + "/metric", "Accuracy"}}),
       "spec.training.evaluation.metric",
       "Accuracy is for NodeClassification and GraphClassification; AUC, AveragePrecision, Hits "
       "and MRR are for LinkPrediction"},
      {nodes("", {{evaluation + "/metric", "AUC"}}),
       "spec.training.evaluation.metric",
       "Accuracy is for NodeClassification and GraphClassification; AUC, AveragePrecision, Hits "
       "and MRR are for LinkPrediction"},
      {links("", {{evaluation + "/metric", "Hits"}}),
       "spec.training.evaluation",
       "hitsK must be set if and only if metric is Hits"},
      {links("", {{evaluation + "/negatives", 10}}),
       "spec.training.evaluation",
       "negatives must be set if and only if metric is MRR"},
  };
}

std::vector<Refusal> broken_placement_rules() {
  const std::string whole_graph =
      "toUndirected, addSelfLoops, coalesce, addReverse and coOccurrence need the whole graph: "
      "leave "
      "them out with placement.topology Partitioned, and partition data that has their edges";
  const json partitioned = {{"topology", "Partitioned"}, {"partitions", 1}};
  return {
      {parts("", {{"/spec/training/sharding", "Slice"}}),
       "spec.training.sharding",
       "must be Owner if and only if placement is set"},
      {nodes("", {{"/spec/training/sharding", "Owner"}}),
       "spec.training.sharding",
       "must be Owner if and only if placement is set"},
      {graphs("", {{"/spec/placement", {{"partitions", 1}}}}),
       "spec.placement",
       "is only for NodeClassification and LinkPrediction"},
      {nodes("", {{"/spec/placement", {{"partitions", 1}}}}),
       "spec.dataset.format",
       "must be Native with placement: gnn-worker data partition writes such data"},
      {parts("", {{"/spec/placement/partitions", 3}}),
       "spec.placement.partitions",
       "must be at most workers.nodes: each partition needs a node that holds it"},
      {parts("", {{"/spec/placement/partitions", nullptr}}),
       "spec.placement.partitions",
       "Required value"},
      {parts(
           "",
           {{"/spec/placement",
             {{"features", "Replicated"}, {"partitions", 2}, {"cache", json::object()}}}}
       ),
       "spec.placement",
       "cache requires features: Partitioned"},
      {parts("", {{"/spec/placement/cache", {{"rows", "1.1"}}}}),
       "spec.placement.cache.rows",
       "must be a decimal number of at least 0 and at most 1"},
      {parts("", {{"/spec/dataset/coalesce", true}}), "spec.dataset", whole_graph},
      {links("", {{"/spec/dataset/format", "Native"}, {"/spec/placement", partitioned}}),
       "spec.dataset",
       whole_graph},
      {parts("", {{"/spec/dataset/featureTransform", "RowNormalize"}}),
       "spec.dataset.featureTransform",
       "must be None with placement.features Partitioned: RowNormalize reads all rows"},
      {nodes("", {{"/spec/sampling/concurrency", 65}}),
       "spec.sampling.concurrency",
       "should be less than or equal to 64"},
      {nodes("", {{"/spec/features/memory", "Device"}}),
       "spec.features.memory",
       "ZeroCopy and Device require training.device: CUDA"},
      {graphs("", {{"/spec/features/memory", "Device"}, {"/spec/training/device", "CUDA"}}),
       "spec.features.memory",
       "ZeroCopy and Device are only for models that read feature rows by node: GraphSAGE and GCN"},
      {nodes(
           "",
           {{"/spec/features/memory", "Device"},
            {"/spec/features/deviceRows", "0.5"},
            {"/spec/training/device", "CUDA"}}
       ),
       "spec.features",
       "deviceRows is only for memory ZeroCopy"},
      {served("", {{"/spec/features/memory", "Device"}, {"/spec/training/device", "CUDA"}}),
       "spec.features.memory",
       "ZeroCopy and Device are not for jobs with servers, which gather rows on their CPUs"},
      {served("", {{"/spec/sampling/device", "CUDA"}, {"/spec/training/device", "CUDA"}}),
       "spec.sampling",
       "device CUDA is not for jobs with servers, which sample on their CPUs"},
      {nodes("", {{"/spec/sampling/device", "CUDA"}}),
       "spec.sampling",
       "device CUDA requires training.device: CUDA"},
      {nodes("", {{"/spec/sampling/topologyMemory", "Device"}}),
       "spec.sampling",
       "topologyMemory must be Host with device CPU, and ZeroCopy or Device with CUDA"},
      {nodes("", {{"/spec/training/precision", "TF32"}}),
       "spec.training",
       "precision TF32 requires device: CUDA"},
  };
}

std::vector<Refusal> broken_server_rules() {
  const std::string t = "/spec/servers/template";
  const std::string rules = "/spec/runPolicy/failurePolicy/rules";
  return {
      {served("", {{"/spec/placement", nullptr}}),
       "spec.servers",
       "requires placement, which says what of the data each server holds"},
      {served("", {{"/spec/servers/nodes", 1}}),
       "spec.servers.nodes",
       "must be at least placement.partitions: each partition needs a server that holds it"},
      {served("", {{"/spec/servers/nodes", 1025}}),
       "spec.servers.nodes",
       "should be less than or equal to 1024"},
      {served("", {{"/spec/servers/maxBytesInFlight", "256M"}}),
       "spec.servers.maxBytesInFlight",
       "should match"},
      {served(
           "",
           {{"/spec/training/evaluation/mode", "LayerWise"},
            {"/spec/training/evaluation/fanout", nullptr}}
       ),
       "spec.training.evaluation.mode",
       "must be Sampled with servers: LayerWise reads the graph, which the workers do not have"},
      {parts("", {{"/spec/runPolicy/serverTimeoutSeconds", 60}}),
       "spec.runPolicy.serverTimeoutSeconds",
       "requires servers"},
      {graphs(
           "",
           {{"/spec/placement", {{"partitions", 1}}},
            {"/spec/servers", {{"template", {{"image", "gnn-worker:0.1"}}}}}}
       ),
       "spec.placement",
       "is only for NodeClassification and LinkPrediction"},
      {served("", {{t + "/resources/limits", {{"nvidia.com/gpu", 1}}}}),
       "spec.servers.template.resources",
       "GPUs are not for servers, which do not compute on them"},
      {served("", {{t + "/volumeMounts", {{{"name", "x"}, {"mountPath", "/x"}}}}}),
       "spec.servers.template.volumeMounts",
       "each volumeMount must name a volume of the template"},
      {served("", {{t + "/env", {{{"name", "GNN_SERVER"}}}}}),
       "spec.servers.template.env[0].name",
       "is reserved for the operator"},
      {served("", {{rules, {{{"exitCodes", {65}}, {"action", "Ignore"}}}}}),
       "spec.runPolicy.failurePolicy.rules[0]",
       "Ignore requires role Server"},
      {served("", {{rules, {{{"role", "Server"}, {"exitCodes", {70}}, {"action", "Restart"}}}}}),
       "spec.runPolicy.failurePolicy.rules[0]",
       "action must be Ignore or Fail with role Server: a lost server restarts no worker"},
  };
}

std::vector<Refusal> broken_prepare_rules() {
  const std::string import = "/spec/prepare/import";
  const std::string partition = "/spec/prepare/partition";
  return {
      {prepared("", {{"/spec/dataset/format", "OGB"}}),
       "spec.dataset.format",
       "must be Native with prepare, which makes data in this format at dataset.path"},
      {prepared("", {{import, nullptr}}), "spec.prepare", "set import, partition or both"},
      {prepared("", {{import + "/path", nullptr}}), "spec.prepare.import.path", "Required value"},
      {prepared("", {{"/spec/prepare/resources", {{"limits", {{"nvidia.com/gpu", 1}}}}}}),
       "spec.prepare.resources",
       "GPUs are not for prepare, which does not compute on them"},
      {prepared("", {{import + "/format", "PackageIndex"}, {import + "/noSplit", true}}),
       "spec.prepare.import",
       "split, noSplit, coalesce, rowNormalize, selfLoops and classes are not for Taobao, "
       "PackageIndex and PackageTags"},
      {prepared("", {{import + "/format", "Taobao"}, {import + "/toUndirected", true}}),
       "spec.prepare.import.toUndirected",
       "is not for Taobao and PackageTags"},
      {prepared("", {{import + "/format", "Taobao"}, {import + "/featureType", "Float16"}}),
       "spec.prepare.import.featureType",
       "must be Float32 with Taobao, which has no features"},
      {prepared("", {{import + "/features", 8}}),
       "spec.prepare.import.features",
       "is only for PackageIndex and PackageTags"},
      {prepared("", {{import + "/seed", 8}}), "spec.prepare.import.seed", "is only for PackageIndex"
      },
      {parted("", {{import + "/output", nullptr}}),
       "spec.prepare",
       "import.output must be set if and only if partition is: without it, import writes to "
       "dataset.path"},
      {parted("", {{import, nullptr}}),
       "spec.prepare",
       "partition.input must be set if and only if import is not: partition reads import.output"},
      {parted("", {{import + "/output", "/data/products"}}),
       "spec.prepare",
       "partition must read another folder than dataset.path"},
      {parted("", {{import, nullptr}, {partition + "/input", "/data/products"}}),
       "spec.prepare",
       "partition must read another folder than dataset.path"},
      {parted("", {{partition + "/parts", 1}}),
       "spec.prepare.partition",
       "parts must equal placement.partitions, which it defaults to"},
      {parted("", {{"/spec/placement", nullptr}}),
       "spec.prepare.partition",
       "parts is required without placement"},
      {parted("", {{partition + "/fanout", {5}}}),
       "spec.prepare.partition",
       "fanout must have as many entries as sampling.fanout"},
      {parted("", {{partition + "/method", "Metis"}}),
       "spec.prepare.partition.method",
       "Unsupported value"},
      {parted("", {{partition + "/hotRows", "1.5"}}),
       "spec.prepare.partition.hotRows",
       "must be a decimal number of at least 0 and at most 1"},
  };
}

std::vector<Refusal> broken_training_rules() {
  const std::string training = "/spec/training";
  const std::string schedule = training + "/optimizer/schedule";
  const std::string which_metric =
      "metric must be that of the evaluations: evaluation.metric, or without one Accuracy, with "
      "LinkPrediction AUC";
  const json stopping = {{"metric", "Accuracy"}, {"patience", 3}};
  const json best = {{"path", "/c"}, {"best", {{"metric", "Accuracy"}}}};
  const json folds = {{"type", "KFold"}, {"folds", 5}};
  return {
      {nodes("", {{schedule, {{"type", "Step"}}}}),
       "spec.training.optimizer.schedule",
       "stepSize must be set if and only if type is Step"},
      {nodes("", {{schedule, {{"type", "Cosine"}, {"gamma", "0.5"}}}}),
       "spec.training.optimizer.schedule",
       "gamma requires type Step"},
      {nodes("", {{schedule, {{"minLearningRate", "0"}}}}),
       "spec.training.optimizer.schedule",
       "minLearningRate requires type Cosine"},
      {nodes("", {{schedule, {{"type", "Cosine"}, {"minLearningRate", "0.02"}}}}),
       "spec.training.optimizer.schedule",
       "minLearningRate must be at most learningRate"},
      {nodes("", {{schedule, {{"warmup", {{"length", 5}}}}}}),
       "spec.training.optimizer.schedule",
       "warmup.length must be below epochs with interval Epoch"},
      {nodes("", {{schedule, {{"warmup", {{"length", 1}, {"startFactor", "0"}}}}}}),
       "spec.training.optimizer.schedule.warmup.startFactor",
       "must be a decimal number above 0 and at most 1"},
      {nodes("", {{training + "/optimizer/maxGradientNorm", "0"}}),
       "spec.training.optimizer.maxGradientNorm",
       "must be a decimal number above 0 and at most 1000"},
      {nodes("", {{training + "/earlyStopping", {{"metric", "AUC"}, {"patience", 3}}}}),
       "spec.training.earlyStopping",
       which_metric},
      {links("", {{training + "/earlyStopping", stopping}}),
       "spec.training.earlyStopping",
       which_metric},
      {nodes("", {{training + "/earlyStopping", {{"metric", "F1"}, {"patience", 3}}}}),
       "spec.training.earlyStopping.metric",
       "Unsupported value"},
      {nodes("", {{"/spec/checkpoint", {{"path", "/c"}, {"best", {{"metric", "MRR"}}}}}}),
       "spec.checkpoint.best",
       which_metric},
      {nodes("", {{"/spec/checkpoint", best}, {training + "/evaluation/parts", {"Train"}}}),
       "spec.training.evaluation.parts",
       "must name Validation with earlyStopping and checkpoint.best, which compare its metric"},
      {nodes("", {{training + "/earlyStopping", stopping}, {training + "/evaluation/every", 0}}),
       "spec.training.evaluation.every",
       "must be above 0 with earlyStopping"},
      {nodes("", {{training + "/evaluation/testModel", "Best"}}),
       "spec.training.evaluation",
       "testModel Best requires checkpoint.best"},
      {graphs("", {{"/spec/dataset/split", folds}, {training + "/earlyStopping", stopping}}),
       "spec.dataset.split",
       "earlyStopping and testModel Best need fold: without it, the folds are compared epoch by "
       "epoch"},
      {links("", {{training + "/classWeights", json::object()}}),
       "spec.training",
       "classWeights is not for LinkPrediction, which has no classes"},
      {nodes("", {{training + "/classWeights", {{"weights", {"1"}}}}}),
       "spec.training.classWeights",
       "weights must be set if and only if type is Given"},
      {nodes("", {{training + "/classWeights", {{"type", "Given"}, {"weights", {"1", "0"}}}}}),
       "spec.training.classWeights.weights[1]",
       "must be a decimal number above 0 and at most 1000"},
      {parts("", {{training + "/classWeights", json::object()}}),
       "spec.training.classWeights",
       "type must be Given with placement: a rank may lack the labels of other partitions"},
  };
}

constexpr const char* kWhenSampling =
    "sampling must be set if and only if task.type is NodeClassification or LinkPrediction and "
    "task.mode is not Inference, which reads all neighbours";

std::vector<Refusal> broken_inference_rules() {
  const std::string trains = "is not for task.mode Inference, which trains nothing";
  const std::string which_model = "from must be set if and only if task.mode is Inference";
  const json path = {{"path", "/p"}};
  return {
      {inference("", {{"/spec/model/from", nullptr}}), "spec.model", which_model},
      {nodes("", {{"/spec/model/from", "/models/m.safetensors"}}), "spec.model", which_model},
      {inference("", {{"/spec/predictions", nullptr}}),
       "spec",
       "predictions must be set with task.mode Inference"},
      {inference("", {{"/spec/sampling", {{"fanout", {5, 5, 5}}}}}), "spec", kWhenSampling},
      {inference(
           "",
           {{"/spec/dataset", {{"format", "Native"}, {"path", "/data"}}},
            {"/spec/prepare/partition", {{"input", "/whole"}, {"parts", 2}}}}
       ),
       "spec.prepare.partition",
       "fanout is required with task.mode Inference, which has no sampling.fanout"},
      {inference("", {{"/spec/checkpoint", path}}), "spec.checkpoint", trains},
      {inference("", {{"/spec/export", path}}), "spec.export", trains},
      {inference("", {{"/spec/training/earlyStopping", {{"metric", "Accuracy"}, {"patience", 1}}}}),
       "spec.training.earlyStopping",
       trains},
      {inference(
           "",
           {{"/spec/features", {{"memory", "Device"}}},
            {"/spec/training/device", "CUDA"},
            {"/spec/workers/gpusPerProcess", 1}}
       ),
       "spec.features.memory",
       "must be Host with task.mode Inference, which sums on the CPU"},
      {plain_links(
           "",
           {{"/spec/task/mode", "Inference"},
            {"/spec/model/from", "/m.safetensors"},
            {"/spec/sampling", nullptr},
            {"/spec/predictions", path}}
       ),
       "spec.task",
       "mode Inference is only for NodeClassification"},
      {plain_links("", {{"/spec/predictions", path}}),
       "spec.predictions",
       "is only for NodeClassification"},
      {served("", {{"/spec/predictions", path}}),
       "spec.predictions",
       "needs the graph, which the workers of a job with servers do not have: leave out servers"},
      {nodes("", {{"/spec/predictions", {{"path", "/p"}, {"outputs", {"Scores", "Scores"}}}}}),
       "spec.predictions.outputs[1]",
       "Duplicate value"},
      {nodes("", {{"/spec/predictions", {{"path", "/p"}, {"outputs", {"Logits"}}}}}),
       "spec.predictions.outputs[0]",
       "Unsupported value"},
      {nodes("", {{"/spec/predictions", {{"outputs", {"Scores"}}}}}),
       "spec.predictions.path",
       "Required value"},
  };
}

std::vector<Refusal> broken_tracking_rules() {
  const json board = {{"tensorBoard", {{"path", "/runs"}}}};
  const auto mlflow = [](const char* uri) {
    return nodes("", {{"/spec/tracking", {{"mlflow", {{"uri", uri}, {"experiment", "a"}}}}}});
  };
  const std::string which_uri =
      "must be https:// or http:// with a host, and without user-info, query and fragment";
  return {
      {nodes("", {{"/spec/tracking", json::object()}}),
       "spec.tracking",
       "set tensorBoard, mlflow or both"},
      {graphs(
           "",
           {{"/spec/tracking", board}, {"/spec/dataset/split", {{"type", "KFold"}, {"folds", 5}}}}
       ),
       "spec.tracking",
       "is for one training: set dataset.split.fold, without which each fold is trained in turn"},
      {inference("", {{"/spec/tracking", board}}), "spec.tracking", "is only for task.mode Training"
      },
      {mlflow("http://user:word@a"), "spec.tracking.mlflow.uri", which_uri},
      {mlflow("ftp://a"), "spec.tracking.mlflow.uri", which_uri},
      {mlflow("http://a/?b"), "spec.tracking.mlflow.uri", which_uri},
  };
}

std::vector<Refusal> broken_pod_rules() {
  const std::string t = "/spec/workers/template";
  const std::string terms =
      "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
  const std::string values =
      "spec.workers.template.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution."
      "nodeSelectorTerms[0].matchExpressions[0].values";
  const auto expression = [&](const json& each) {
    return nodes("", {{t + terms, json::array({{{"matchExpressions", json::array({each})}}})}});
  };
  const auto toleration = [&](const json& each) {
    return nodes("", {{t + "/tolerations", json::array({each})}});
  };
  return {
      {nodes("", {{t + "/image", "gnn worker"}}),
       "spec.workers.template.image",
       "must be an image reference without spaces, the repository in lower case, such as "
       "registry.example.com/gnn-worker:0.1.0"},
      {nodes("", {{t + "/nodeSelector", {{"a b", "c"}}}}),
       "spec.workers.template.nodeSelector",
       "keys must be label names of at most 63 characters, with an optional DNS prefix and /"},
      {nodes("", {{t + "/resources/requests", {{"memroy", "1Gi"}}}}),
       "spec.workers.template.resources.requests",
       "each must be cpu, memory, ephemeral-storage, hugepages-SIZE, or an extended resource with "
       "its domain, such as example.com/nic"},
      {nodes("", {{t + "/resources/limits", {{"example.com/nic", "500m"}}}}),
       "spec.workers.template.resources.limits",
       "extended resources must be whole numbers, and huge pages multiples of the page size"},
      {nodes("", {{t + "/resources", {{"requests", {{"cpu", 2}}}, {"limits", {{"cpu", 1}}}}}}),
       "spec.workers.template.resources.requests",
       "cpu, memory and ephemeral-storage must be at most their limits"},
      {nodes("", {{t + "/resources/requests", {{"example.com/nic", 1}}}}),
       "spec.workers.template.resources.requests",
       "extended resources and huge pages must have a limit of the same amount"},
      {nodes("", {{t + "/resources/limits", {{"hugepages-2Mi", "2Mi"}}}}),
       "spec.workers.template.resources",
       "huge pages require cpu or memory besides"},
      {toleration({{"value", "b"}}),
       "spec.workers.template.tolerations[0].operator",
       "must be Exists in a toleration without key"},
      {toleration({{"key", "a"}, {"operator", "Exists"}, {"value", "b"}}),
       "spec.workers.template.tolerations[0].value",
       "must be empty with operator Exists"},
      {toleration({{"key", "a"}, {"tolerationSeconds", 5}}),
       "spec.workers.template.tolerations[0].effect",
       "must be NoExecute with tolerationSeconds"},
      {expression({{"key", "a"}, {"operator", "In"}}),
       values,
       "must not be empty with operator In or NotIn"},
      {expression({{"key", "a"}, {"operator", "Exists"}, {"values", {"b"}}}),
       values,
       "must be empty with operator Exists or DoesNotExist"},
      {expression({{"key", "a"}, {"operator", "Gt"}, {"values", {"many"}}}),
       values,
       "must be one whole number with operator Gt or Lt"},
  };
}

std::vector<Refusal> broken_rules() {
  const std::string t = "/spec/workers/template";
  const json volume = {{{"name", "data"}, {"emptyDir", json::object()}}};
  std::vector<Refusal> cases = {
      {graphs("", {{"/spec/dataset/format", "OGB"}}),
       "spec.dataset.format",
       "GraphClassification reads TU, GIN or Native; NodeClassification reads OGB, EdgeList, "
       "Reddit, Native or Synthetic; LinkPrediction reads these and Taobao"},
      {graphs("", {{"/spec/dataset/toUndirected", true}}),
       "spec.dataset",
       "toUndirected is not for GraphClassification"},
      {graphs("", {{"/spec/dataset/coalesce", true}}),
       "spec.dataset",
       "coalesce is not for GraphClassification"},
      {nodes("", {{"/spec/dataset/nodeFeatures", "Constant"}}),
       "spec.dataset.nodeFeatures",
       "Constant and DegreeOneHot are only for GraphClassification"},
      {nodes("", {{"/spec/dataset/split", {{"type", "KFold"}, {"folds", 5}}}}),
       "spec.dataset.split",
       "KFold is only for GraphClassification"},
      {nodes("", {{"/spec/model", {{"type", "GIN"}, {"gin", {{"layers", 3}}}}}}),
       "spec.model.type",
       "GIN is for GraphClassification, GCN for NodeClassification, GraphSAGE for "
       "NodeClassification and LinkPrediction, BipartiteSAGE for LinkPrediction"},
      {nodes("", {{"/spec/sampling", nullptr}}), "spec", kWhenSampling},
      {graphs("", {{"/spec/sampling", {{"fanout", {5}}}}}), "spec", kWhenSampling},
      {nodes("", {{"/spec/sampling/fanout", {10, 10}}}),
       "spec.sampling.fanout",
       "must have one entry per layer of the model"},
      {nodes("", {{"/spec/model", {{"type", "GCN"}, {"gcn", {{"layers", 2}}}}}}),
       "spec.sampling.fanout",
       "must have one entry per layer of the model"},
      {nodes(
           "",
           {{"/spec/model", {{"type", "GCN"}, {"gcn", {{"layers", 3}}}}},
            {"/spec/sampling/rule", "AllSeen"}}
       ),
       "spec.sampling.rule",
       "must be NewNodes with GCN, which counts the same drawn neighbours in every layer; AllSeen "
       "draws anew in each"},
      {graphs("", {{"/spec/training/evaluation/mode", "LayerWise"}}),
       "spec.training.evaluation.mode",
       "LayerWise is only for NodeClassification"},
      {nodes(
           "",
           {{"/spec/training/evaluation/mode", "LayerWise"},
            {"/spec/training/evaluation/fanout", {1, 1, 1}}}
       ),
       "spec.training.evaluation",
       "fanout is only for NodeClassification and LinkPrediction with mode Sampled"},
      {nodes("", {{"/spec/training/evaluation/fanout", {1, 1}}}),
       "spec.training.evaluation",
       "fanout must have one entry per layer of the model"},
      {nodes(
           "",
           {{"/spec/training/evaluation/mode", "LayerWise"},
            {"/spec/training/evaluation/maxBatches", 1}}
       ),
       "spec.training.evaluation",
       "maxBatches is only for mode Sampled"},
      {nodes(
           "", {{"/spec/training/unevenInputs", "Join"}, {"/spec/training/gradientAccumulation", 2}}
       ),
       "spec.training.gradientAccumulation",
       "must be 1 with unevenInputs: Join, which synchronizes once per step; use Shadow"},
      {nodes("", {{"/spec/training/device", "CUDA"}}),
       "spec.training.device",
       "CUDA requires workers.gpusPerProcess: 1"},
      {nodes("", {{"/spec/workers/backend", "NCCL"}}),
       "spec.workers.backend",
       "NCCL requires workers.gpusPerProcess: 1 and a training.device other than CPU"},
      {nodes(
           "",
           {{"/spec/training/device", "CUDA"},
            {"/spec/workers/gpusPerProcess", 1},
            {"/spec/workers/backend", "Gloo"}}
       ),
       "spec.workers.backend",
       "Gloo cannot reduce gradients on GPUs: set Auto or NCCL with training.device CUDA"},
      {nodes("", {{"/spec/dataset/synthetic", nullptr}}),
       "spec.dataset",
       "synthetic must be set if and only if format is Synthetic"},
      {nodes("", {{"/spec/dataset/path", "/data"}}),
       "spec.dataset",
       "path must be set if and only if format is not Synthetic"},
      {graphs("", {{"/spec/dataset/split", json::object()}}),
       "spec.dataset.split",
       "TU and GIN data sets have no split of their own: set type Random or KFold"},
      {graphs("", {{"/spec/dataset/split/test", nullptr}}),
       "spec.dataset.split",
       "test must be set if and only if type is Random or RandomLink"},
      {graphs("", {{"/spec/dataset/split/train", nullptr}}),
       "spec.dataset.split",
       "train must be set if and only if type is Random"},
      {graphs("", {{"/spec/dataset/split/validation", nullptr}}),
       "spec.dataset.split",
       "validation is required with type Random or RandomLink, optional and below 1 with KFold, "
       "and "
       "not allowed with Provided"},
      {nodes("", {{"/spec/dataset/split/validation", "0.1"}}),
       "spec.dataset.split",
       "validation is required with type Random or RandomLink, optional and below 1 with KFold, "
       "and "
       "not allowed with Provided"},
      {graphs(
           "", {{"/spec/dataset/split", {{"type", "KFold"}, {"folds", 5}, {"validation", "1"}}}}
       ),
       "spec.dataset.split",
       "validation is required with type Random or RandomLink, optional and below 1 with KFold, "
       "and "
       "not allowed with Provided"},
      {graphs("", {{"/spec/dataset/split/test", "0.2"}}),
       "spec.dataset.split",
       "train, validation and test must sum to at most 1"},
      {graphs("", {{"/spec/dataset/split", {{"type", "KFold"}}}}),
       "spec.dataset.split",
       "folds must be set if and only if type is KFold"},
      {graphs("", {{"/spec/dataset/split", {{"type", "KFold"}, {"folds", 5}, {"fold", 5}}}}),
       "spec.dataset.split",
       "fold requires type KFold and must be less than folds"},
      {graphs("", {{"/spec/dataset/split/name", "x"}}),
       "spec.dataset.split",
       "name requires type Provided"},
      {nodes(
           "",
           {{"/spec/dataset",
             {{"format", "Reddit"}, {"path", "/data/reddit"}, {"split", {{"name", "x"}}}}}}
       ),
       "spec.dataset.split",
       "Reddit has one split: leave out name"},
      {nodes("", {{"/spec/dataset/split/seed", 1}}),
       "spec.dataset.split",
       "seed requires type Random, KFold or RandomLink"},
      {nodes("", {{"/spec/model/gcn", json::object()}}),
       "spec.model",
       "set exactly the member that matches type: graphSage for GraphSAGE, gcn for GCN, gin for "
       "GIN, bipartiteSage for BipartiteSAGE"},
      {nodes("", {{"/spec/training/optimizer/momentum", "0.9"}}),
       "spec.training.optimizer",
       "momentum requires type SGD"},
      {nodes("", {{"/spec/checkpoint", {{"path", "/c"}, {"everyEpochs", 0}}}}),
       "spec.checkpoint",
       "everyEpochs or everySteps must be above 0"},
      {nodes(
           "",
           {{"/spec/model", {{"type", "GCN"}, {"gcn", {{"layers", 3}}}}},
            {"/spec/export", {{"path", "/m"}, {"names", "DGL"}}}}
       ),
       "spec.export.names",
       "must be PyG with GCN: DGL's GraphConv is another function where edges have no reverse"},
      {nodes("", {{"/spec/runPolicy/failurePolicy/rules", {{{"action", "Fail"}}}}}),
       "spec.runPolicy.failurePolicy.rules[0]",
       "set exitCodes, reasons or both"},
      {nodes(
           "",
           {{"/spec/runPolicy/failurePolicy/rules",
             {{{"exitCodes", {1}}, {"action", "Fail"}, {"charge", false}}}}}
       ),
       "spec.runPolicy.failurePolicy.rules[0]",
       "charge may be false only with action Restart or RestartNode"},
      {nodes(
           "",
           {{"/spec/runPolicy/failurePolicy/rules", {{{"exitCodes", {1}}, {"action", "RestartPod"}}}
           }}
       ),
       "spec.runPolicy.failurePolicy.rules[0].action",
       "Unsupported value"},
      {nodes("", {{"/spec/runPolicy/failurePolicy/backoff/initialSeconds", 361}}),
       "spec.runPolicy.failurePolicy.backoff",
       "maxSeconds must be at least initialSeconds"},
      // Decimals
      {nodes("", {{"/spec/dataset/synthetic/scale", "0"}}),
       "spec.dataset.synthetic.scale",
       "must be a decimal number above 0 and at most 100"},
      {nodes("", {{"/spec/dataset/synthetic/flippedLabels", "1.5"}}),
       "spec.dataset.synthetic.flippedLabels",
       "must be a decimal number of at least 0 and at most 1"},
      {graphs("", {{"/spec/dataset/split/train", "0"}}),
       "spec.dataset.split.train",
       "must be a decimal number above 0 and at most 1"},
      {graphs("", {{"/spec/dataset/split/validation", "2"}}),
       "spec.dataset.split.validation",
       "must be a decimal number of at least 0 and at most 1"},
      {graphs("", {{"/spec/dataset/split/test", "1e2"}}),
       "spec.dataset.split.test",
       "must be a decimal number of at least 0 and at most 1"},
      {nodes("", {{"/spec/model/graphSage/dropout", "1"}}),
       "spec.model.graphSage.dropout",
       "must be a decimal number of at least 0 and below 1"},
      {nodes(
           "", {{"/spec/model", {{"type", "GCN"}, {"gcn", {{"layers", 3}, {"dropout", "1.0"}}}}}}
       ),
       "spec.model.gcn.dropout",
       "must be a decimal number of at least 0 and below 1"},
      {graphs("", {{"/spec/model/gin/dropout", "7"}}),
       "spec.model.gin.dropout",
       "must be a decimal number of at least 0 and below 1"},
      {nodes("", {{"/spec/training/optimizer/learningRate", "0"}}),
       "spec.training.optimizer.learningRate",
       "must be a decimal number above 0 and at most 1000"},
      {nodes("", {{"/spec/training/optimizer/weightDecay", "1e9"}}),
       "spec.training.optimizer.weightDecay",
       "must be a decimal number of at least 0 and at most 1000"},
      {nodes("", {{"/spec/training/optimizer", {{"type", "SGD"}, {"momentum", "1"}}}}),
       "spec.training.optimizer.momentum",
       "must be a decimal number of at least 0 and below 1"},
      {nodes("", {{"/spec/training/optimizer/learningRate", "fast"}}),
       "spec.training.optimizer.learningRate",
       "should match"},
      {nodes("", {{"/spec/training/optimizer/learningRate", 0.01}}),
       "spec.training.optimizer.learningRate",
       "must be of type string"},
      // Scheduling
      {nodes("", {{"/spec/scheduling/schedulingPolicy", json::object()}}),
       "spec.scheduling.schedulingPolicy",
       "set gang or basic, and not both"},
      {nodes(
           "",
           {{"/spec/scheduling/disruptionMode",
             {{"single", json::object()}, {"all", json::object()}}}}
       ),
       "spec.scheduling.disruptionMode",
       "set single or all, and not both"},
      {nodes(
           "",
           {{"/spec/scheduling/schedulingConstraints/topology", {{{"key", "a"}}, {{"key", "b"}}}}}
       ),
       "spec.scheduling.schedulingConstraints.topology",
       "must have at most 1 item"},
      {nodes("", {{"/spec/scheduling", {{"provider", "Native"}, {"volcano", json::object()}}}}),
       "spec.scheduling.volcano",
       "is only for provider Auto or Volcano"},
      // The pod template
      {nodes("", {{t + "/resources/limits", {{"nvidia.com/gpu", 1}}}}),
       "spec.workers.template.resources",
       "set workers.gpusPerProcess and gpuResource instead of requesting GPUs"},
      {nodes("", {{t + "/resources/requests", {{"nvidia.com/mig-1g.10gb", 1}}}}),
       "spec.workers.template.resources",
       "set workers.gpusPerProcess and gpuResource instead of requesting GPUs"},
      {nodes(
           "",
           {{"/spec/workers/gpusPerProcess", 1},
            {"/spec/workers/processesPerNode", 2},
            {"/spec/workers/gpuResource", "nvidia.com/gpu.shared"}}
       ),
       "spec.workers.gpuResource",
       "MIG slices and shares of GPUs require gpusPerProcess: 1 and processesPerNode: 1"},
      {nodes(
           "",
           {{"/spec/workers/gpusPerProcess", 0},
            {"/spec/workers/gpuResource", "nvidia.com/mig-1g.10gb"}}
       ),
       "spec.workers.gpuResource",
       "MIG slices and shares of GPUs require gpusPerProcess: 1 and processesPerNode: 1"},
      {nodes("", {{"/spec/workers/gpuResource", "cpu"}}), "spec.workers.gpuResource", "should match"
      },
      {nodes("", {{t + "/volumeMounts", {{{"name", "x"}, {"mountPath", "/x"}}}}}),
       "spec.workers.template.volumeMounts",
       "each volumeMount must name a volume of the template"},
      {nodes("", {{t + "/priorityClassName", "system-node-critical"}}),
       "spec.workers.template.priorityClassName",
       "names that start with system- are reserved for the cluster"},
      {nodes(
           "",
           {{t + "/env",
             {{{"name", "A"},
               {"value", "1"},
               {"valueFrom", {{"fieldRef", {{"fieldPath", "spec.nodeName"}}}}}}}}}
       ),
       "spec.workers.template.env[0]",
       "set value or valueFrom, not both"},
      {nodes("", {{t + "/env", {{{"name", "MASTER_ADDR"}, {"value", "evil"}}}}}),
       "spec.workers.template.env[0].name",
       "is reserved for the operator"},
      {nodes("", {{t + "/env", {{{"name", "GNN_JOB"}}}}}),
       "spec.workers.template.env[0].name",
       "is reserved for the operator"},
      {nodes("", {{t + "/env", {{{"name", "A B"}}}}}),
       "spec.workers.template.env[0].name",
       "should match"},
      {nodes("", {{t + "/env", {{{"name", "A"}}, {{"name", "A"}}}}}),
       "spec.workers.template.env[1]",
       "Duplicate value"},
      {nodes("", {{t + "/volumes", {{{"name", "data"}}}}}),
       "spec.workers.template.volumes[0]",
       "set exactly one of persistentVolumeClaim, emptyDir and configMap"},
      {nodes("", {{t + "/volumes", {{{"name", "gnn-tmp"}, {"emptyDir", json::object()}}}}}),
       "spec.workers.template.volumes[0].name",
       "names that start with gnn- are reserved"},
      {nodes(
           "",
           {{t + "/volumes", volume},
            {t + "/volumeMounts", {{{"name", "data"}, {"mountPath", "/etc/gnn/job.yaml"}}}}}
       ),
       "spec.workers.template.volumeMounts[0].mountPath",
       "/, /etc/gnn, /tmp, /dev, /proc and /sys are reserved"},
      {nodes(
           "",
           {{t + "/volumes", volume},
            {t + "/volumeMounts", {{{"name", "data"}, {"mountPath", "//etc/.//gnn/."}}}}}
       ),
       "spec.workers.template.volumeMounts[0].mountPath",
       "/, /etc/gnn, /tmp, /dev, /proc and /sys are reserved"},
      {nodes(
           "",
           {{t + "/volumes", volume},
            {t + "/volumeMounts", {{{"name", "data"}, {"mountPath", "/x/../etc/gnn"}}}}}
       ),
       "spec.workers.template.volumeMounts[0].mountPath",
       "must not contain .. as a folder"},
      {nodes(
           "",
           {{t + "/volumes", volume},
            {t + "/volumeMounts",
             {{{"name", "data"}, {"mountPath", "/d"}, {"subPath", "a/../../b"}}}}}
       ),
       "spec.workers.template.volumeMounts[0].subPath",
       "must not contain .."},
      {nodes("", {{t + "/securityContext/runAsUser", 0}}),
       "spec.workers.template.securityContext.runAsUser",
       "should be greater than or equal to 1"},
      {nodes("", {{t + "/resources/limits", {{"memory", "lots"}}}}),
       "spec.workers.template.resources.limits.memory",
       "should match"},
      {nodes("", {{t + "/metadata", {{"labels", {{"gnn.dev/node", "0"}}}}}}),
       "spec.workers.template.metadata",
       "keys of gnn.dev, and app.kubernetes.io/name, instance, component and managed-by, are the "
       "operator's own"},
      {nodes("", {{t + "/metadata", {{"annotations", {{"a.sub.gnn.dev/x", "x"}}}}}}),
       "spec.workers.template.metadata",
       "keys of gnn.dev, and app.kubernetes.io/name, instance, component and managed-by, are the "
       "operator's own"},
      {nodes("", {{t + "/metadata", {{"annotations", {{"app.kubernetes.io/name", "x"}}}}}}),
       "spec.workers.template.metadata",
       "keys of gnn.dev, and app.kubernetes.io/name, instance, component and managed-by, are the "
       "operator's own"},
      // Counts
      {nodes("", {{"/spec/workers/nodes", 0}}),
       "spec.workers.nodes",
       "should be greater than or equal to 1"},
      {nodes("", {{"/spec/workers/nodes", -1}}),
       "spec.workers.nodes",
       "should be greater than or equal to 1"},
      {nodes("", {{"/spec/workers/nodes", 2147483648}}),
       "spec.workers.nodes",
       "should be less than or equal to 1024"},
      {nodes("", {{"/spec/workers/gpusPerProcess", 2}}),
       "spec.workers.gpusPerProcess",
       "should be less than or equal to 1"},
      {nodes("", {{"/spec/training/epochs", "five"}}),
       "spec.training.epochs",
       "must be of type integer"},
      {nodes("", {{"/spec/sampling/fanout", json::array()}}),
       "spec.sampling.fanout",
       "should have at least 1 items"},
      {nodes("", {{"/spec/sampling/fanout", {-2, 1, 1}}}),
       "spec.sampling.fanout[0]",
       "should be greater than or equal to -1"},
      {nodes("", {{"/spec/model/type", "Transformer"}}), "spec.model.type", "Unsupported value"},
      {nodes("", {{"/spec/task", nullptr}}), "spec.task", "Required value"},
      {nodes("", {{"/spec/workers/template/image", nullptr}}),
       "spec.workers.template.image",
       "Required value"},
      {nodes("", {{t + "/image", std::string(600, 'x')}}), "spec.workers.template.image", "Too long"
      },
  };
  for (Refusal& each : broken_link_rules()) cases.push_back(std::move(each));
  for (Refusal& each : broken_placement_rules()) cases.push_back(std::move(each));
  for (Refusal& each : broken_server_rules()) cases.push_back(std::move(each));
  for (Refusal& each : broken_prepare_rules()) cases.push_back(std::move(each));
  for (Refusal& each : broken_training_rules()) cases.push_back(std::move(each));
  for (Refusal& each : broken_inference_rules()) cases.push_back(std::move(each));
  for (Refusal& each : broken_tracking_rules()) cases.push_back(std::move(each));
  for (Refusal& each : broken_pod_rules()) cases.push_back(std::move(each));
  for (size_t i = 0; i < cases.size(); ++i) {
    cases[i].object["metadata"]["name"] = "refused-" + std::to_string(i) + "-x";
  }
  return cases;
}

TEST_F(CrdAdmission, RefusesWithThePathAndTheFix) {
  const std::vector<Refusal> cases = broken_rules();
  std::vector<json> objects;
  for (const Refusal& each : cases) objects.push_back(each.object);
  const auto said = submit(objects);
  for (const Refusal& each : cases) {
    const std::string answer = said.at(each.object["metadata"]["name"]);
    EXPECT_NE(answer.find(each.path), std::string::npos) << each.path << ": " << answer;
    EXPECT_NE(answer.find(each.text), std::string::npos) << each.path << ": " << answer;
  }
}

// The typed validation finds what the API server finds, so that manifests without a cluster are
// held to the same rules.
TEST_F(CrdAdmission, TheTypedValidationRefusesTheSame) {
  for (const Refusal& each : broken_rules()) {
    const auto decoded = decode_job(each.object, UnknownFields::Reject);
    const bool refused = !decoded || !check(*decoded);
    EXPECT_TRUE(refused) << each.path << " " << each.text;
  }
}

TEST_F(CrdAdmission, EveryRuleIsBrokenByACase) {
  std::ifstream file(kCrd);
  std::stringstream text;
  text << file.rdbuf();
  const json crd = parse_yaml(text.str()).value().front();
  std::set<std::string> messages;
  const std::function<void(const json&)> collect = [&](const json& schema) {
    for (const auto& [name, value] : schema.items()) {
      if (schema.is_object() && name == "x-kubernetes-validations") {
        for (const json& rule : value) messages.insert(rule["message"].get<std::string>());
      } else if (value.is_structured()) {
        collect(value);
      }
    }
  };
  collect(crd);
  std::set<std::string> broken;
  for (const Refusal& each : broken_rules()) broken.insert(each.text);
  for (const std::string& message : messages) {
    // Names and changes have tests of their own.
    const bool elsewhere = message.starts_with("metadata.name") ||
                           message.find("immutable") != std::string::npos ||
                           message.find("only while the job is suspended") != std::string::npos ||
                           message.starts_with("servers can be neither added nor removed");
    EXPECT_TRUE(elsewhere || broken.contains(message)) << message;
  }
}

// `kubectl apply` keeps the whole object in an annotation, which may have 262,144 bytes.
TEST_F(CrdAdmission, TheCrdFitsIntoAnAnnotation) {
  std::ifstream file(kCrd);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_LT(parse_yaml(text.str()).value().front().dump().size(), 256'000U);
}

TEST_F(CrdAdmission, RefusesNamesThatMakeNoDnsLabels) {
  std::vector<json> objects;
  for (const char* name : {"9lives", "a.b", "a1234567890123456789012345678901234567890"}) {
    objects.push_back(nodes(name, {}));
  }
  for (const auto& [name, answer] : submit(objects)) {
    EXPECT_NE(
        answer.find("metadata.name must be a lower-case DNS label of at most 40"), std::string::npos
    ) << name
      << ": " << answer;
  }
  // Kubernetes itself refuses the rest.
  for (const char* name : {"Big", "a_b", "-a", "ünder"}) {
    EXPECT_NE(submit({nodes(name, {})}).at(name), "created") << name;
  }
}

TEST_F(CrdAdmission, RefusesForbiddenPodFieldsAndUnknownOnes) {
  const std::string t = "/spec/workers/template";
  for (const auto& [pointer, value] : Changes{
           {t + "/hostNetwork", true},
           {t + "/serviceAccountName", "admin"},
           {t + "/command", json({"sh"})},
           {t + "/nodeName", "n"},
           {t + "/securityContext/privileged", true},
           {t + "/volumes", json({{{"name", "a"}, {"hostPath", {{"path", "/"}}}}})},
           {t + "/env",
            json({{{"name", "A"}, {"valueFrom", {{"secretKeyRef", {{"name", "s"}, {"key", "k"}}}}}}}
            )},
           {"/spec/training/epoch", 5},
           {"/spec/servers", json::object()},
       }) {
    const auto output = kubectl(
        {"create", "--dry-run=server", "--validate=strict", "-f", "-"},
        nodes("unknown", {{pointer, value}}).dump()
    );
    EXPECT_NE(output.exit_code, 0) << pointer;
    const std::string leaf = pointer.substr(pointer.rfind('/') + 1);
    EXPECT_TRUE(
        output.errors.find("unknown field") != std::string::npos ||
        output.errors.find("Required value") != std::string::npos ||
        output.errors.find("set exactly one of") != std::string::npos
    ) << pointer
      << ": " << output.errors;
  }
}

TEST_F(CrdAdmission, AcceptsWhatEachRuleAllows) {
  const std::string t = "/spec/workers/template";
  const json random = {
      {"type", "Random"}, {"train", "0.5"}, {"validation", "0.25"}, {"test", "0.25"}, {"seed", 3}
  };
  std::vector<json> objects = {
      nodes("plain", {}),
      nodes(
          "tracked",
          {{"/spec/tracking",
            {{"tensorBoard", {{"path", "/runs"}}},
             {"mlflow", {{"uri", "http://[::1]:5000/x"}, {"experiment", "a b"}}}}}}
      ),
      parts("predicted-by-parts", {{"/spec/predictions", {{"path", "/p"}}}}),
      inference(
          "inferred-by-parts",
          {{"/spec/dataset", {{"format", "Native"}, {"path", "/data"}}},
           {"/spec/placement", {{"topology", "Partitioned"}, {"partitions", 2}}},
           {"/spec/prepare/partition", {{"input", "/whole"}, {"fanout", {10, 5}}}},
           {"/spec/workers/nodes", 2}}
      ),
      served("served", {}),
      served("as-many-as-partitions", {{"/spec/servers/nodes", nullptr}}),
      served(
          "ignored",
          {{"/spec/runPolicy/serverTimeoutSeconds", 60},
           {"/spec/runPolicy/failurePolicy/rules",
            {{{"role", "Server"}, {"exitCodes", {65}}, {"action", "Ignore"}}}}}
      ),
      nodes(
          "native",
          {{"/spec/dataset",
            {{"format", "Native"}, {"path", "/data"}, {"split", {{"name", "time"}}}}}}
      ),
      nodes(
          "ogb",
          {{"/spec/dataset",
            {{"format", "OGB"},
             {"path", "/d"},
             {"toUndirected", true},
             {"addSelfLoops", true},
             {"coalesce", true},
             {"split", random}}}}
      ),
      nodes(
          "gcn",
          {{"/spec/model", {{"type", "GCN"}, {"gcn", json::object()}}},
           {"/spec/sampling/fanout", {-1, 0}}}
      ),
      nodes(
          "layerwise",
          {{"/spec/training/evaluation/mode", "LayerWise"},
           {"/spec/training/evaluation/parts", {"Train", "Validation", "Test"}}}
      ),
      nodes("evaluation", {{"/spec/training/evaluation/fanout", {5, 5, 5}}}),
      nodes(
          "cuda",
          {{"/spec/training/device", "CUDA"},
           {"/spec/workers/gpusPerProcess", 1},
           {"/spec/workers/backend", "NCCL"}}
      ),
      nodes("idle", {{"/spec/training/device", "CPU"}, {"/spec/workers/gpusPerProcess", 1}}),
      nodes(
          "slice",
          {{"/spec/workers/gpusPerProcess", 1},
           {"/spec/workers/processesPerNode", 1},
           {"/spec/workers/gpuResource", "nvidia.com/mig-1c.3g.20gb.me"}}
      ),
      nodes(
          "sgd",
          {{"/spec/training/optimizer",
            {{"type", "SGD"}, {"momentum", "0.9"}, {"learningRate", "1e-3"}}}}
      ),
      nodes(
          "schedule",
          {{"/spec/training/optimizer",
            {{"maxGradientNorm", "1"},
             {"schedule",
              {{"type", "Cosine"},
               {"interval", "Step"},
               {"minLearningRate", "1e-2"},
               {"warmup", {{"length", 100}}}}}}},
           {"/spec/training/classWeights", {{"type", "Given"}, {"weights", {"1", "2.5"}}}}}
      ),
      nodes(
          "best",
          {{"/spec/checkpoint", {{"path", "/c"}, {"best", {{"metric", "Accuracy"}}}}},
           {"/spec/training/earlyStopping",
            {{"metric", "Accuracy"}, {"patience", 3}, {"minDelta", "0.001"}}},
           {"/spec/training/classWeights", json::object()},
           {"/spec/training/evaluation/testModel", "Best"}}
      ),
      graphs(
          "fold",
          {{"/spec/dataset/split", {{"type", "KFold"}, {"folds", 5}, {"fold", 0}}},
           {"/spec/training/earlyStopping", {{"metric", "Accuracy"}, {"patience", 1}}}}
      ),
      inference(
          "infer",
          {{"/spec/predictions",
            {{"path", "/p"},
             {"outputs", {"Classes", "Scores", "Embeddings"}},
             {"nodes", "/p/nodes.npy"}}}}
      ),
      nodes("predict", {{"/spec/predictions", {{"path", "/p"}}}}),
      nodes(
          "checkpoint",
          {{"/spec/checkpoint",
            {{"path", "/c"}, {"everyEpochs", 0}, {"everySteps", 10}, {"resume", "/c/1"}}}}
      ),
      nodes(
          "failures",
          {{"/spec/runPolicy/failurePolicy",
            {{"rules",
              {{{"exitCodes", {137}}, {"reasons", {"Error"}}, {"action", "Fail"}},
               {{"reasons", {"Data"}}, {"action", "Restart"}, {"charge", false}}}},
             {"maxRestartsPerNode", 0},
             {"backoff", {{"initialSeconds", 1}, {"maxSeconds", 1}}}}}}
      ),
      nodes("managed", {{"/spec/managedBy", "kueue.x-k8s.io/multikueue"}}),
      nodes(
          "grouped",
          {{"/spec/scheduling",
            {{"schedulingPolicy", {{"gang", json::object()}}},
             {"schedulingConstraints", {{"topology", {{{"key", "topology.kubernetes.io/rack"}}}}}},
             {"disruptionMode", {{"all", json::object()}}},
             {"provider", "Native"}}}}
      ),
      nodes(
          "queued-by-volcano",
          {{"/spec/scheduling",
            {{"schedulingPolicy", {{"basic", json::object()}}},
             {"volcano",
              {{"queue", "night"},
               {"networkTopology", {{"mode", "soft"}, {"highestTierAllowed", 1}}}}}}}}
      ),
      nodes(
          "pods",
          {{t + "/volumes",
            {{{"name", "data"},
              {"persistentVolumeClaim", {{"claimName", "arxiv"}, {"readOnly", true}}}},
             {{"name", "scratch"}, {"emptyDir", {{"medium", "Memory"}, {"sizeLimit", "1Gi"}}}},
             {{"name", "more"}, {"configMap", {{"name", "settings"}}}}}},
           {t + "/volumeMounts",
            {{{"name", "data"}, {"mountPath", "/data"}, {"subPath", "arxiv"}},
             {{"name", "scratch"}, {"mountPath", "/tmpfs"}}}},
           {t + "/env",
            {{{"name", "NCCL_DEBUG"}, {"value", "INFO"}},
             {{"name", "HOST"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "spec.nodeName"}}}}}}}},
           {t + "/resources",
            {{"requests", {{"cpu", 4}, {"memory", "8Gi"}}}, {"limits", {{"memory", "8Gi"}}}}},
           {t + "/priorityClassName", "training"},
           {t + "/imagePullSecrets", {{{"name", "registry"}}}},
           {t + "/tolerations", {{{"operator", "Exists"}}}},
           {t + "/nodeSelector", {{"disk", "nvme"}}},
           {t + "/affinity",
            {{"nodeAffinity",
              {{"requiredDuringSchedulingIgnoredDuringExecution",
                {{"nodeSelectorTerms",
                  {{{"matchExpressions", {{{"key", "zone"}, {"operator", "In"}, {"values", {"a"}}}}}
                  }}}}}}}}}}
      ),
      nodes("a123456789012345678901234567890123456789", {}),
      parts("parts", {}),
      parts(
          "every-placement-field",
          {{"/spec/placement/topology", "Replicated"},
           {"/spec/placement/cache", {{"rows", "0.25"}, {"policy", "Degree"}}},
           {"/spec/training/sharding", "Owner"},
           {"/spec/dataset/toUndirected", true},
           {"/spec/sampling/concurrency", 8},
           {"/spec/sampling/prefetch", 16}}
      ),
      prepared(
          "every-import-field",
          {{"/spec/prepare/resources", {{"requests", {{"memory", "1Gi"}}}}},
           {"/spec/prepare/import",
            {{"format", "EdgeList"},
             {"path", "/data/raw"},
             {"replace", true},
             {"split", "time"},
             {"noSplit", true},
             {"toUndirected", true},
             {"coalesce", true},
             {"addReverse", true},
             {"link", {{"source", "a"}, {"relation", "to"}, {"destination", "b"}}},
             {"rowNormalize", true},
             {"selfLoops", "AddRemaining"},
             {"featureType", "Float16"},
             {"classes", 3}}}}
      ),
      prepared(
          "index",
          {{"/spec/prepare/import",
            {{"format", "PackageIndex"}, {"path", "/data/P"}, {"features", 64}, {"seed", 3}}}}
      ),
      parted("import-and-partition", {}),
      parted(
          "every-partition-field",
          {{"/spec/prepare/import", nullptr},
           {"/spec/prepare/partition",
            {{"input", "/data/whole"},
             {"parts", 2},
             {"method", "METIS"},
             {"fanout", {15, 10, 5}},
             {"batchSize", 512},
             {"hotRows", "0.5"},
             {"replace", true}}}}
      ),
      graphs("random", {}),
      graphs(
          "folds",
          {{"/spec/dataset/split",
            {{"type", "KFold"}, {"folds", 10}, {"fold", 9}, {"seed", 1}, {"validation", "0.1"}}}}
      ),
      graphs(
          "all-folds",
          {{"/spec/dataset/split", {{"type", "KFold"}, {"folds", 10}}},
           {"/spec/dataset/nodeFeatures", "DegreeOneHot"}}
      ),
      graphs("tu", {{"/spec/dataset/format", "TU"}}),
      links("links", {}),
      links(
          "every-link-field",
          {{"/spec/dataset/coalesce", true},
           {"/spec/dataset/coOccurrence/edges", "All"},
           {"/spec/dataset/split",
            {{"type", "RandomLink"},
             {"validation", "0.5"},
             {"test", "0.25"},
             {"seed", 3},
             {"negativeRatio", "0.5"},
             {"disjointTrain", "0.3"}}},
           {"/spec/sampling/fanoutByEdgeType",
            {{{"source", "item"}, {"relation", "to"}, {"destination", "item"}, {"fanout", {8, 0}}},
             {{"source", "item"},
              {"relation", "rev_to"},
              {"destination", "user"},
              {"fanout", {-1, 4}}}}},
           {"/spec/sampling/negatives",
            {{"type", "Binary"}, {"amount", "2"}, {"weights", "Degree"}, {"strict", true}}},
           {"/spec/sampling/excludeSeedEdges", true},
           {"/spec/training/embeddings", {{"update", "Lazy"}}},
           {"/spec/training/evaluation",
            {{"metric", "Hits"},
             {"hitsK", 50},
             {"fanout", {16, 8}},
             {"parts", {"Validation", "Test"}},
             {"maxBatches", 10}}}}
      ),
      links(
          "reciprocal-ranks",
          {{"/spec/training/evaluation", {{"metric", "MRR"}, {"negatives", 100}}}}
      ),
      links(
          "generated-links",
          {{"/spec/dataset/format", "Synthetic"},
           {"/spec/dataset/path", nullptr},
           {"/spec/dataset/synthetic", {{"shape", "Taobao"}, {"scale", "0.01"}}}}
      ),
      links(
          "own-relations",
          {{"/spec/dataset",
            {{"format", "Native"},
             {"path", "/data"},
             {"split", {{"type", "RandomLink"}, {"validation", "0.1"}, {"test", "0.1"}}}}}}
      ),
      plain_links(
          "plain-links",
          {{"/spec/dataset/toUndirected", true},
           {"/spec/model/decoder", {{"type", "MLP"}, {"hiddenChannels", 8}}},
           {"/spec/training/optimizer", {{"type", "SGD"}, {"weightDecay", "1e-5"}}}}
      ),
  };
  for (const auto& [name, answer] : submit(objects)) EXPECT_EQ(answer, "created") << name;
  for (const json& object : objects) {
    const auto decoded = decode_job(object, UnknownFields::Reject);
    ASSERT_TRUE(decoded) << decoded.error().message;
    const Status valid = check(*decoded);
    EXPECT_TRUE(valid) << object["metadata"]["name"] << ": " << valid.error().message;
  }
}

TEST_F(CrdAdmission, FillsTheDefaultsOfTheStructs) {
  const auto created = kubectl(
      {"create", "--dry-run=server", "-o", "json", "-f", "-"},
      R"({"apiVersion": "gnn.dev/v1alpha1", "kind": "GNNJob", "metadata": {"name": "bare"}, "spec": {
          "task": {"type": "NodeClassification"},
          "dataset": {"format": "Synthetic", "synthetic": {"shape": "Arxiv"}},
          "model": {"type": "GraphSAGE", "graphSage": {}},
          "sampling": {"fanout": [10, 10, 10]},
          "workers": {"template": {"image": "gnn-worker:0.1"}}}})"
  );
  ASSERT_EQ(created.exit_code, 0) << created.errors;
  const auto read = decode_job(json::parse(created.output), UnknownFields::Reject);
  ASSERT_TRUE(read) << read.error().message;
  GnnJob expected = sample_job();
  expected.spec.workers.nodes = 1;
  EXPECT_EQ(read->spec, expected.spec) << encode(read->spec).dump(2);
}

TEST_F(CrdAdmission, FillsTheDefaultsOfLinkPrediction) {
  json object = links("bare-links", {{"/spec/workers/nodes", nullptr}});
  object["spec"].erase("training");
  object["spec"].erase("runPolicy");
  object["spec"]["model"]["bipartiteSage"] = json::object();
  object["spec"]["sampling"]["negatives"] = json::object();
  object["spec"]["dataset"]["coOccurrence"].erase("edges");
  const auto created =
      kubectl({"create", "--dry-run=server", "-o", "json", "-f", "-"}, object.dump());
  ASSERT_EQ(created.exit_code, 0) << created.errors;
  const auto read = decode_job(json::parse(created.output), UnknownFields::Reject);
  ASSERT_TRUE(read) << read.error().message;
  GnnJobSpec expected = sample_link_job().spec;
  expected.sampling->negatives.emplace();
  EXPECT_EQ(read->spec, expected) << encode(read->spec).dump(2);
}

TEST_F(CrdAdmission, TheSpecIsImmutableExceptWhatMayChange) {
  ASSERT_EQ(kubectl({"create", "-f", "-"}, nodes("steady", {}).dump()).exit_code, 0);
  const auto patch = [&](const char* change, const char* field = "steady") {
    return kubectl({"patch", "gnnjob", field, "--type=merge", "--dry-run=server", "-p", change});
  };
  for (const char* change : {
           R"({"spec": {"training": {"epochs": 9}}})",
           R"({"spec": {"model": {"graphSage": {"hiddenChannels": 9}}}})",
           R"({"spec": {"dataset": {"synthetic": {"seed": 9}}}})",
           R"({"spec": {"sampling": {"replace": true}}})",
           R"({"spec": {"checkpoint": {"path": "/c"}}})",
           R"({"spec": {"predictions": {"path": "/p"}}})",
           R"({"spec": {"placement": {"partitions": 1}}})",
           R"({"spec": {"managedBy": "somebody/else"}})",
           R"({"spec": {"scheduling": {"provider": "None"}}})",
           R"({"spec": {"workers": {"nodes": 9}}})",
           R"({"spec": {"workers": {"gpuResource": "nvidia.com/gpu"}}})",
           R"({"spec": {"workers": {"template": {"image": "other"}}}})",
           R"({"spec": {"workers": {"template": {"env": [{"name": "A"}]}}}})",
           R"({"spec": {"workers": {"template": {"securityContext": {"runAsUser": 7}}}}})",
           R"({"spec": {"workers": {"template": {"securityContext": {"runAsGroup": 7}}}}})",
           R"({"spec": {"workers": {"template": {"securityContext": {"fsGroup": 7}}}}})",
           R"({"spec": {"workers": {"template": {"securityContext": {"fsGroupChangePolicy": "Always"}}}}})",
           R"({"spec": {"runPolicy": {"maxRestarts": 9}}})",
           R"({"spec": {"runPolicy": {"cleanPodPolicy": "All"}}})",
           R"({"spec": {"runPolicy": {"startupDeadlineSeconds": 9}}})",
           R"({"spec": {"runPolicy": {"failurePolicy": {"backoff": {"maxSeconds": 20}}}}})",
       }) {
    const auto output = patch(change);
    EXPECT_NE(output.exit_code, 0) << change;
    EXPECT_NE(output.errors.find("immutable"), std::string::npos)
        << change << ": " << output.errors;
  }
  ASSERT_EQ(kubectl({"create", "-f", "-"}, parts("placed", {}).dump()).exit_code, 0);
  ASSERT_EQ(kubectl({"create", "-f", "-"}, prepared("prepared", {}).dump()).exit_code, 0);
  for (const char* change :
       {R"({"spec": {"prepare": {"import": {"path": "/other"}}}})", R"({"spec": {"prepare": null}})"
       }) {
    const auto changed = patch(change, "prepared");
    EXPECT_NE(changed.exit_code, 0) << change;
    EXPECT_NE(changed.errors.find("immutable"), std::string::npos) << changed.errors;
  }
  const auto moved = patch(R"({"spec": {"placement": {"topology": "Replicated"}}})", "placed");
  EXPECT_NE(moved.exit_code, 0);
  EXPECT_NE(moved.errors.find("immutable"), std::string::npos) << moved.errors;
  const char* selector =
      R"({"spec": {"workers": {"template": {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}}}})";
  EXPECT_NE(
      patch(selector).errors.find(
          "metadata, nodeSelector and tolerations may change only while the job is suspended"
      ),
      std::string::npos
  );
  for (const char* change : {
           R"({"spec": {"suspend": true}})",
           R"({"spec": {"runPolicy": {"ttlSecondsAfterFinished": 9}}})",
           // An older CRD wrote these where a manifest said nothing.
           R"({"spec": {"workers": {"template": {"securityContext": {"runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532}}}}})",
           R"({"spec": {"workers": {"template": {"securityContext": {"fsGroupChangePolicy": "OnRootMismatch"}}}}})",
           R"({"spec": {"workers": {"template": {"securityContext": null}}}})",
           R"({"spec": {"runPolicy": {"activeDeadlineSeconds": 9}}})",
           R"({"metadata": {"labels": {"a": "b"}}})",
           R"({"spec": {"suspend": true, "workers": {"template": {"nodeSelector": {"a": "b"}}}}})",
           R"({"spec": {"suspend": true, "workers": {"template": {"metadata": {"labels": {"a": "b"}}}}}})",
       }) {
    const auto output = patch(change);
    EXPECT_EQ(output.exit_code, 0) << change << ": " << output.errors;
  }
  // A queueing system puts the machine's labels in and starts the job in one write.
  ASSERT_EQ(
      kubectl({"create", "-f", "-"}, nodes("queued", {{"/spec/suspend", true}}).dump()).exit_code, 0
  );
  const auto admitted = patch(
      R"({"spec": {"suspend": false, "workers": {"template": {"nodeSelector": {"a": "b"}}}}})",
      "queued"
  );
  EXPECT_EQ(admitted.exit_code, 0) << admitted.errors;
  EXPECT_NE(
      patch(R"({"spec": {"workers": {"template": {"image": "other"}}}})", "queued").exit_code, 0
  );
}

json first_two(const json& object, const std::string& list) {
  const json& all = object.at(json::json_pointer(list));
  return json::array({all.at(0), all.at(1)});
}

json exchanged(const json& object, const std::string& list) {
  const json& all = object.at(json::json_pointer(list));
  return json::array({all.at(1), all.at(0)});
}

// An older CRD wrote the defaults of list elements into each job; manifests leave them out.
TEST_F(CrdAdmission, InListsAnAbsentFieldIsItsDefaultOfBefore) {
  const std::string pod = "/spec/workers/template";
  const json job = nodes(
      "listed",
      {{pod + "/volumes",
        {{{"name", "data"}, {"persistentVolumeClaim", {{"claimName", "data"}}}},
         {{"name", "scratch"}, {"emptyDir", {{"sizeLimit", "1Gi"}}}},
         {{"name", "settings"}, {"configMap", {{"name", "settings"}}}}}},
       {pod + "/volumeMounts",
        {{{"name", "data"}, {"mountPath", "/data"}, {"subPath", "arxiv"}},
         {{"name", "scratch"}, {"mountPath", "/scratch"}}}},
       {"/spec/runPolicy/failurePolicy/rules",
        {{{"exitCodes", {3, 4}}, {"action", "Restart"}},
         {{"reasons", {"Error"}}, {"action", "Fail"}}}}}
  );
  const std::string first_claim = pod + "/volumes/0/persistentVolumeClaim";
  const std::string first_mount = pod + "/volumeMounts/0";
  const std::string rules = "/spec/runPolicy/failurePolicy/rules";
  const json written = testing::changed(
      job,
      {{first_claim + "/readOnly", false},
       {first_mount + "/readOnly", false},
       {pod + "/volumeMounts/1/readOnly", false},
       {rules + "/0/charge", true},
       {rules + "/1/charge", true}}
  );
  const auto replaced = [](const json& by) {
    return kubectl({"replace", "--dry-run=server", "-f", "-"}, by.dump());
  };
  for (const json* stored : {&job, &written}) {
    ASSERT_EQ(kubectl({"create", "-f", "-"}, stored->dump()).exit_code, 0);
    const auto kept = kubectl({"get", "gnnjob", "listed", "-o", "json"});
    EXPECT_EQ(json::parse(kept.output)["status"], (json{{"observedGeneration", -1}}));
    const json spec = json::parse(kept.output)["spec"];
    EXPECT_EQ(
        spec.at(json::json_pointer(first_claim.substr(5))),
        stored->at(json::json_pointer(first_claim))
    );
    EXPECT_EQ(spec.at(json::json_pointer(rules.substr(5))), stored->at(json::json_pointer(rules)));
    for (const json* by : {&job, &written}) {
      const auto output = replaced(*by);
      EXPECT_EQ(output.exit_code, 0) << output.errors;
    }
    for (const Changes& change : std::vector<Changes>{
             {{first_claim + "/readOnly", true}},
             {{first_claim + "/claimName", "other"}},
             {{pod + "/volumes/1/emptyDir", json::object()}},
             {{pod + "/volumes/2/configMap/name", "other"}},
             {{pod + "/volumes", first_two(*stored, pod + "/volumes")}},
             {{first_mount + "/readOnly", true}},
             {{first_mount + "/subPath", nullptr}},
             {{first_mount + "/name", "scratch"}},
             {{first_mount + "/mountPath", "/other"}},
             {{pod + "/volumeMounts/2", {{"name", "scratch"}, {"mountPath", "/more"}}}},
             {{rules + "/0/charge", false}},
             {{rules + "/0/exitCodes", {3}}},
             {{rules + "/1/reasons", {"Data"}}},
             {{rules + "/1/action", "Restart"}},
             {{rules + "/1/role", "Server"}},
             {{rules, json::array({stored->at(json::json_pointer(rules + "/0"))})}},
             {{rules, exchanged(*stored, rules)}},
             {{rules, nullptr}},
             {{"/spec/runPolicy/failurePolicy/maxRestartsPerNode", 2}},
         }) {
      const auto output = replaced(testing::changed(*stored, change));
      EXPECT_NE(output.exit_code, 0) << change.front().first;
      EXPECT_NE(output.errors.find("immutable"), std::string::npos)
          << change.front().first << ": " << output.errors;
    }
    ASSERT_EQ(kubectl({"delete", "gnnjob", "listed"}).exit_code, 0);
  }
}

TEST_F(CrdAdmission, OfServersTheNumberMayChangeWhileTheJobRuns) {
  ASSERT_EQ(kubectl({"create", "-f", "-"}, served("serving", {}).dump()).exit_code, 0);
  ASSERT_EQ(kubectl({"create", "-f", "-"}, parts("alone", {}).dump()).exit_code, 0);
  const auto patch = [&](const char* change, const char* name = "serving") {
    return kubectl({"patch", "gnnjob", name, "--type=merge", "--dry-run=server", "-p", change});
  };
  for (const char* change :
       {R"({"spec": {"servers": {"nodes": 5}}})",
        R"({"spec": {"servers": {"nodes": null}}})",
        R"({"spec": {"suspend": true, "servers": {"template": {"nodeSelector": {"a": "b"}}}}})"}) {
    const auto output = patch(change);
    EXPECT_EQ(output.exit_code, 0) << change << ": " << output.errors;
  }
  for (const auto& [change, text] : std::vector<std::pair<const char*, const char*>>{
           {R"({"spec": {"servers": {"nodes": 1}}})", "must be at least placement.partitions"},
           {R"({"spec": {"servers": null}})", "servers can be neither added nor removed"},
           {R"({"spec": {"servers": {"maxBytesInFlight": "1Gi"}}})", "immutable"},
           {R"({"spec": {"servers": {"template": {"image": "other"}}}})", "immutable"},
           {R"({"spec": {"runPolicy": {"serverTimeoutSeconds": 9}}})", "immutable"},
           {R"({"spec": {"servers": {"template": {"nodeSelector": {"a": "b"}}}}})",
            "only while the job is suspended"},
           {R"({"spec": {"servers": {"template": {"metadata": {"labels": {"a": "b"}}}}}})",
            "only while the job is suspended"},
       }) {
    const auto output = patch(change);
    EXPECT_NE(output.exit_code, 0) << change;
    EXPECT_NE(output.errors.find(text), std::string::npos) << change << ": " << output.errors;
  }
  const auto added =
      patch(R"({"spec": {"servers": {"template": {"image": "gnn-worker:0.1"}}}})", "alone");
  EXPECT_NE(added.errors.find("servers can be neither added nor removed"), std::string::npos)
      << added.errors;
}

TEST_F(CrdAdmission, JobsAreSelectedByTheirState) {
  for (const char* name : {"state-a", "state-b"}) {
    ASSERT_EQ(kubectl({"create", "-f", "-"}, nodes(name, {}).dump()).exit_code, 0);
  }
  const auto patched = kubectl(
      {"patch",
       "gnnjob",
       "state-a",
       "--subresource=status",
       "--type=merge",
       R"(--patch={"status": {"state": "Running"}})"}
  );
  ASSERT_EQ(patched.exit_code, 0) << patched.errors;
  const auto found =
      kubectl({"get", "gnnjobs", "--field-selector=status.state=Running", "--output=name"});
  EXPECT_EQ(found.output, "gnnjob.gnn.dev/state-a\n") << found.errors;
}

TEST_F(CrdAdmission, ShowsItsColumnsAndExplainsEveryField) {
  ASSERT_EQ(kubectl({"create", "-f", "-"}, nodes("columns", {}).dump()).exit_code, 0);
  const std::string narrow = kubectl({"get", "gj"}).output;
  for (const char* column : {"STATE", "NODES", "EPOCH", "METRIC", "METRICNAME", "RESTARTS", "AGE"})
    EXPECT_NE(narrow.find(column), std::string::npos) << column;
  const std::string wide = kubectl({"get", "gj", "-o", "wide"}).output;
  for (const char* column : {"MODEL", "LOSS", "ETA", "MESSAGE", "SERVERS"})
    EXPECT_NE(wide.find(column), std::string::npos) << column;
  const auto explained = kubectl({"explain", "gnnjob.spec.sampling.fanout"});
  EXPECT_NE(explained.output.find("Neighbours to draw per node"), std::string::npos)
      << explained.errors;
  EXPECT_NE(kubectl({"get", "gnn"}).output.find("columns"), std::string::npos) << "the category";
}

}  // namespace
}  // namespace gnn::api
