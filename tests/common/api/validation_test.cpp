#include "common/api/validation.h"

#include "tests/common/api/sample_job.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gnn::api {
namespace {

using Change = std::function<void(GnnJob&)>;

std::vector<std::string> paths_of(const GnnJob& job) {
  std::vector<std::string> paths;
  for (const FieldError& error : validate(job)) paths.push_back(error.path);
  return paths;
}

// A change that makes a valid job wrong, and the path that must be named.
struct Case {
  std::string path;
  Change change;
  bool graphs = false;  // start from the graph-classification sample
};

struct LinkCase {
  std::string path;
  Change change;
  bool plain = false;  // start from the sample with one node type
};

void expect_refused(const std::vector<LinkCase>& cases) {
  for (const LinkCase& each : cases) {
    GnnJob job = each.plain ? sample_plain_link_job() : sample_link_job();
    each.change(job);
    std::string messages;
    for (const FieldError& error : validate(job)) messages += error.message + "; ";
    EXPECT_EQ(paths_of(job), std::vector<std::string>{each.path}) << messages;
  }
}

void expect_refused(const std::vector<Case>& cases) {
  for (const Case& each : cases) {
    GnnJob job = each.graphs ? sample_graph_job() : sample_job();
    each.change(job);
    const std::vector<std::string> paths = paths_of(job);
    EXPECT_EQ(paths, std::vector<std::string>{each.path})
        << ::testing::PrintToString(validate(job).size());
  }
}

TEST(Validation, AcceptsTheSamples) {
  EXPECT_EQ(paths_of(sample_job()), std::vector<std::string>{});
  EXPECT_EQ(paths_of(sample_graph_job()), std::vector<std::string>{});
  EXPECT_EQ(paths_of(sample_partitioned_job()), std::vector<std::string>{});
  EXPECT_EQ(paths_of(sample_served_job()), std::vector<std::string>{});
  EXPECT_EQ(paths_of(sample_prepare_job()), std::vector<std::string>{});
  EXPECT_EQ(paths_of(sample_prepare_partitions_job()), std::vector<std::string>{});
  EXPECT_EQ(paths_of(sample_inference_job()), std::vector<std::string>{});
  EXPECT_EQ(paths_of(sample_link_job()), std::vector<std::string>{});
  EXPECT_EQ(paths_of(sample_plain_link_job()), std::vector<std::string>{});
}

TEST(Validation, AllowsSlicesAndSharesOfGpusToOneProcessPerNode) {
  for (const char* resource :
       {"nvidia.com/mig-1g.10gb", "nvidia.com/mig-1c.3g.20gb.me", "nvidia.com/gpu.shared"}) {
    GnnJob job = sample_job();
    job.spec.workers.gpu_resource = resource;
    job.spec.workers.processes_per_node = 1;
    job.spec.workers.gpus_per_process = 0;
    EXPECT_EQ(paths_of(job), std::vector<std::string>{"spec.workers.gpuResource"});
    job.spec.workers.gpus_per_process = 1;
    EXPECT_EQ(paths_of(job), std::vector<std::string>{});
    job.spec.workers.processes_per_node = 2;
    EXPECT_EQ(paths_of(job), std::vector<std::string>{"spec.workers.gpuResource"});
    job.spec.workers.gpu_resource = "nvidia.com/gpu";
    EXPECT_EQ(paths_of(job), std::vector<std::string>{});
  }
  for (const char* resource : {"amd.com/gpu", "nvidia.com/mig-", "nvidia.com/gpu.shared.shared"}) {
    GnnJob job = sample_job();
    job.spec.workers.gpu_resource = resource;
    job.spec.workers.processes_per_node = job.spec.workers.gpus_per_process = 1;
    EXPECT_EQ(paths_of(job), std::vector<std::string>{"spec.workers.gpuResource"}) << resource;
  }
}

TEST(Validation, ChecksEveryFieldsBounds) {
  expect_refused(std::vector<Case>{
      {"spec.workers.nodes", [](GnnJob& j) { j.spec.workers.nodes = 0; }},
      {"spec.workers.nodes", [](GnnJob& j) { j.spec.workers.nodes = -3; }},
      {"spec.workers.nodes", [](GnnJob& j) { j.spec.workers.nodes = 2147483648; }},
      {"spec.workers.gpusPerProcess", [](GnnJob& j) { j.spec.workers.gpus_per_process = 2; }},
      {"spec.training.epochs", [](GnnJob& j) { j.spec.training.epochs = 0; }},
      {"spec.training.optimizer.learningRate",
       [](GnnJob& j) { j.spec.training.optimizer.learning_rate = Decimal{"0"}; }},
      {"spec.training.optimizer.learningRate",
       [](GnnJob& j) { j.spec.training.optimizer.learning_rate = Decimal{"fast"}; }},
      {"spec.model.graphSage.dropout",
       [](GnnJob& j) { j.spec.model.graph_sage->dropout = Decimal{"1"}; }},
      {"spec.sampling.fanout[1]", [](GnnJob& j) { j.spec.sampling->fanout[1] = -2; }},
      {"spec.dataset.synthetic.scale",
       [](GnnJob& j) { j.spec.dataset.synthetic->scale = Decimal{"0"}; }},
      {"spec.workers.template.image", [](GnnJob& j) { j.spec.workers.pod_template->image = ""; }},
      {"spec.workers.template.image",
       [](GnnJob& j) { j.spec.workers.pod_template->image = std::string(600, 'x'); }},
      {"spec.workers.template.env[0].name",
       [](GnnJob& j) { j.spec.workers.pod_template->env = {{.name = "A B", .value = "1"}}; }},
      {"spec.workers.template.nodeSelector[\"b/a/d\"]",
       [](GnnJob& j) { j.spec.workers.pod_template->node_selector = {{"b/a/d", "x"}}; }},
      {"spec.workers.template.securityContext.runAsUser",
       [](GnnJob& j) { j.spec.workers.pod_template->security_context.run_as_user = 0; }},
      {"spec.runPolicy.maxRestarts", [](GnnJob& j) { j.spec.run_policy.max_restarts = -1; }},
      {"spec.runPolicy.failurePolicy.rules[0].exitCodes[0]",
       [](GnnJob& j) { j.spec.run_policy.failure_policy.rules = {{.exit_codes = {256}}}; }},
      {"spec.training.evaluation.parts",
       [](GnnJob& j) { j.spec.training.evaluation.parts.emplace(); }},
  });
}

TEST(Validation, RefusesWhatAnInferenceJobDoesNotUse) {
  for (const auto& [path, change] : std::vector<std::pair<std::string, Change>>{
           {"spec.model", [](GnnJob& j) { j.spec.model.from.reset(); }},
           {"spec.predictions", [](GnnJob& j) { j.spec.predictions.reset(); }},
           {"spec.sampling", [](GnnJob& j) { j.spec.sampling = sample_job().spec.sampling; }},
           {"spec.checkpoint", [](GnnJob& j) { j.spec.checkpoint.emplace().path = "/c"; }},
           {"spec.export", [](GnnJob& j) { j.spec.model_export.emplace().path = "/m"; }},
           {"spec.training.earlyStopping",
            [](GnnJob& j) { j.spec.training.early_stopping = EarlyStopping{.patience = 3}; }},
           {"spec.features.memory",
            [](GnnJob& j) {
              j.spec.features = Features{.memory = FeatureMemory::Device};
              j.spec.training.device = DeviceChoice::CUDA;
              j.spec.workers.gpus_per_process = 1;
            }},
       }) {
    GnnJob job = sample_inference_job();
    change(job);
    EXPECT_EQ(paths_of(job), std::vector<std::string>{path});
  }
  GnnJob prepared = sample_inference_job();
  prepared.spec.dataset = sample_partitioned_job().spec.dataset;
  prepared.spec.prepare.emplace().partition = DataPartition{.input = "/whole", .parts = 2};
  EXPECT_EQ(paths_of(prepared), std::vector<std::string>{"spec.prepare.partition"});
  prepared.spec.prepare->partition->fanout = {10, 5};
  EXPECT_EQ(paths_of(prepared), std::vector<std::string>{});
  GnnJob links = sample_plain_link_job();
  links.spec.task.mode = TaskMode::Inference;
  links.spec.model.from = "/models/links.safetensors";
  links.spec.sampling.reset();
  EXPECT_EQ(paths_of(links), (std::vector<std::string>{"spec.task", "spec.predictions"}));
}

TEST(Validation, ChecksPredictions) {
  expect_refused(std::vector<Case>{
      {"spec.model", [](GnnJob& j) { j.spec.model.from = "/models/m.safetensors"; }},
      {"spec.predictions.outputs",
       [](GnnJob& j) {
         j.spec.predictions =
             Predictions{.path = "/p", .outputs = {{Output::Scores, Output::Scores}}};
       }},
      {"spec.predictions.outputs",
       [](GnnJob& j) { j.spec.predictions = Predictions{.path = "/p", .outputs = {{}}}; }},
      {"spec.predictions.path", [](GnnJob& j) { j.spec.predictions.emplace(); }},
      {"spec.predictions",
       [](GnnJob& j) { j.spec.predictions = Predictions{.path = "/p"}; },
       /*graphs=*/true},
  });
  GnnJob job = sample_partitioned_job();
  job.spec.predictions = Predictions{.path = "/p"};
  EXPECT_EQ(paths_of(job), std::vector<std::string>{});
  job = sample_served_job();
  job.spec.predictions = Predictions{.path = "/p"};
  EXPECT_EQ(paths_of(job), std::vector<std::string>{"spec.predictions"});
}

TEST(Validation, ChecksNames) {
  for (const char* name :
       {"",
        "9lives",
        "Arxiv",
        "a_b",
        "a.b",
        "-a",
        "a-",
        "ünder",
        "a b",
        "a1234567890123456789012345678901234567890"}) {
    GnnJob job = sample_job();
    job.metadata.name = name;
    EXPECT_EQ(paths_of(job), std::vector<std::string>{"metadata.name"}) << name;
  }
}

TEST(Validation, ChecksRulesBetweenFields) {
  expect_refused(std::vector<Case>{
      {"spec.runPolicy.failurePolicy.backoff",
       [](GnnJob& j) { j.spec.run_policy.failure_policy.backoff.initial_seconds = 361; }},
      {"spec.runPolicy.failurePolicy.rules[0]",
       [](GnnJob& j) { j.spec.run_policy.failure_policy.rules.emplace_back(); }},
      {"spec.runPolicy.failurePolicy.rules[1]",
       [](GnnJob& j) {
         j.spec.run_policy.failure_policy.rules = {
             {.exit_codes = {1}},
             {.exit_codes = {2}, .action = FailureAction::Fail, .charge = false}
         };
       }},
      {"spec.dataset", [](GnnJob& j) { j.spec.dataset.path = "/data"; }},
      {"spec.dataset", [](GnnJob& j) { j.spec.dataset.synthetic.reset(); }},
      {"spec.dataset", [](GnnJob& j) { j.spec.dataset.to_undirected = true; }, true},
      {"spec.dataset.split", [](GnnJob& j) { j.spec.dataset.split.disjoint_train = Decimal{"0.1"}; }
      },
      {"spec.dataset", [](GnnJob& j) { j.spec.dataset.path.reset(); }, true},
      {"spec.dataset.format", [](GnnJob& j) { j.spec.dataset.format = DatasetFormat::OGB; }, true},
      {"spec.dataset.nodeFeatures",
       [](GnnJob& j) { j.spec.dataset.node_features = NodeFeatures::Constant; }},
      {"spec.dataset.split", [](GnnJob& j) { j.spec.dataset.split.train = Decimal{"0.5"}; }},
      {"spec.dataset.split",
       [](GnnJob& j) {
         j.spec.dataset = {};
         j.spec.dataset.format = DatasetFormat::Reddit;
         j.spec.dataset.path = "/data/reddit";
         j.spec.dataset.split.name = "random";
       }},
      {"spec.dataset.format", [](GnnJob& j) { j.spec.dataset.format = DatasetFormat::Reddit; }, true
      },
      {"spec.dataset.split", [](GnnJob& j) { j.spec.dataset.split.seed = 3; }},
      {"spec.dataset.split", [](GnnJob& j) { j.spec.dataset.split.fold = 3; }},
      {"spec.dataset.split", [](GnnJob& j) { j.spec.dataset.split.folds = 3; }},
      {"spec.dataset.split", [](GnnJob& j) { j.spec.dataset.split.name = "x"; }, true},
      {"spec.dataset.split", [](GnnJob& j) { j.spec.dataset.split.test = Decimal{"0.2"}; }, true},
      {"spec.dataset.split", [](GnnJob& j) { j.spec.dataset.split.test.reset(); }, true},
      {"spec.dataset.split", [](GnnJob& j) { j.spec.dataset.split = {}; }, true},
      {"spec.model", [](GnnJob& j) { j.spec.model.graph_sage.reset(); }},
      {"spec.model", [](GnnJob& j) { j.spec.model.gcn.emplace(); }},
      {"spec.sampling", [](GnnJob& j) { j.spec.sampling.reset(); }},
      {"spec.sampling.fanout", [](GnnJob& j) { j.spec.sampling->fanout = {10, 10, 10, 10}; }},
      {"spec.training.evaluation.fanout",
       [](GnnJob& j) { j.spec.training.evaluation.fanout = {{10}}; }},
      {"spec.training.evaluation.fanout",
       [](GnnJob& j) {
         j.spec.training.evaluation.mode = EvaluationMode::LayerWise;
         j.spec.training.evaluation.fanout = {{10, 10, 10}};
       }},
      {"spec.training.evaluation.mode",
       [](GnnJob& j) { j.spec.training.evaluation.mode = EvaluationMode::LayerWise; },
       true},
      {"spec.training.evaluation.parts",
       [](GnnJob& j) { j.spec.training.evaluation.parts = {{Part::Train, Part::Train}}; }},
      {"spec.training.evaluation.maxBatches",
       [](GnnJob& j) {
         j.spec.training.evaluation.mode = EvaluationMode::LayerWise;
         j.spec.training.evaluation.max_batches = 1;
       }},
      {"spec.training.optimizer",
       [](GnnJob& j) { j.spec.training.optimizer.momentum = Decimal{"0.9"}; }},
      {"spec.training.gradientAccumulation",
       [](GnnJob& j) {
         j.spec.training.uneven_inputs = UnevenInputs::Join;
         j.spec.training.gradient_accumulation = 2;
       }},
      {"spec.training.device", [](GnnJob& j) { j.spec.training.device = DeviceChoice::CUDA; }},
      {"spec.workers.backend", [](GnnJob& j) { j.spec.workers.backend = Backend::NCCL; }},
      {"spec.workers.backend",
       [](GnnJob& j) {
         j.spec.workers.backend = Backend::Gloo;
         j.spec.workers.gpus_per_process = 1;
         j.spec.training.device = DeviceChoice::CUDA;
       }},
      {"spec.checkpoint",
       [](GnnJob& j) { j.spec.checkpoint = Checkpoint{.path = "/c", .every_epochs = 0}; }},
      {"spec.export.names",
       [](GnnJob& j) {
         j.spec.model = {.type = ModelType::GCN, .gcn = Gcn{.layers = 3}};
         j.spec.model_export = Export{.path = "/models", .names = ParameterNames::DGL};
       }},
  });
}

TEST(Validation, ChecksSchedulesAndWhatComparesValidations) {
  using Schedule = LearningRateSchedule;
  const auto schedule = [](Schedule changed) {
    return [changed](GnnJob& j) { j.spec.training.optimizer.schedule = changed; };
  };
  const auto best = [](Metric metric) {
    return Checkpoint{.path = "/c", .best = BestCheckpoint{.metric = metric}};
  };
  const std::string at_schedule = "spec.training.optimizer.schedule";
  expect_refused(std::vector<Case>{
      {at_schedule, schedule({.type = ScheduleType::Step})},
      {at_schedule, schedule({.gamma = Decimal{"0.5"}})},
      {at_schedule, schedule({.min_learning_rate = Decimal{"0"}})},
      {at_schedule, schedule({.type = ScheduleType::Cosine, .min_learning_rate = Decimal{"0.02"}})},
      {at_schedule, schedule({.warmup = Warmup{.length = 5}})},
      {at_schedule + ".warmup.length", schedule({.warmup = Warmup{}})},
      {"spec.training.optimizer.maxGradientNorm",
       [](GnnJob& j) { j.spec.training.optimizer.max_gradient_norm = Decimal{"0"}; }},
      {"spec.training.earlyStopping",
       [](GnnJob& j) { j.spec.training.early_stopping = EarlyStopping{.metric = Metric::AUC}; }},
      {"spec.training.evaluation.every",
       [](GnnJob& j) {
         j.spec.training.early_stopping.emplace();
         j.spec.training.evaluation.every = 0;
       }},
      {"spec.checkpoint.best", [&](GnnJob& j) { j.spec.checkpoint = best(Metric::MRR); }},
      {"spec.training.evaluation.parts",
       [&](GnnJob& j) {
         j.spec.checkpoint = best(Metric::Accuracy);
         j.spec.training.evaluation.parts = {{Part::Test}};
       }},
      {"spec.training.evaluation",
       [](GnnJob& j) { j.spec.training.evaluation.test_model = TestModel::Best; }},
      {"spec.dataset.split",
       [](GnnJob& j) {
         j.spec.dataset.split = {.type = SplitType::KFold, .folds = 5};
         j.spec.training.early_stopping.emplace();
       },
       true},
      {"spec.training.classWeights",
       [](GnnJob& j) { j.spec.training.class_weights = ClassWeights{.weights = {{"1"}}}; }},
      {"spec.training.classWeights.weights[0]",
       [](GnnJob& j) {
         j.spec.training.class_weights =
             ClassWeights{.type = ClassWeighting::Given, .weights = {{"0"}}};
       }},
  });
  expect_refused(std::vector<LinkCase>{
      {"spec.training", [](GnnJob& j) { j.spec.training.class_weights.emplace(); }},
      {"spec.checkpoint.best", [&](GnnJob& j) { j.spec.checkpoint = best(Metric::Accuracy); }},
  });
}

TEST(Validation, KFoldNeedsFoldsAboveFold) {
  GnnJob job = sample_graph_job();
  job.spec.dataset.split = {.type = SplitType::KFold};
  EXPECT_EQ(paths_of(job), std::vector<std::string>{"spec.dataset.split"});
  job.spec.dataset.split.folds = 10;
  EXPECT_EQ(paths_of(job), std::vector<std::string>{});
  job.spec.dataset.split.fold = 9;
  EXPECT_EQ(paths_of(job), std::vector<std::string>{});
  job.spec.dataset.split.fold = 10;
  EXPECT_EQ(paths_of(job), std::vector<std::string>{"spec.dataset.split"});
}

TEST(Validation, KFoldMayHaveAValidationFractionBelowOne) {
  GnnJob job = sample_graph_job();
  job.spec.dataset.split = {.type = SplitType::KFold, .validation = Decimal{"0.1"}, .folds = 10};
  EXPECT_EQ(paths_of(job), std::vector<std::string>{});
  job.spec.dataset.split.validation = Decimal{"1"};
  EXPECT_EQ(paths_of(job), std::vector<std::string>{"spec.dataset.split"});
  job = sample_job();
  job.spec.dataset.split.validation = Decimal{"0.1"};
  EXPECT_EQ(paths_of(job), std::vector<std::string>{"spec.dataset.split"});
}

TEST(Validation, TheModelMustFitTheTask) {
  GnnJob job = sample_job();
  job.spec.model = {.type = ModelType::GIN, .gin = Gin{.layers = 3}};
  EXPECT_EQ(paths_of(job), std::vector<std::string>{"spec.model.type"});
}

TEST(Validation, ChecksTheBoundsOfLinkPrediction) {
  expect_refused(std::vector<LinkCase>{
      {"spec.task.link.relation", [](GnnJob& j) { j.spec.task.link->relation = ""; }},
      {"spec.dataset.split.negativeRatio",
       [](GnnJob& j) { j.spec.dataset.split.negative_ratio = Decimal{"0"}; }},
      {"spec.dataset.split.disjointTrain",
       [](GnnJob& j) { j.spec.dataset.split.disjoint_train = Decimal{"1"}; }},
      {"spec.dataset.coOccurrence.atLeast",
       [](GnnJob& j) { j.spec.dataset.co_occurrence->at_least = 0; }},
      {"spec.model.bipartiteSage.hiddenChannels",
       [](GnnJob& j) { j.spec.model.bipartite_sage->hidden_channels = 0; }},
      {"spec.sampling.fanoutByEdgeType[0].source",
       [](GnnJob& j) {
         j.spec.sampling->fanout_by_edge_type = {{.edge_type = {"", "to", "item"}, .fanout = {8, 4}}
         };
       }},
      {"spec.sampling.fanoutByEdgeType[0].fanout[1]",
       [](GnnJob& j) {
         j.spec.sampling->fanout_by_edge_type = {
             {.edge_type = {"item", "to", "item"}, .fanout = {8, -2}}
         };
       }},
      {"spec.sampling.negatives.amount",
       [](GnnJob& j) { j.spec.sampling->negatives = Negatives{.amount = {"0"}}; }},
      {"spec.training.evaluation.hitsK",
       [](GnnJob& j) {
         j.spec.training.evaluation.metric = Metric::Hits;
         j.spec.training.evaluation.hits_k = 0;
       }},
      {"spec.training.evaluation.negatives",
       [](GnnJob& j) {
         j.spec.training.evaluation.metric = Metric::MRR;
         j.spec.training.evaluation.negatives = 0;
       }},
  });
}

TEST(Validation, ChecksTheDataOfLinkPrediction) {
  const auto split = [](Split changed) {
    return [changed](GnnJob& j) { j.spec.dataset.split = changed; };
  };
  const std::optional<Decimal> tenth = Decimal{"0.1"};
  expect_refused(std::vector<LinkCase>{
      {"spec.task", [](GnnJob& j) { j.spec.task.link.reset(); }},
      {"spec.dataset.format", [](GnnJob& j) { j.spec.dataset.format = DatasetFormat::TU; }},
      {"spec.dataset.nodeFeatures",
       [](GnnJob& j) { j.spec.dataset.node_features = NodeFeatures::Constant; }},
      {"spec.dataset.featureTransform",
       [](GnnJob& j) { j.spec.dataset.feature_transform = FeatureTransform::RowNormalize; }},
      {"spec.dataset.synthetic",
       [](GnnJob& j) {
         j.spec.dataset.format = DatasetFormat::Synthetic;
         j.spec.dataset.path.reset();
         j.spec.dataset.synthetic =
             Synthetic{.shape = SyntheticShape::Taobao, .flipped_labels = {"0.1"}};
       }},
      {"spec.dataset", [](GnnJob& j) { j.spec.dataset.add_reverse = true; }, true},
      {"spec.dataset", [](GnnJob& j) { j.spec.dataset.add_self_loops = true; }},
      {"spec.dataset", [](GnnJob& j) { j.spec.dataset.add_reverse = false; }},
      {"spec.dataset", [](GnnJob& j) { j.spec.dataset.co_occurrence.reset(); }},
      {"spec.dataset.coOccurrence",
       [](GnnJob& j) {
         std::swap(j.spec.dataset.co_occurrence->node, j.spec.dataset.co_occurrence->through);
       }},
      {"spec.dataset.coOccurrence",
       [](GnnJob& j) { j.spec.dataset.co_occurrence->through = "category"; }},
      {"spec.dataset.split",
       split({.type = SplitType::Random, .train = tenth, .validation = tenth, .test = tenth})},
      {"spec.dataset.split", split({.type = SplitType::RandomLink, .validation = tenth})},
      {"spec.dataset.split", split({.type = SplitType::RandomLink, .test = tenth})},
      {"spec.dataset.split",
       split({.type = SplitType::RandomLink, .train = tenth, .validation = tenth, .test = tenth})},
      {"spec.dataset.split",
       split({.type = SplitType::RandomLink, .validation = Decimal{"0.9"}, .test = tenth})},
      {"spec.dataset.split",
       split({.type = SplitType::RandomLink, .name = "x", .validation = tenth, .test = tenth})},
      {"spec.dataset.split",
       [](GnnJob& j) {
         j.spec.dataset.split.negative_ratio = Decimal{"1"};
         j.spec.training.evaluation.metric = Metric::MRR;
         j.spec.training.evaluation.negatives = 10;
       }},
  });
}

TEST(Validation, ChecksTheModelOfLinkPrediction) {
  expect_refused(std::vector<LinkCase>{
      {"spec.model", [](GnnJob& j) { j.spec.model.bipartite_sage.reset(); }},
      {"spec.model.type",
       [](GnnJob& j) {
         j.spec.dataset = sample_plain_link_job().spec.dataset;
         j.spec.model = {.type = ModelType::GCN, .gcn = Gcn{}};
       }},
      {"spec.model.type",
       [](GnnJob& j) {
         j.spec.dataset = sample_plain_link_job().spec.dataset;
         j.spec.model = sample_plain_link_job().spec.model;
       }},
      {"spec.model.type",
       [](GnnJob& j) {
         j.spec.dataset.format = DatasetFormat::Native;
         j.spec.model = sample_link_job().spec.model;
       },
       true},
      {"spec.model.decoder", [](GnnJob& j) { j.spec.model.decoder.emplace(); }},
      {"spec.model.decoder",
       [](GnnJob& j) { j.spec.model.decoder = Decoder{.hidden_channels = 8}; },
       true},
      {"spec.sampling", [](GnnJob& j) { j.spec.sampling.reset(); }},
      {"spec.sampling.fanout", [](GnnJob& j) { j.spec.sampling->fanout = {8, 4, 2}; }},
      {"spec.sampling.fanoutByEdgeType[0].fanout",
       [](GnnJob& j) {
         j.spec.sampling->fanout_by_edge_type = {
             {.edge_type = {"item", "to", "item"}, .fanout = {8}}
         };
       }},
      {"spec.sampling.fanoutByEdgeType[1]",
       [](GnnJob& j) {
         j.spec.sampling->fanout_by_edge_type = {
             {.edge_type = {"item", "to", "item"}, .fanout = {8, 4}},
             {.edge_type = {"item", "to", "item"}, .fanout = {4, 2}}
         };
       }},
      {"spec.training.embeddings", [](GnnJob& j) { j.spec.training.embeddings.emplace(); }, true},
      {"spec.training.optimizer.type",
       [](GnnJob& j) { j.spec.training.optimizer.type = OptimizerType::SGD; }},
      {"spec.training.optimizer.weightDecay",
       [](GnnJob& j) { j.spec.training.optimizer.weight_decay = Decimal{"1e-5"}; }},
  });
}

TEST(Validation, ChecksTheEvaluationOfLinkPrediction) {
  const auto evaluation = [](Evaluation changed) {
    return [changed](GnnJob& j) { j.spec.training.evaluation = changed; };
  };
  const std::string path = "spec.training.evaluation";
  expect_refused(std::vector<LinkCase>{
      {path + ".mode", evaluation({.mode = EvaluationMode::LayerWise})},
      {path + ".parts", evaluation({.parts = {{Part::Train}}})},
      {path + ".fanout", evaluation({.fanout = {{8}}})},
      {path + ".metric", evaluation({.metric = Metric::Accuracy})},
      {path, evaluation({.metric = Metric::Hits})},
      {path, evaluation({.metric = Metric::MRR})},
      {path, evaluation({.hits_k = 50})},
      {path, evaluation({.metric = Metric::AUC, .negatives = 50})},
  });
}

TEST(Validation, OtherTasksRefuseTheFieldsOfLinkPrediction) {
  expect_refused(std::vector<Case>{
      {"spec.task", [](GnnJob& j) { j.spec.task.link = EdgeType{"node", "to", "node"}; }},
      {"spec.dataset.format",
       [](GnnJob& j) {
         j.spec.dataset = {};
         j.spec.dataset.format = DatasetFormat::Taobao;
         j.spec.dataset.path = "/data/taobao";
       }},
      {"spec.dataset.synthetic",
       [](GnnJob& j) { j.spec.dataset.synthetic->shape = SyntheticShape::Taobao; }},
      {"spec.dataset", [](GnnJob& j) { j.spec.dataset.add_reverse = true; }},
      {"spec.dataset",
       [](GnnJob& j) {
         j.spec.dataset.co_occurrence = sample_link_job().spec.dataset.co_occurrence;
       }},
      {"spec.dataset", [](GnnJob& j) { j.spec.dataset.coalesce = true; }, true},
      {"spec.dataset.split",
       [](GnnJob& j) { j.spec.dataset.split = sample_link_job().spec.dataset.split; }},
      {"spec.dataset.split", [](GnnJob& j) { j.spec.dataset.split.negative_ratio = Decimal{"1"}; }},
      {"spec.model.decoder", [](GnnJob& j) { j.spec.model.decoder.emplace(); }},
      {"spec.sampling", [](GnnJob& j) { j.spec.sampling->negatives.emplace(); }},
      {"spec.sampling", [](GnnJob& j) { j.spec.sampling->exclude_seed_edges = true; }},
      {"spec.sampling",
       [](GnnJob& j) {
         j.spec.sampling->fanout_by_edge_type = {
             {.edge_type = {"node", "to", "node"}, .fanout = {1, 1, 1}}
         };
       }},
      {"spec.training.embeddings", [](GnnJob& j) { j.spec.training.embeddings.emplace(); }},
      {"spec.training.evaluation.metric",
       [](GnnJob& j) { j.spec.training.evaluation.metric = Metric::AUC; }},
  });
}

TEST(Validation, LinkPredictionMayReadRelationsThatTheDataHave) {
  for (const DatasetFormat format : {DatasetFormat::Native, DatasetFormat::EdgeList}) {
    GnnJob job = sample_link_job();
    job.spec.dataset.format = format;
    job.spec.dataset.add_reverse = false;
    job.spec.dataset.co_occurrence.reset();
    EXPECT_EQ(paths_of(job), std::vector<std::string>{});
  }
}

TEST(Validation, ChecksTheFeatures) {
  const auto on_device = [](GnnJob& j) {
    j.spec.features = Features{.memory = FeatureMemory::Device};
    j.spec.training.device = DeviceChoice::CUDA;
    j.spec.workers.gpus_per_process = 1;
  };
  GnnJob job = sample_job();
  on_device(job);
  EXPECT_EQ(paths_of(job), std::vector<std::string>{});
  job.spec.training.device = DeviceChoice::Auto;
  EXPECT_EQ(paths_of(job), std::vector<std::string>{"spec.features.memory"});
  job.spec.features->memory = FeatureMemory::Host;
  EXPECT_EQ(paths_of(job), std::vector<std::string>{});
  GnnJob parts = sample_partitioned_job();
  on_device(parts);
  EXPECT_EQ(paths_of(parts), std::vector<std::string>{});
  GnnJob served = sample_served_job();
  on_device(served);
  EXPECT_EQ(paths_of(served), std::vector<std::string>{"spec.features.memory"});
  served.spec.features->memory = FeatureMemory::Host;
  EXPECT_EQ(paths_of(served), std::vector<std::string>{});
  GnnJob graphs = sample_graph_job();
  on_device(graphs);
  EXPECT_EQ(paths_of(graphs), std::vector<std::string>{"spec.features.memory"});
}

TEST(Validation, ChecksWhatLiesOnAGpuInPart) {
  GnnJob job = sample_job();
  job.spec.training.device = DeviceChoice::CUDA;
  job.spec.workers.gpus_per_process = 1;
  job.spec.features = Features{.memory = FeatureMemory::ZeroCopy, .device_rows = Decimal{"0.2"}};
  EXPECT_EQ(paths_of(job), std::vector<std::string>{});
  job.spec.features->device_rows = Decimal{"1.5"};
  EXPECT_EQ(paths_of(job), std::vector<std::string>{"spec.features.deviceRows"});
  job.spec.features = Features{.memory = FeatureMemory::Device, .device_rows = Decimal{"0.2"}};
  EXPECT_EQ(paths_of(job), std::vector<std::string>{"spec.features.deviceRows"});
}

TEST(Validation, ChecksWhereNeighboursAreSampled) {
  GnnJob job = sample_job();
  job.spec.training.device = DeviceChoice::CUDA;
  job.spec.workers.gpus_per_process = 1;
  job.spec.sampling->device = SamplingDevice::CUDA;
  const auto with = [&](std::optional<TopologyMemory> memory) {
    GnnJob changed = job;
    changed.spec.sampling->topology_memory = memory;
    return paths_of(changed);
  };
  const std::vector<std::string> refused{"spec.sampling.topologyMemory"};
  EXPECT_EQ(with(std::nullopt), std::vector<std::string>{});
  EXPECT_EQ(with(TopologyMemory::ZeroCopy), std::vector<std::string>{});
  EXPECT_EQ(with(TopologyMemory::Device), std::vector<std::string>{});
  EXPECT_EQ(with(TopologyMemory::Host), refused);
  job.spec.sampling->device = SamplingDevice::CPU;
  EXPECT_EQ(with(TopologyMemory::Host), std::vector<std::string>{});
  EXPECT_EQ(with(TopologyMemory::Device), refused);
  job.spec.sampling->device = SamplingDevice::CUDA;
  job.spec.training.device = DeviceChoice::Auto;
  EXPECT_EQ(with(std::nullopt), std::vector<std::string>{"spec.sampling.device"});
  GnnJob served = sample_served_job();
  served.spec.training.device = DeviceChoice::CUDA;
  served.spec.workers.gpus_per_process = 1;
  served.spec.sampling->device = SamplingDevice::CUDA;
  EXPECT_EQ(paths_of(served), std::vector<std::string>{"spec.sampling.device"});
}

TEST(Validation, ChecksThePrecision) {
  GnnJob job = sample_job();
  job.spec.training.precision = Precision::TF32;
  EXPECT_EQ(paths_of(job), std::vector<std::string>{"spec.training.precision"});
  job.spec.training.device = DeviceChoice::CUDA;
  job.spec.workers.gpus_per_process = 1;
  EXPECT_EQ(paths_of(job), std::vector<std::string>{});
}

TEST(Validation, ChecksThePlacement) {
  const auto refused = [](const std::string& path, const Change& change) {
    GnnJob job = sample_partitioned_job();
    change(job);
    EXPECT_EQ(paths_of(job), std::vector<std::string>{path});
  };
  refused("spec.placement.partitions", [](GnnJob& j) { j.spec.placement->partitions = 3; });
  refused("spec.placement.partitions", [](GnnJob& j) { j.spec.placement->partitions = 0; });
  refused("spec.placement", [](GnnJob& j) {
    j.spec.placement->features = PlacementMode::Replicated;
    j.spec.placement->cache.emplace();
  });
  refused("spec.placement.cache.rows", [](GnnJob& j) {
    j.spec.placement->cache = FeatureCache{.rows = Decimal{"1.5"}};
  });
  refused("spec.dataset.format", [](GnnJob& j) { j.spec.dataset.format = DatasetFormat::OGB; });
  refused("spec.dataset", [](GnnJob& j) { j.spec.dataset.to_undirected = true; });
  refused("spec.dataset", [](GnnJob& j) { j.spec.dataset.add_self_loops = true; });
  refused("spec.dataset", [](GnnJob& j) { j.spec.dataset.coalesce = true; });
  refused("spec.dataset.featureTransform", [](GnnJob& j) {
    j.spec.dataset.feature_transform = FeatureTransform::RowNormalize;
  });
  refused("spec.training.sharding", [](GnnJob& j) { j.spec.training.sharding = Sharding::Slice; });
  refused("spec.training.sharding", [](GnnJob& j) {
    j.spec.placement.reset();
    j.spec.training.sharding = Sharding::Owner;
  });
  refused("spec.sampling.concurrency", [](GnnJob& j) { j.spec.sampling->concurrency = 0; });
  refused("spec.sampling.prefetch", [](GnnJob& j) { j.spec.sampling->prefetch = 0; });
  expect_refused(std::vector<Case>{
      {"spec.placement", [](GnnJob& j) { j.spec.placement.emplace(); }, true},
  });
}

TEST(Validation, ChecksTheServers) {
  const auto refused = [](const std::string& path, const Change& change) {
    GnnJob job = sample_served_job();
    change(job);
    EXPECT_EQ(paths_of(job), std::vector<std::string>{path});
  };
  const auto rule = [](FailureRule added) {
    return [added = std::move(added)](GnnJob& job) {
      job.spec.run_policy.failure_policy.rules = {added};
    };
  };
  refused("spec.servers.nodes", [](GnnJob& j) { j.spec.servers->nodes = 1; });
  refused("spec.servers.nodes", [](GnnJob& j) { j.spec.servers->nodes = 1025; });
  refused("spec.servers", [](GnnJob& j) { j.spec.placement.reset(); });
  refused("spec.training.evaluation.mode", [](GnnJob& j) {
    j.spec.training.evaluation.mode = EvaluationMode::LayerWise;
  });
  refused("spec.runPolicy.serverTimeoutSeconds", [](GnnJob& j) {
    j.spec.servers.reset();
    j.spec.run_policy.server_timeout_seconds = 60;
  });
  refused("spec.servers.template.resources", [](GnnJob& j) {
    j.spec.servers->pod_template->resources.limits = {{"nvidia.com/gpu", "1"}};
  });
  refused("spec.servers.template.env[0].name", [](GnnJob& j) {
    j.spec.servers->pod_template->env = {{.name = "GNN_SERVER"}};
  });
  refused("spec.servers.template.volumeMounts[0].name", [](GnnJob& j) {
    j.spec.servers->pod_template->volume_mounts = {{.name = "a", .mount_path = "/data"}};
  });
  for (const char* size : {"0Mi", "1.5Gi", "256", "256M", "1000000Mi", "-1Mi"}) {
    refused("spec.servers.maxBytesInFlight", [&](GnnJob& j) {
      j.spec.servers->max_bytes_in_flight = size;
    });
  }
  const std::string first_rule = "spec.runPolicy.failurePolicy.rules[0]";
  refused(first_rule, rule({.exit_codes = {65}, .action = FailureAction::Ignore}));
  refused(first_rule, rule({.role = FailureRole::Server, .exit_codes = {70}}));
  GnnJob job = sample_served_job();
  job.spec.servers->nodes.reset();
  job.spec.run_policy.server_timeout_seconds = 60;
  job.spec.run_policy.failure_policy.rules = {
      {.role = FailureRole::Server, .exit_codes = {65}, .action = FailureAction::Ignore},
      {.role = FailureRole::Server, .exit_codes = {70}, .action = FailureAction::Fail},
      {.role = FailureRole::Worker, .exit_codes = {70}, .action = FailureAction::Fail},
  };
  EXPECT_EQ(paths_of(job), std::vector<std::string>{});
}

TEST(Validation, HoldsPrepareToWhatTheFormatKnows) {
  const auto refused = [](const std::string& path, const Change& change) {
    GnnJob job = sample_prepare_job();
    change(job);
    EXPECT_EQ(paths_of(job), std::vector<std::string>{path});
  };
  const std::string import = "spec.prepare.import";
  refused("spec.dataset.format", [](GnnJob& j) { j.spec.dataset.format = DatasetFormat::OGB; });
  refused("spec.prepare", [](GnnJob& j) { j.spec.prepare->data_import.reset(); });
  refused("spec.prepare.resources", [](GnnJob& j) {
    j.spec.prepare->resources = Resources{.limits = {{"nvidia.com/gpu", "1"}}};
  });
  refused(import + ".path", [](GnnJob& j) { j.spec.prepare->data_import->path = ""; });
  refused(import + ".seed", [](GnnJob& j) { j.spec.prepare->data_import->seed = 1; });
  refused(import + ".features", [](GnnJob& j) { j.spec.prepare->data_import->features = 8; });
  refused(import, [](GnnJob& j) {
    j.spec.prepare->data_import->format = ImportFormat::PackageIndex;
    j.spec.prepare->data_import->coalesce = true;
  });
  refused(import + ".toUndirected", [](GnnJob& j) {
    j.spec.prepare->data_import->format = ImportFormat::PackageTags;
    j.spec.prepare->data_import->to_undirected = true;
  });
  refused(import + ".featureType", [](GnnJob& j) {
    j.spec.prepare->data_import->format = ImportFormat::Taobao;
    j.spec.prepare->data_import->feature_type = FeatureType::Float16;
  });

  refused("spec.prepare", [](GnnJob& j) { j.spec.prepare->data_import->output = "/data/whole"; });
  const auto parts_refused = [](const std::string& path, const Change& change) {
    GnnJob job = sample_prepare_partitions_job();
    change(job);
    EXPECT_EQ(paths_of(job), std::vector<std::string>{path});
  };
  const std::string partition = "spec.prepare.partition";
  parts_refused("spec.prepare", [](GnnJob& j) { j.spec.prepare->data_import->output.reset(); });
  parts_refused("spec.prepare", [](GnnJob& j) { j.spec.prepare->data_import.reset(); });
  parts_refused("spec.prepare", [](GnnJob& j) { j.spec.prepare->partition->input = "/data/x"; });
  parts_refused("spec.prepare", [](GnnJob& j) {
    j.spec.prepare->data_import->output = j.spec.dataset.path;
  });
  parts_refused(partition, [](GnnJob& j) { j.spec.prepare->partition->parts = 1; });
  parts_refused(partition, [](GnnJob& j) { j.spec.placement.reset(); });
  parts_refused(partition, [](GnnJob& j) { j.spec.prepare->partition->fanout = {{5}}; });
  GnnJob graphs = sample_graph_job();
  graphs.spec.dataset.format = DatasetFormat::Native;
  graphs.spec.prepare = sample_prepare_partitions_job().spec.prepare;
  graphs.spec.prepare->partition->parts = 2;
  EXPECT_EQ(paths_of(graphs), std::vector<std::string>{partition});
  parts_refused(partition + ".hotRows", [](GnnJob& j) {
    j.spec.prepare->partition->hot_rows = Decimal{"2"};
  });
  parts_refused(partition + ".batchSize", [](GnnJob& j) {
    j.spec.prepare->partition->batch_size = 0;
  });
}

TEST(Validation, TrackingIsOfOneTraining) {
  const auto with_board = [](GnnJob& job) {
    job.spec.tracking.emplace().tensor_board = TensorBoard{.path = "/runs"};
  };
  GnnJob job = sample_job();
  with_board(job);
  EXPECT_EQ(paths_of(job), std::vector<std::string>{});
  expect_refused(std::vector<Case>{
      {"spec.tracking", [](GnnJob& j) { j.spec.tracking.emplace(); }},
      {"spec.tracking",
       [&](GnnJob& j) {
         with_board(j);
         j.spec.dataset.split = {.type = SplitType::KFold, .folds = 5};
       },
       true},
      {"spec.tracking.mlflow.uri",
       [](GnnJob& j) {
         j.spec.tracking.emplace().mlflow = {.uri = "http://u:p@a", .experiment = "a"};
       }},
      {"spec.tracking.mlflow.experiment",
       [](GnnJob& j) { j.spec.tracking.emplace().mlflow = {.uri = "https://a", .experiment = ""}; }
      },
  });
}

TEST(Validation, GuardsThePodTemplate) {
  const auto pod = [](std::function<void(PodTemplate&)> change) {
    return [change = std::move(change)](GnnJob& job) { change(*job.spec.workers.pod_template); };
  };
  const std::string path = "spec.workers.template";
  expect_refused(std::vector<Case>{
      {path + ".metadata",
       pod([](PodTemplate& p) { p.metadata = {.labels = {{"sub.gnn.dev/x", "1"}}}; })},
      {path + R"(.metadata.annotations["a..b/c"])",
       pod([](PodTemplate& p) { p.metadata = {.annotations = {{"a..b/c", "1"}}}; })},
      {path + ".env", pod([](PodTemplate& p) { p.env = {{.name = "A"}, {.name = "A"}}; })},
      {path + ".env[0].name", pod([](PodTemplate& p) { p.env = {{.name = "MASTER_ADDR"}}; })},
      {path + ".env[0].name", pod([](PodTemplate& p) { p.env = {{.name = "GNN_ANYTHING"}}; })},
      {path + ".env[0]", pod([](PodTemplate& p) {
         p.env = {{.name = "A", .value = "1", .value_from = EnvVarSource{{"spec.nodeName"}}}};
       })},
      {path + ".volumes[0]", pod([](PodTemplate& p) { p.volumes = {{.name = "a"}}; })},
      {path + ".volumes[0].name", pod([](PodTemplate& p) {
         p.volumes = {{.name = "gnn-tmp", .empty_dir = EmptyDirVolume{}}};
       })},
      {path + ".volumeMounts[0].name",
       pod([](PodTemplate& p) { p.volume_mounts = {{.name = "a", .mount_path = "/data"}}; })},
      {path + ".volumeMounts[0].mountPath", pod([](PodTemplate& p) {
         p.volumes = {{.name = "a", .empty_dir = EmptyDirVolume{}}};
         p.volume_mounts = {{.name = "a", .mount_path = "/etc/gnn/x"}};
       })},
      {path + ".volumeMounts[0].subPath", pod([](PodTemplate& p) {
         p.volumes = {{.name = "a", .empty_dir = EmptyDirVolume{}}};
         p.volume_mounts = {{.name = "a", .mount_path = "/data", .sub_path = "../b"}};
       })},
      {path + ".resources",
       pod([](PodTemplate& p) { p.resources.limits = {{"nvidia.com/gpu", "1"}}; })},
      {path + ".resources", pod([](PodTemplate& p) {
         p.resources.limits = {{"nvidia.com/gpu.shared", "1"}};
         p.resources.requests = p.resources.limits;
       })},
      {path + ".resources",
       pod([](PodTemplate& p) { p.resources.limits = {{"nvidia.com/mig-1g.10gb", "1"}}; })},
      {path + ".priorityClassName",
       pod([](PodTemplate& p) { p.priority_class_name = "system-node-critical"; })},
  });
}

TEST(Validation, AReservedMountIsOneHoweverItsPathIsWritten) {
  const auto mounted_at = [](const std::string& path) {
    return [path](GnnJob& job) {
      PodTemplate& pod = *job.spec.workers.pod_template;
      pod.volumes = {{.name = "a", .empty_dir = EmptyDirVolume{}}};
      pod.volume_mounts = {{.name = "a", .mount_path = path}};
    };
  };
  std::vector<Case> refused;
  for (const char* path :
       {"/",
        "//",
        "/.",
        "/./",
        "/tmp",
        "//tmp",
        "/./tmp/",
        "/tmp/a",
        "/etc/gnn",
        "/etc//gnn",
        "/etc/./gnn",
        "/etc/gnn/",
        "/etc/gnn/.",
        "//etc/.//gnn",
        "/./dev",
        "/proc//self",
        "/x/../sys",
        "/data/.."}) {
    refused.push_back({"spec.workers.template.volumeMounts[0].mountPath", mounted_at(path)});
  }
  expect_refused(refused);
  for (const char* path :
       {"/data", "/tmpx", "/etc/gnnx", "/etc/x/gnn", "/data/tmp", "/..data", "/a/..b"}) {
    GnnJob job = sample_job();
    mounted_at(path)(job);
    EXPECT_TRUE(validate(job).empty()) << path;
  }
}

TEST(Validation, SchedulingTakesOneOfEachChoice) {
  expect_refused(std::vector<Case>{
      {"spec.scheduling.schedulingPolicy",
       [](GnnJob& job) { job.spec.scheduling.emplace().scheduling_policy.emplace(); }},
      {"spec.scheduling.disruptionMode",
       [](GnnJob& job) {
         job.spec.scheduling.emplace().disruption_mode = DisruptionMode{Chosen{}, Chosen{}};
       }},
      {"spec.scheduling.schedulingConstraints.topology",
       [](GnnJob& job) {
         job.spec.scheduling.emplace().scheduling_constraints = {{{.key = "a"}, {.key = "b"}}};
       }},
      {"spec.scheduling.volcano",
       [](GnnJob& job) {
         job.spec.scheduling = {.provider = GangProvider::Native, .volcano = VolcanoScheduling{}};
       }},
  });
}

TEST(Validation, CollectsAllErrorsInOneMessage) {
  GnnJob job = sample_job();
  job.spec.workers.nodes = 0;
  job.spec.training.epochs = 0;
  const Status status = check(job);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::Configuration);
  EXPECT_EQ(
      status.error().message,
      "spec.training.epochs: must be at least 1; spec.workers.nodes: must be at least 1"
  );
}

}  // namespace
}  // namespace gnn::api
