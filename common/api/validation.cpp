#include "common/api/validation.h"

#include "common/api/enums.h"
#include "common/api/fields.h"
#include "common/api/pod_metadata.h"
#include "common/api/pod_rules.h"
#include "common/contract.h"
#include "common/url.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

namespace gnn::api {

std::string_view pattern(TextForm form) {
  switch (form) {
    case TextForm::Any:
      return "";
    case TextForm::DnsLabel:
      return "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
    case TextForm::DnsSubdomain:
      return R"(^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$)";
    case TextForm::AbsolutePath:
      return "^/[^:]*$";
    case TextForm::RelativePath:
      return "^[^/:][^:]*$";
    case TextForm::EnvName:
      return "^[A-Za-z_][A-Za-z0-9_]*$";
    case TextForm::QualifiedName:
      return R"(^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?)"
             R"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$)";
    case TextForm::LabelValue:
      return "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$";
    case TextForm::Quantity:
      return R"(^([0-9]+(\.[0-9]*)?|\.[0-9]+)(([KMGTPE]i)|[numkMGTPE]|([eE][-+]?[0-9]+))?$)";
    case TextForm::ByteSize:
      return "^[1-9][0-9]{0,5}(Mi|Gi)$";
    case TextForm::Resume:
      return "^(Auto|Never|/.+)$";
    case TextForm::GpuResource:
      return R"(^nvidia\.com/(gpu|mig-[0-9a-z]+(\.[0-9a-z]+)+)(\.shared)?$)";
  }
  return "";
}

namespace {

// A BipartiteSAGE's: links' ends, their neighbours and those of the neighbours.
constexpr int64_t kBipartiteLayers = 2;
constexpr std::array<std::string_view, 6> kReservedMounts = {
    "/", "/etc/gnn", "/tmp", "/dev", "/proc", "/sys"
};

bool has_form(const std::string& text, TextForm form) {
  static const std::map<TextForm, std::regex> kRegexes = [] {
    std::map<TextForm, std::regex> made;
    for (const TextForm each :
         {TextForm::DnsLabel,
          TextForm::DnsSubdomain,
          TextForm::AbsolutePath,
          TextForm::RelativePath,
          TextForm::EnvName,
          TextForm::QualifiedName,
          TextForm::LabelValue,
          TextForm::Quantity,
          TextForm::ByteSize,
          TextForm::Resume,
          TextForm::GpuResource}) {
      made.emplace(each, std::regex(std::string(pattern(each)), std::regex::ECMAScript));
    }
    return made;
  }();
  return form == TextForm::Any || std::regex_match(text, kRegexes.at(form));
}

std::string number(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

// Everything that is wrong, with its path.
class Problems {
 public:
  void add(std::string path, std::string message) {
    errors_.push_back({.path = std::move(path), .message = std::move(message)});
  }

  void add_all(std::vector<FieldError> errors) {
    std::move(errors.begin(), errors.end(), std::back_inserter(errors_));
  }

  // Adds an error unless `holds`.
  void require(bool holds, std::string_view path, std::string_view message) {
    if (!holds) add(std::string(path), std::string(message));
  }

  std::vector<FieldError> take() { return std::move(errors_); }

 private:
  std::vector<FieldError> errors_;
};

// Visits every field and checks its own bounds.
class BoundsChecker {
 public:
  BoundsChecker(std::string path, Problems& problems)
      : path_(std::move(path)), problems_(problems) {}

  template <class T>
  void required(std::string_view name, const T& value, const Bounds& bounds) {
    check_value(path_ + "." + std::string(name), value, bounds);
  }

  template <class T>
  void field(std::string_view name, const T& value, const Bounds& bounds) {
    required(name, value, bounds);
  }

  void added(std::string_view, bool, const Bounds&) {}

 private:
  template <class T>
  void check_value(const std::string& path, const std::optional<T>& value, const Bounds& bounds) {
    if (value) check_value(path, *value, bounds);
  }

  template <class T>
  void check_value(const std::string& path, const std::vector<T>& list, const Bounds& bounds) {
    check_count(path, list.size(), bounds);
    for (size_t i = 0; i < list.size(); ++i) {
      check_value(path + "[" + std::to_string(i) + "]", list[i], bounds);
    }
  }

  void check_value(
      const std::string& path, const std::map<std::string, std::string>& map, const Bounds& bounds
  ) {
    check_count(path, map.size(), bounds);
    for (const auto& [key, value] : map) {
      const std::string entry = path + "[\"" + key.substr(0, 80) + "\"]";
      problems_.require(
          is_qualified_key(key),
          entry,
          "the key must be a label name of at most 63 characters, with an optional DNS prefix and /"
      );
      check_value(entry, value, bounds);
    }
  }

  void check_value(const std::string& path, int64_t value, const Bounds& bounds) {
    if (bounds.min && value < *bounds.min) {
      problems_.add(path, "must be at least " + std::to_string(*bounds.min));
    }
    if (bounds.max && value > *bounds.max) {
      problems_.add(path, "must be at most " + std::to_string(*bounds.max));
    }
  }

  void check_value(const std::string& path, const std::string& value, const Bounds& bounds) {
    const auto length = static_cast<int64_t>(value.size());
    if (length < bounds.min_length) {
      problems_.add(path, "must not be empty");
    } else if (length > bounds.max_length) {
      problems_.add(
          path,
          "is " + std::to_string(length) + " bytes long, at most " +
              std::to_string(bounds.max_length) + " are allowed"
      );
    } else if (!has_form(value, bounds.form)) {
      problems_.add(path, "must match " + std::string(pattern(bounds.form)));
    }
  }

  void check_value(const std::string& path, const Decimal& decimal, const Bounds& bounds) {
    const double value = decimal.value();
    const bool above = bounds.above_min ? value > bounds.min_decimal : value >= bounds.min_decimal;
    const bool below = bounds.below_max ? value < bounds.max_decimal : value <= bounds.max_decimal;
    if (above && below) return;  // NaN, an unreadable number, is neither
    problems_.add(
        path,
        "must be a decimal number " + std::string(bounds.above_min ? "above " : "of at least ") +
            number(bounds.min_decimal) + " and " + (bounds.below_max ? "below " : "at most ") +
            number(bounds.max_decimal)
    );
  }

  void check_value(const std::string&, bool, const Bounds&) {}
  void check_value(const std::string&, const TimePoint&, const Bounds&) {}

  template <ApiEnum E>
  void check_value(const std::string&, E, const Bounds&) {}

  template <class T>
    requires requires(BoundsChecker& checker, const T& value) { visit(checker, value); }
  void check_value(const std::string& path, const T& value, const Bounds&) {
    BoundsChecker inside(path, problems_);
    visit(inside, value);
  }

  void check_count(const std::string& path, size_t size, const Bounds& bounds) {
    const auto count = static_cast<int64_t>(size);
    if (count < bounds.min_items || count > bounds.max_items) {
      problems_.add(
          path,
          "has " + std::to_string(count) + " items, expected " + std::to_string(bounds.min_items) +
              " to " + std::to_string(bounds.max_items)
      );
    }
  }

  std::string path_;
  Problems& problems_;
};

// ---- rules between fields; the CRD has each of them in CEL, with the same message

bool predicts_links(const GnnJobSpec& spec) {
  return spec.task.type == TaskType::LinkPrediction;
}

bool classifies_graphs(const GnnJobSpec& spec) {
  return spec.task.type == TaskType::GraphClassification;
}

bool infers(const GnnJobSpec& spec) {
  return spec.task.mode == TaskMode::Inference;
}

void check_task(const Task& task, Problems& problems) {
  problems.require(
      task.link.has_value() == (task.type == TaskType::LinkPrediction),
      "spec.task",
      "link must be set if and only if type is LinkPrediction"
  );
}

void check_dataset(const GnnJobSpec& spec, Problems& problems) {
  const Dataset& dataset = spec.dataset;
  const DatasetFormat format = dataset.format;
  const bool synthetic = format == DatasetFormat::Synthetic;
  problems.require(
      synthetic == dataset.synthetic.has_value(),
      "spec.dataset",
      "synthetic must be set if and only if format is Synthetic"
  );
  problems.require(
      synthetic != dataset.path.has_value(),
      "spec.dataset",
      "path must be set if and only if format is not Synthetic"
  );
  const bool many_graphs = classifies_graphs(spec);
  const bool fits = format == DatasetFormat::Native ||
                    (many_graphs == (format == DatasetFormat::TU || format == DatasetFormat::GIN) &&
                     (format != DatasetFormat::Taobao || predicts_links(spec)));
  problems.require(
      fits,
      "spec.dataset.format",
      "GraphClassification reads TU, GIN or Native; NodeClassification reads OGB, EdgeList, "
      "Reddit, Native or Synthetic; LinkPrediction reads these and Taobao"
  );
  const bool links_of_taobao =
      dataset.synthetic && dataset.synthetic->shape == SyntheticShape::Taobao;
  problems.require(
      !links_of_taobao || predicts_links(spec),
      "spec.dataset.synthetic",
      "shape Taobao is only for LinkPrediction"
  );
  problems.require(
      !links_of_taobao || !(dataset.synthetic->flipped_labels.value() > 0.0),
      "spec.dataset.synthetic",
      "flippedLabels must be 0 with shape Taobao, which has no labels"
  );
  problems.require(
      many_graphs || dataset.node_features == NodeFeatures::Provided,
      "spec.dataset.nodeFeatures",
      "Constant and DegreeOneHot are only for GraphClassification"
  );
}

void check_transforms(const GnnJobSpec& spec, Problems& problems) {
  const Dataset& dataset = spec.dataset;
  problems.require(
      spec.task.type != TaskType::GraphClassification || !dataset.to_undirected,
      "spec.dataset",
      "toUndirected is not for GraphClassification"
  );
  problems.require(
      spec.task.type == TaskType::NodeClassification || !dataset.add_self_loops,
      "spec.dataset",
      "addSelfLoops is only for NodeClassification"
  );
  problems.require(
      !classifies_graphs(spec) || !dataset.coalesce,
      "spec.dataset",
      "coalesce is not for GraphClassification"
  );
  const bool bipartite = spec.model.type == ModelType::BipartiteSAGE;
  problems.require(
      bipartite || !(dataset.add_reverse || dataset.co_occurrence),
      "spec.dataset",
      "addReverse and coOccurrence are only for BipartiteSAGE, which reads their edges"
  );
  const std::optional<CoOccurrence>& shared = dataset.co_occurrence;
  const std::optional<EdgeType>& link = spec.task.link;
  problems.require(
      !shared || !link || (shared->node == link->destination && shared->through == link->source),
      "spec.dataset.coOccurrence",
      "node must be the destination of task.link, and through its source"
  );
  problems.require(
      !bipartite || dataset.feature_transform == FeatureTransform::None,
      "spec.dataset.featureTransform",
      "must be None with BipartiteSAGE, which learns embeddings and reads no features"
  );
  problems.require(
      !bipartite || dataset.format == DatasetFormat::EdgeList ||
          dataset.format == DatasetFormat::Native || (dataset.add_reverse && dataset.co_occurrence),
      "spec.dataset",
      "BipartiteSAGE reads the reverse of the links and edges between their destinations: set "
      "addReverse: true and coOccurrence, unless EdgeList or Native data have such edges"
  );
}

void check_split(const GnnJobSpec& spec, Problems& problems) {
  const Split& split = spec.dataset.split;
  const bool random = split.type == SplitType::Random;
  const bool folds = split.type == SplitType::KFold;
  const bool links = split.type == SplitType::RandomLink;
  constexpr std::string_view kPath = "spec.dataset.split";
  problems.require(
      random == split.train.has_value(), kPath, "train must be set if and only if type is Random"
  );
  problems.require(
      (random || links) == split.test.has_value(),
      kPath,
      "test must be set if and only if type is Random or RandomLink"
  );
  problems.require(
      random || links ? split.validation.has_value()
                      : !split.validation || (folds && split.validation->value() < 1.0),
      kPath,
      "validation is required with type Random or RandomLink, optional and below 1 with KFold, and "
      "not allowed with Provided"
  );
  if (split.train && split.validation && split.test) {
    const double sum = split.train->value() + split.validation->value() + split.test->value();
    problems.require(
        !(sum > 1.0 + 1e-9), kPath, "train, validation and test must sum to at most 1"
    );
  }
  problems.require(
      folds == split.folds.has_value(), kPath, "folds must be set if and only if type is KFold"
  );
  problems.require(
      !split.fold || (folds && (!split.folds || *split.fold < *split.folds)),
      kPath,
      "fold requires type KFold and must be less than folds"
  );
  problems.require(
      !split.name || split.type == SplitType::Provided, kPath, "name requires type Provided"
  );
  problems.require(
      !split.name || spec.dataset.format != DatasetFormat::Reddit,
      kPath,
      "Reddit has one split: leave out name"
  );
  problems.require(
      !split.seed || split.type != SplitType::Provided,
      kPath,
      "seed requires type Random, KFold or RandomLink"
  );
  problems.require(
      !folds || classifies_graphs(spec), kPath, "KFold is only for GraphClassification"
  );
  const DatasetFormat format = spec.dataset.format;
  problems.require(
      split.type != SplitType::Provided ||
          (format != DatasetFormat::TU && format != DatasetFormat::GIN),
      kPath,
      "TU and GIN data sets have no split of their own: set type Random or KFold"
  );
}

void check_link_split(const GnnJobSpec& spec, Problems& problems) {
  const Split& split = spec.dataset.split;
  const bool random = split.type == SplitType::RandomLink;
  constexpr std::string_view kPath = "spec.dataset.split";
  problems.require(
      predicts_links(spec) == random,
      kPath,
      "LinkPrediction needs type RandomLink, and the other tasks need another one"
  );
  problems.require(
      random || !(split.negative_ratio || split.disjoint_train),
      kPath,
      "negativeRatio and disjointTrain require type RandomLink"
  );
  problems.require(
      !random || !split.validation || !split.test ||
          split.validation->value() + split.test->value() < 1.0 - 1e-9,
      kPath,
      "validation and test must sum to less than 1 with type RandomLink"
  );
  problems.require(
      !split.negative_ratio || spec.training.evaluation.metric != Metric::MRR,
      kPath,
      "negativeRatio has no effect with metric MRR: leave it out and set evaluation.negatives"
  );
}

std::optional<int64_t> layers_of(const Model& model) {
  switch (model.type) {
    case ModelType::GraphSAGE:
      if (model.graph_sage) return model.graph_sage->layers;
      break;
    case ModelType::GCN:
      if (model.gcn) return model.gcn->layers;
      break;
    case ModelType::GIN:
      if (model.gin) return model.gin->layers;
      break;
    case ModelType::BipartiteSAGE:
      if (model.bipartite_sage) return kBipartiteLayers;
      break;
  }
  return std::nullopt;
}

void check_model(const GnnJobSpec& spec, Problems& problems) {
  const Model& model = spec.model;
  const ModelType type = model.type;
  const bool one = (type == ModelType::GraphSAGE) == model.graph_sage.has_value() &&
                   (type == ModelType::GCN) == model.gcn.has_value() &&
                   (type == ModelType::GIN) == model.gin.has_value() &&
                   (type == ModelType::BipartiteSAGE) == model.bipartite_sage.has_value();
  problems.require(
      one,
      "spec.model",
      "set exactly the member that matches type: graphSage for GraphSAGE, gcn for GCN, gin for "
      "GIN, "
      "bipartiteSage for BipartiteSAGE"
  );
  problems.require(
      (type == ModelType::GIN) == classifies_graphs(spec) &&
          (type != ModelType::GCN || !predicts_links(spec)) &&
          (type != ModelType::BipartiteSAGE || predicts_links(spec)),
      "spec.model.type",
      "GIN is for GraphClassification, GCN for NodeClassification, GraphSAGE for "
      "NodeClassification "
      "and LinkPrediction, BipartiteSAGE for LinkPrediction"
  );
  const std::optional<EdgeType>& link = spec.task.link;
  const bool sage = type == ModelType::GraphSAGE;
  const bool bipartite = type == ModelType::BipartiteSAGE;
  problems.require(
      !link || !(sage || bipartite) || sage == (link->source == link->destination),
      "spec.model.type",
      "GraphSAGE predicts links between nodes of one type, BipartiteSAGE between nodes of two: "
      "compare source and destination of task.link"
  );
  problems.require(
      !model.decoder || (sage && predicts_links(spec)),
      "spec.model.decoder",
      "is only for GraphSAGE with LinkPrediction"
  );
  problems.require(
      !model.decoder || !model.decoder->hidden_channels || model.decoder->type == DecoderType::MLP,
      "spec.model.decoder",
      "hiddenChannels requires type MLP"
  );
}

void check_fanout(const GnnJobSpec& spec, Problems& problems) {
  const std::optional<int64_t> layers = layers_of(spec.model);
  const auto fits = [&](const std::vector<int64_t>& fanout) {
    return !layers || static_cast<int64_t>(fanout.size()) == *layers;
  };
  const std::string_view message =
      spec.model.type == ModelType::BipartiteSAGE
          ? "must have one entry per layer of the model: BipartiteSAGE has two"
          : "must have one entry per layer of the model";
  const std::optional<std::vector<int64_t>>& evaluated = spec.training.evaluation.fanout;
  problems.require(!evaluated || fits(*evaluated), "spec.training.evaluation.fanout", message);
  if (!spec.sampling) return;
  problems.require(fits(spec.sampling->fanout), "spec.sampling.fanout", message);
  const std::vector<EdgeTypeFanout>& by_type = spec.sampling->fanout_by_edge_type;
  std::set<std::array<std::string_view, 3>> edge_types;
  for (size_t i = 0; i < by_type.size(); ++i) {
    const std::string path = "spec.sampling.fanoutByEdgeType[" + std::to_string(i) + "]";
    const EdgeType& type = by_type[i].edge_type;
    problems.require(
        edge_types.insert({type.source, type.relation, type.destination}).second,
        path,
        "has the edge type of an entry before"
    );
    problems.require(fits(by_type[i].fanout), path + ".fanout", message);
  }
}

void check_sampling_device(const GnnJobSpec& spec, Problems& problems) {
  if (!spec.sampling) return;
  const bool on_gpu = spec.sampling->device == SamplingDevice::CUDA;
  problems.require(
      !on_gpu || spec.training.device == DeviceChoice::CUDA,
      "spec.sampling.device",
      "CUDA requires training.device: CUDA"
  );
  problems.require(
      !on_gpu || !spec.servers,
      "spec.sampling.device",
      "CUDA is not for jobs with servers, which sample on their CPUs"
  );
  const std::optional<TopologyMemory>& memory = spec.sampling->topology_memory;
  problems.require(
      !memory || (*memory == TopologyMemory::Host) == !on_gpu,
      "spec.sampling.topologyMemory",
      "must be Host with sampling.device CPU, and ZeroCopy or Device with CUDA"
  );
}

void check_sampling(const GnnJobSpec& spec, Problems& problems) {
  const bool samples = !classifies_graphs(spec) && !infers(spec);
  problems.require(
      samples == spec.sampling.has_value(),
      "spec.sampling",
      "must be set if and only if task.type is NodeClassification or LinkPrediction and task.mode "
      "is not Inference, which reads all neighbours"
  );
  check_fanout(spec, problems);
  problems.require(
      !spec.sampling || spec.model.type != ModelType::GCN ||
          spec.sampling->rule == SamplingRule::NewNodes,
      "spec.sampling.rule",
      "must be NewNodes with GCN, which counts the same drawn neighbours in every layer; AllSeen "
      "draws anew in each"
  );
  problems.require(
      !spec.sampling || predicts_links(spec) ||
          !(!spec.sampling->fanout_by_edge_type.empty() || spec.sampling->negatives ||
            spec.sampling->exclude_seed_edges),
      "spec.sampling",
      "fanoutByEdgeType, negatives and excludeSeedEdges are only for LinkPrediction"
  );
  check_sampling_device(spec, problems);
  const Evaluation& evaluation = spec.training.evaluation;
  problems.require(
      spec.task.type == TaskType::NodeClassification || evaluation.mode == EvaluationMode::Sampled,
      "spec.training.evaluation.mode",
      "LayerWise is only for NodeClassification"
  );
  problems.require(
      !evaluation.fanout || (samples && evaluation.mode == EvaluationMode::Sampled),
      "spec.training.evaluation.fanout",
      "is only for NodeClassification and LinkPrediction with mode Sampled"
  );
}

void check_evaluation(const GnnJobSpec& spec, Problems& problems) {
  const Evaluation& evaluation = spec.training.evaluation;
  const std::vector<Part> parts = evaluation.parts.value_or(std::vector<Part>());
  const std::set<Part> named(parts.begin(), parts.end());
  problems.require(
      named.size() == parts.size(), "spec.training.evaluation.parts", "must not name a part twice"
  );
  problems.require(
      !predicts_links(spec) || !named.contains(Part::Train),
      "spec.training.evaluation.parts",
      "must not name Train with LinkPrediction: only held-out links have negatives of their own"
  );
  problems.require(
      !evaluation.max_batches || evaluation.mode == EvaluationMode::Sampled,
      "spec.training.evaluation.maxBatches",
      "is only for mode Sampled"
  );
  problems.require(
      !evaluation.metric || (evaluation.metric == Metric::Accuracy) != predicts_links(spec),
      "spec.training.evaluation.metric",
      "Accuracy is for NodeClassification and GraphClassification; AUC, AveragePrecision, Hits and "
      "MRR are for LinkPrediction"
  );
  problems.require(
      evaluation.hits_k.has_value() == (evaluation.metric == Metric::Hits),
      "spec.training.evaluation",
      "hitsK must be set if and only if metric is Hits"
  );
  problems.require(
      evaluation.negatives.has_value() == (evaluation.metric == Metric::MRR),
      "spec.training.evaluation",
      "negatives must be set if and only if metric is MRR"
  );
}

void check_schedule(const Training& training, Problems& problems) {
  if (!training.optimizer.schedule) return;
  const LearningRateSchedule& schedule = *training.optimizer.schedule;
  constexpr std::string_view kPath = "spec.training.optimizer.schedule";
  problems.require(
      schedule.step_size.has_value() == (schedule.type == ScheduleType::Step),
      kPath,
      "stepSize must be set if and only if type is Step"
  );
  problems.require(
      !schedule.gamma || schedule.type == ScheduleType::Step, kPath, "gamma requires type Step"
  );
  problems.require(
      !schedule.min_learning_rate || schedule.type == ScheduleType::Cosine,
      kPath,
      "minLearningRate requires type Cosine"
  );
  problems.require(
      !schedule.min_learning_rate ||
          !(schedule.min_learning_rate->value() > training.optimizer.learning_rate.value()),
      kPath,
      "minLearningRate must be at most learningRate"
  );
  problems.require(
      schedule.interval != ScheduleInterval::Epoch || !schedule.warmup ||
          schedule.warmup->length < training.epochs,
      kPath,
      "warmup.length must be below epochs with interval Epoch"
  );
}

// What compares the validations of a training.
void check_best(const GnnJobSpec& spec, Problems& problems) {
  const Training& training = spec.training;
  const Evaluation& evaluation = training.evaluation;
  const BestCheckpoint* const best =
      spec.checkpoint && spec.checkpoint->best ? &*spec.checkpoint->best : nullptr;
  const Metric measured =
      evaluation.metric.value_or(predicts_links(spec) ? Metric::AUC : Metric::Accuracy);
  const std::vector<Part> parts = evaluation.parts.value_or(std::vector{Part::Validation});
  constexpr std::string_view kWhichMetric =
      "metric must be that of the evaluations: evaluation.metric, or without one Accuracy, with "
      "LinkPrediction AUC";
  problems.require(
      !training.early_stopping || training.early_stopping->metric == measured,
      "spec.training.earlyStopping",
      kWhichMetric
  );
  problems.require(
      best == nullptr || best->metric == measured, "spec.checkpoint.best", kWhichMetric
  );
  problems.require(
      !(training.early_stopping || best != nullptr) ||
          std::find(parts.begin(), parts.end(), Part::Validation) != parts.end(),
      "spec.training.evaluation.parts",
      "must name Validation with earlyStopping and checkpoint.best, which compare its metric"
  );
  problems.require(
      !training.early_stopping || evaluation.every > 0,
      "spec.training.evaluation.every",
      "must be above 0 with earlyStopping"
  );
  const bool tests_best = evaluation.test_model == TestModel::Best;
  problems.require(
      !tests_best || best != nullptr,
      "spec.training.evaluation",
      "testModel Best requires checkpoint.best"
  );
  const Split& split = spec.dataset.split;
  problems.require(
      split.type != SplitType::KFold || split.fold || !(training.early_stopping || tests_best),
      "spec.dataset.split",
      "earlyStopping and testModel Best need fold: without it, the folds are compared epoch by "
      "epoch"
  );
}

void check_class_weights(const GnnJobSpec& spec, Problems& problems) {
  if (!spec.training.class_weights) return;
  const ClassWeights& weights = *spec.training.class_weights;
  problems.require(
      !predicts_links(spec),
      "spec.training",
      "classWeights is not for LinkPrediction, which has no classes"
  );
  problems.require(
      weights.weights.empty() == (weights.type != ClassWeighting::Given),
      "spec.training.classWeights",
      "weights must be set if and only if type is Given"
  );
  problems.require(
      weights.type != ClassWeighting::Balanced || !spec.placement,
      "spec.training.classWeights",
      "type must be Given with placement: a rank may lack the labels of other partitions"
  );
}

void check_embeddings(const GnnJobSpec& spec, Problems& problems) {
  const Training& training = spec.training;
  const bool learned = spec.model.type == ModelType::BipartiteSAGE;
  problems.require(
      learned || !training.embeddings,
      "spec.training.embeddings",
      "is only for BipartiteSAGE, which learns embeddings"
  );
  problems.require(
      !learned || training.optimizer.type == OptimizerType::Adam,
      "spec.training.optimizer.type",
      "must be Adam with BipartiteSAGE, whose embeddings follow Adam's rule"
  );
  problems.require(
      !learned || !(training.optimizer.weight_decay.value() > 0.0),
      "spec.training.optimizer.weightDecay",
      "must be 0 with BipartiteSAGE, whose embeddings do not decay"
  );
}

void check_training(const GnnJobSpec& spec, Problems& problems) {
  problems.require(
      spec.training.precision != Precision::TF32 || spec.training.device == DeviceChoice::CUDA,
      "spec.training.precision",
      "TF32 requires training.device: CUDA"
  );
  const Training& training = spec.training;
  check_evaluation(spec, problems);
  check_embeddings(spec, problems);
  check_schedule(training, problems);
  check_best(spec, problems);
  check_class_weights(spec, problems);
  problems.require(
      !training.optimizer.momentum || training.optimizer.type == OptimizerType::SGD,
      "spec.training.optimizer",
      "momentum requires type SGD"
  );
  problems.require(
      training.uneven_inputs != UnevenInputs::Join || training.gradient_accumulation == 1,
      "spec.training.gradientAccumulation",
      "must be 1 with unevenInputs: Join, which synchronizes once per step; use Shadow"
  );
  const bool gpus = spec.workers.gpus_per_process > 0;
  problems.require(
      training.device != DeviceChoice::CUDA || gpus,
      "spec.training.device",
      "CUDA requires workers.gpusPerProcess: 1"
  );
  problems.require(
      spec.workers.backend != Backend::NCCL || (gpus && training.device != DeviceChoice::CPU),
      "spec.workers.backend",
      "NCCL requires workers.gpusPerProcess: 1 and a training.device other than CPU"
  );
  problems.require(
      spec.workers.backend != Backend::Gloo || training.device != DeviceChoice::CUDA,
      "spec.workers.backend",
      "Gloo cannot reduce gradients on GPUs: set Auto or NCCL with training.device CUDA"
  );
  problems.require(
      !spec.checkpoint || spec.checkpoint->every_epochs > 0 || spec.checkpoint->every_steps > 0,
      "spec.checkpoint",
      "everyEpochs or everySteps must be above 0"
  );
  problems.require(
      !spec.model_export || spec.model_export->names != ParameterNames::DGL ||
          spec.model.type != ModelType::GCN,
      "spec.export.names",
      "must be PyG with GCN: DGL's GraphConv is another function where edges have no reverse"
  );
}

void check_features(const GnnJobSpec& spec, Problems& problems) {
  if (!spec.features) return;
  problems.require(
      !spec.features->device_rows || spec.features->memory == FeatureMemory::ZeroCopy,
      "spec.features.deviceRows",
      "is only for features.memory ZeroCopy"
  );
  if (spec.features->memory == FeatureMemory::Host) return;
  constexpr const char* kField = "spec.features.memory";
  problems.require(
      spec.model.type == ModelType::GraphSAGE || spec.model.type == ModelType::GCN,
      kField,
      "ZeroCopy and Device are only for models that read feature rows by node: GraphSAGE and GCN"
  );
  problems.require(
      spec.training.device == DeviceChoice::CUDA,
      kField,
      "ZeroCopy and Device require training.device: CUDA"
  );
  problems.require(
      !spec.servers,
      kField,
      "ZeroCopy and Device are not for jobs with servers, which gather rows on their CPUs"
  );
}

void check_placement(const GnnJobSpec& spec, Problems& problems) {
  const std::optional<Sharding>& sharding = spec.training.sharding;
  problems.require(
      !sharding || (sharding == Sharding::Owner) == spec.placement.has_value(),
      "spec.training.sharding",
      "must be Owner if and only if placement is set"
  );
  if (!spec.placement) return;
  const Placement& placement = *spec.placement;
  const Dataset& dataset = spec.dataset;
  problems.require(
      !classifies_graphs(spec),
      "spec.placement",
      "is only for NodeClassification and LinkPrediction"
  );
  problems.require(
      classifies_graphs(spec) || dataset.format == DatasetFormat::Native,
      "spec.dataset.format",
      "must be Native with placement: gnn-worker data partition writes such data"
  );
  problems.require(
      placement.partitions <= spec.workers.nodes,
      "spec.placement.partitions",
      "must be at most workers.nodes: each partition needs a node that holds it"
  );
  problems.require(
      !placement.cache || placement.features == PlacementMode::Partitioned,
      "spec.placement",
      "cache requires features: Partitioned"
  );
  problems.require(
      placement.topology == PlacementMode::Replicated ||
          !(dataset.to_undirected || dataset.add_self_loops || dataset.coalesce ||
            dataset.add_reverse || dataset.co_occurrence),
      "spec.dataset",
      "toUndirected, addSelfLoops, coalesce, addReverse and coOccurrence need the whole graph: "
      "leave "
      "them out with placement.topology Partitioned, and partition data that has their edges"
  );
  problems.require(
      placement.features == PlacementMode::Replicated ||
          dataset.feature_transform == FeatureTransform::None,
      "spec.dataset.featureTransform",
      "must be None with placement.features Partitioned: RowNormalize reads all rows"
  );
}

void check_servers(const GnnJobSpec& spec, Problems& problems) {
  problems.require(
      spec.servers || !spec.run_policy.server_timeout_seconds,
      "spec.runPolicy.serverTimeoutSeconds",
      "requires servers"
  );
  if (!spec.servers) return;
  problems.require(
      spec.placement.has_value(),
      "spec.servers",
      "requires placement, which says what of the data each server holds"
  );
  problems.require(
      !spec.servers->nodes || !spec.placement || *spec.servers->nodes >= spec.placement->partitions,
      "spec.servers.nodes",
      "must be at least placement.partitions: each partition needs a server that holds it"
  );
  problems.require(
      spec.training.evaluation.mode == EvaluationMode::Sampled,
      "spec.training.evaluation.mode",
      "must be Sampled with servers: LayerWise reads the graph, which the workers do not have"
  );
}

void check_predictions(const GnnJobSpec& spec, Problems& problems) {
  if (!spec.predictions) return;
  const std::vector<Output> outputs = spec.predictions->outputs.value_or(std::vector<Output>());
  const std::set<Output> named(outputs.begin(), outputs.end());
  problems.require(
      named.size() == outputs.size(), "spec.predictions.outputs", "must not name an output twice"
  );
  problems.require(
      spec.task.type == TaskType::NodeClassification,
      "spec.predictions",
      "is only for NodeClassification"
  );
  problems.require(
      !spec.servers,
      "spec.predictions",
      "needs the graph, which the workers of a job with servers do not have: leave out servers"
  );
}

// What an Inference job needs, and what only trains.
void check_inference(const GnnJobSpec& spec, Problems& problems) {
  problems.require(
      spec.model.from.has_value() == infers(spec),
      "spec.model",
      "from must be set if and only if task.mode is Inference"
  );
  if (!infers(spec)) return;
  problems.require(
      spec.task.type == TaskType::NodeClassification,
      "spec.task",
      "mode Inference is only for NodeClassification"
  );
  problems.require(
      spec.predictions.has_value(), "spec.predictions", "must be set with task.mode Inference"
  );
  constexpr std::string_view kTrains = "is not for task.mode Inference, which trains nothing";
  problems.require(!spec.checkpoint, "spec.checkpoint", kTrains);
  problems.require(!spec.model_export, "spec.export", kTrains);
  problems.require(!spec.training.early_stopping, "spec.training.earlyStopping", kTrains);
  problems.require(
      !spec.features || spec.features->memory == FeatureMemory::Host,
      "spec.features.memory",
      "must be Host with task.mode Inference, which sums on the CPU"
  );
}

void check_run_policy(const RunPolicy& policy, Problems& problems) {
  const std::vector<FailureRule>& rules = policy.failure_policy.rules;
  for (size_t i = 0; i < rules.size(); ++i) {
    const std::string path = "spec.runPolicy.failurePolicy.rules[" + std::to_string(i) + "]";
    problems.require(
        !rules[i].exit_codes.empty() || !rules[i].reasons.empty(),
        path,
        "set exitCodes, reasons or both"
    );
    problems.require(
        rules[i].charge || rules[i].action == FailureAction::Restart ||
            rules[i].action == FailureAction::RestartNode,
        path,
        "charge may be false only with action Restart or RestartNode"
    );
    const bool of_server = rules[i].role == FailureRole::Server;
    problems.require(
        of_server || rules[i].action != FailureAction::Ignore, path, "Ignore requires role Server"
    );
    problems.require(
        !of_server || rules[i].action == FailureAction::Ignore ||
            rules[i].action == FailureAction::Fail,
        path,
        "action must be Ignore or Fail with role Server: a lost server restarts no worker"
    );
  }
  const BackoffPolicy& backoff = policy.failure_policy.backoff;
  problems.require(
      backoff.initial_seconds <= backoff.max_seconds,
      "spec.runPolicy.failurePolicy.backoff",
      "maxSeconds must be at least initialSeconds"
  );
}

// Whole ones, MIG slices or shares.
bool names_gpus(const ResourceList& list) {
  return std::any_of(list.begin(), list.end(), [](const auto& resource) {
    return resource.first.starts_with(kGpuResource) ||
           resource.first.starts_with("nvidia.com/mig-");
  });
}

bool requests_gpus(const Resources& resources) {
  return names_gpus(resources.requests) || names_gpus(resources.limits);
}

template <class Item>
bool names_are_unique(const std::vector<Item>& list) {
  std::set<std::string_view> names;
  return std::all_of(list.begin(), list.end(), [&](const Item& item) {
    return names.insert(item.name).second;
  });
}

// However the path is written: /etc//gnn and /etc/./gnn are /etc/gnn.
bool is_reserved_mount(const std::string& path) {
  const std::string normal = std::filesystem::path("/." + path + "/").lexically_normal().string();
  return std::any_of(
      kReservedMounts.begin(),
      kReservedMounts.end(),
      [&](std::string_view reserved) {
        return normal == reserved ||
               (reserved != "/" && normal.starts_with(std::string(reserved) + "/"));
      }
  );
}

bool goes_up(const std::string& path) {
  const std::filesystem::path parts(path);
  return std::find(parts.begin(), parts.end(), "..") != parts.end();
}

void check_volumes(const PodTemplate& pod, const std::string& path, Problems& problems) {
  problems.require(names_are_unique(pod.volumes), path + ".volumes", "names must be unique");
  for (size_t i = 0; i < pod.volumes.size(); ++i) {
    const Volume& volume = pod.volumes[i];
    const std::string here = path + ".volumes[" + std::to_string(i) + "]";
    const int sources = (volume.persistent_volume_claim ? 1 : 0) + (volume.empty_dir ? 1 : 0) +
                        (volume.config_map ? 1 : 0);
    problems.require(
        sources == 1, here, "set exactly one of persistentVolumeClaim, emptyDir and configMap"
    );
    problems.require(
        !volume.name.starts_with("gnn-"), here + ".name", "names that start with gnn- are reserved"
    );
  }
  std::set<std::string_view> paths;
  for (size_t i = 0; i < pod.volume_mounts.size(); ++i) {
    const VolumeMount& mount = pod.volume_mounts[i];
    const std::string here = path + ".volumeMounts[" + std::to_string(i) + "]";
    problems.require(
        std::any_of(
            pod.volumes.begin(),
            pod.volumes.end(),
            [&](const Volume& volume) { return volume.name == mount.name; }
        ),
        here + ".name",
        "must name a volume of the template"
    );
    problems.require(
        paths.insert(mount.mount_path).second, here + ".mountPath", "is mounted twice"
    );
    const bool up = goes_up(mount.mount_path);
    problems.require(!up, here + ".mountPath", "must not contain .. as a folder");
    problems.require(
        up || !is_reserved_mount(mount.mount_path),
        here + ".mountPath",
        "/, /etc/gnn, /tmp, /dev, /proc and /sys are reserved"
    );
    const std::string& sub_path = mount.sub_path.value_or("");
    problems.require(
        sub_path.find("..") == std::string::npos, here + ".subPath", "must not contain .."
    );
  }
}

// An option without a meaning for the format is a mistake, as on the command line.
void check_import(const DataImport& import, Problems& problems) {
  const std::string path = "spec.prepare.import";
  const ImportFormat format = import.format;
  const bool taobao = format == ImportFormat::Taobao;
  const bool tags = format == ImportFormat::PackageTags;
  const bool index = format == ImportFormat::PackageIndex;
  const bool of_files = import.split || import.no_split || import.coalesce ||
                        import.row_normalize || import.self_loops != SelfLoops::Keep ||
                        import.classes;
  problems.require(
      !(taobao || tags || index) || !of_files,
      path,
      "split, noSplit, coalesce, rowNormalize, selfLoops and classes are not for Taobao, "
      "PackageIndex and PackageTags"
  );
  problems.require(
      !(taobao || tags) || !import.to_undirected,
      path + ".toUndirected",
      "is not for Taobao and PackageTags"
  );
  problems.require(
      !taobao || import.feature_type == FeatureType::Float32,
      path + ".featureType",
      "must be Float32 with Taobao, which has no features"
  );
  problems.require(
      index || tags || !import.features,
      path + ".features",
      "is only for PackageIndex and PackageTags"
  );
  problems.require(index || !import.seed, path + ".seed", "is only for PackageIndex");
}

void check_input_of_partition(
    const Prepare& prepare, const std::optional<std::string>& made, Problems& problems
) {
  const std::string path = "spec.prepare";
  if (prepare.data_import) {
    problems.require(
        prepare.data_import->output.has_value() == prepare.partition.has_value(),
        path,
        "import.output must be set if and only if partition is: without it, import writes to "
        "dataset.path"
    );
  }
  if (!prepare.partition) return;
  problems.require(
      prepare.partition->input.has_value() != prepare.data_import.has_value(),
      path,
      "partition.input must be set if and only if import is not: partition reads import.output"
  );
  const std::optional<std::string>& input =
      prepare.data_import ? prepare.data_import->output : prepare.partition->input;
  problems.require(
      !input || input != made, path, "partition must read another folder than dataset.path"
  );
}

void check_partition(const GnnJobSpec& spec, const DataPartition& partition, Problems& problems) {
  const std::string path = "spec.prepare.partition";
  problems.require(
      !classifies_graphs(spec), path, "is only for NodeClassification and LinkPrediction"
  );
  problems.require(partition.parts || spec.placement, path, "parts is required without placement");
  problems.require(
      !partition.parts || !spec.placement || partition.parts == spec.placement->partitions,
      path,
      "parts must equal placement.partitions, which it defaults to"
  );
  problems.require(
      !partition.fanout || !spec.sampling ||
          partition.fanout->size() == spec.sampling->fanout.size(),
      path,
      "fanout must have as many entries as sampling.fanout"
  );
  problems.require(
      partition.fanout || spec.sampling || !infers(spec),
      path,
      "fanout is required with task.mode Inference, which has no sampling.fanout"
  );
}

void check_prepare(const GnnJobSpec& spec, Problems& problems) {
  if (!spec.prepare) return;
  const Prepare& prepare = *spec.prepare;
  problems.require(
      spec.dataset.format == DatasetFormat::Native,
      "spec.dataset.format",
      "must be Native with prepare, which makes data in this format at dataset.path"
  );
  problems.require(
      prepare.data_import || prepare.partition, "spec.prepare", "set import, partition or both"
  );
  if (prepare.data_import) check_import(*prepare.data_import, problems);
  check_input_of_partition(prepare, spec.dataset.path, problems);
  if (prepare.partition) check_partition(spec, *prepare.partition, problems);
  problems.require(
      !prepare.resources || !requests_gpus(*prepare.resources),
      "spec.prepare.resources",
      "GPUs are not for prepare, which does not compute on them"
  );
  if (prepare.resources) {
    problems.add_all(resource_errors(*prepare.resources, "spec.prepare.resources"));
  }
}

void check_tracking(const GnnJobSpec& spec, Problems& problems) {
  if (!spec.tracking) return;
  const Tracking& tracking = *spec.tracking;
  problems.require(
      tracking.tensor_board || tracking.mlflow, "spec.tracking", "set tensorBoard, mlflow or both"
  );
  problems.require(
      spec.task.mode != TaskMode::Inference, "spec.tracking", "is only for task.mode Training"
  );
  const Split& split = spec.dataset.split;
  problems.require(
      split.type != SplitType::KFold || split.fold,
      "spec.tracking",
      "is for one training: set dataset.split.fold, without which each fold is trained in turn"
  );
  if (!tracking.mlflow) return;
  const auto url = parse_url(tracking.mlflow->uri);
  if (!url) problems.add("spec.tracking.mlflow.uri", url.error().message);
}

void check_reserved_keys(const PodMetadata& metadata, const std::string& path, Problems& problems) {
  for (const auto& entries : {metadata.labels, metadata.annotations}) {
    problems.require(
        std::none_of(
            entries.begin(),
            entries.end(),
            [](const auto& each) { return is_reserved_key(each.first); }
        ),
        path,
        "keys of gnn.dev, and app.kubernetes.io/name, instance, component and managed-by, are the "
        "operator's own"
    );
  }
}

// `on_gpus` says what to do instead of asking for GPUs.
void check_template(
    const PodTemplate& pod, const std::string& path, std::string_view on_gpus, Problems& problems
) {
  if (pod.metadata) check_reserved_keys(*pod.metadata, path + ".metadata", problems);
  problems.require(names_are_unique(pod.env), path + ".env", "names must be unique");
  for (size_t i = 0; i < pod.env.size(); ++i) {
    const std::string here = path + ".env[" + std::to_string(i) + "]";
    problems.require(
        !is_reserved_env(pod.env[i].name), here + ".name", "is reserved for the operator"
    );
    problems.require(
        !(pod.env[i].value && pod.env[i].value_from), here, "set value or valueFrom, not both"
    );
  }
  problems.require(!requests_gpus(pod.resources), path + ".resources", on_gpus);
  problems.add_all(pod_errors(pod, path));
  problems.require(
      !pod.priority_class_name || !pod.priority_class_name->starts_with("system-"),
      path + ".priorityClassName",
      "names that start with system- are reserved for the cluster"
  );
  check_volumes(pod, path, problems);
}

void check_scheduling(const GnnJobSpec& spec, Problems& problems) {
  if (!spec.scheduling) return;
  const auto& policy = spec.scheduling->scheduling_policy;
  problems.require(
      !policy || policy->gang.has_value() != policy->basic.has_value(),
      "spec.scheduling.schedulingPolicy",
      "set gang or basic, and not both"
  );
  const auto& mode = spec.scheduling->disruption_mode;
  problems.require(
      !mode || mode->single.has_value() != mode->all.has_value(),
      "spec.scheduling.disruptionMode",
      "set single or all, and not both"
  );
  const GangProvider provider = spec.scheduling->provider;
  problems.require(
      !spec.scheduling->volcano || provider == GangProvider::Auto ||
          provider == GangProvider::Volcano,
      "spec.scheduling.volcano",
      "is only for provider Auto or Volcano"
  );
}

// A process sees one MIG slice alone, and shares may be of one GPU, on which NCCL joins no two ranks.
void check_gpu_resource(const Workers& workers, Problems& problems) {
  problems.require(
      workers.gpu_resource.value_or(std::string(kGpuResource)) == kGpuResource ||
          (workers.gpus_per_process == 1 && workers.processes_per_node == 1),
      "spec.workers.gpuResource",
      "MIG slices and shares of GPUs require gpusPerProcess: 1 and processesPerNode: 1"
  );
}

void check_templates(const GnnJobSpec& spec, Problems& problems) {
  if (spec.workers.pod_template) {
    check_template(
        *spec.workers.pod_template,
        "spec.workers.template",
        "set workers.gpusPerProcess and gpuResource instead of requesting GPUs",
        problems
    );
  }
  if (spec.servers && spec.servers->pod_template) {
    check_template(
        *spec.servers->pod_template,
        "spec.servers.template",
        "GPUs are not for servers, which do not compute on them",
        problems
    );
  }
}

}  // namespace

bool is_reserved_env(std::string_view name) {
  return name.starts_with("GNN_") ||
         std::find(contract::kReservedEnv.begin(), contract::kReservedEnv.end(), name) !=
             contract::kReservedEnv.end();
}

std::vector<FieldError> validate(const GnnJob& job) {
  Problems problems;
  const std::string& name = job.metadata.name;
  const bool name_fits = !name.empty() &&
                         static_cast<int64_t>(name.size()) <= contract::kMaxJobNameLength &&
                         has_form(name, TextForm::DnsLabel) && name[0] >= 'a';
  problems.require(
      name_fits,
      "metadata.name",
      "must be a lower-case DNS label of at most 40 characters that starts with a letter"
  );
  BoundsChecker bounds("spec", problems);
  visit(bounds, job.spec);
  check_task(job.spec.task, problems);
  check_dataset(job.spec, problems);
  check_transforms(job.spec, problems);
  check_split(job.spec, problems);
  check_link_split(job.spec, problems);
  check_model(job.spec, problems);
  check_sampling(job.spec, problems);
  check_training(job.spec, problems);
  check_features(job.spec, problems);
  check_placement(job.spec, problems);
  check_servers(job.spec, problems);
  check_predictions(job.spec, problems);
  check_inference(job.spec, problems);
  check_run_policy(job.spec.run_policy, problems);
  check_prepare(job.spec, problems);
  check_tracking(job.spec, problems);
  check_gpu_resource(job.spec.workers, problems);
  check_templates(job.spec, problems);
  check_scheduling(job.spec, problems);
  return problems.take();
}

Status check(const GnnJob& job) {
  const std::vector<FieldError> errors = validate(job);
  if (errors.empty()) return {};
  std::string message;
  for (const FieldError& error : errors) {
    if (!message.empty()) message += "; ";
    message += error.path + ": " + error.message;
  }
  return fail(ErrorKind::Configuration, std::move(message));
}

}  // namespace gnn::api
