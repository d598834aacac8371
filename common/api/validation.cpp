#include "common/api/validation.h"

#include "common/api/enums.h"
#include "common/api/fields.h"
#include "common/contract.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
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
      return "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$";
    case TextForm::AbsolutePath:
      return "^/[^:]*$";
    case TextForm::RelativePath:
      return "^[^/:][^:]*$";
    case TextForm::EnvName:
      return "^[A-Za-z_][A-Za-z0-9_]*$";
    case TextForm::QualifiedName:
      return "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$";
    case TextForm::LabelValue:
      return "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$";
    case TextForm::Quantity:
      return R"(^([0-9]+(\.[0-9]*)?|\.[0-9]+)(([KMGTPE]i)|[numkMGTPE]|([eE][-+]?[0-9]+))?$)";
    case TextForm::Resume:
      return "^(Auto|Never|/.+)$";
  }
  return "";
}

namespace {

constexpr std::string_view kGpuResource = "nvidia.com/gpu";
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
          TextForm::Resume}) {
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

/// Collects errors with their paths.
class Report {
 public:
  void add(std::string path, std::string message) {
    errors_.push_back({.path = std::move(path), .message = std::move(message)});
  }

  /// Adds an error unless `holds`.
  void require(bool holds, std::string_view path, std::string_view message) {
    if (!holds) add(std::string(path), std::string(message));
  }

  std::vector<FieldError> take() { return std::move(errors_); }

 private:
  std::vector<FieldError> errors_;
};

/// Visits every field and checks its own bounds.
class BoundsChecker {
 public:
  BoundsChecker(std::string path, Report& report) : path_(std::move(path)), report_(report) {}

  template <class T>
  void required(std::string_view name, const T& value, const Bounds& bounds) {
    check_value(path_ + "." + std::string(name), value, bounds);
  }

  template <class T>
  void field(std::string_view name, const T& value, const Bounds& bounds) {
    required(name, value, bounds);
  }

 private:
  template <class T>
  void check_value(const std::string& path, const std::optional<T>& value, const Bounds& bounds) {
    if (value) check_value(path, *value, bounds);
  }

  template <class T>
  void check_value(const std::string& path, const std::vector<T>& list, const Bounds& bounds) {
    check_count(path, list.size(), bounds);
    for (std::size_t i = 0; i < list.size(); ++i) {
      check_value(path + "[" + std::to_string(i) + "]", list[i], bounds);
    }
  }

  void check_value(
      const std::string& path, const std::map<std::string, std::string>& map, const Bounds& bounds
  ) {
    check_count(path, map.size(), bounds);
    for (const auto& [key, value] : map) {
      const std::string entry = path + "[\"" + key.substr(0, 80) + "\"]";
      report_.require(
          has_form(key.substr(0, 400), TextForm::QualifiedName) && key.size() <= 317,
          entry,
          "the key must be a label name of at most 63 characters, with an optional DNS prefix and /"
      );
      check_value(entry, value, bounds);
    }
  }

  void check_value(const std::string& path, std::int64_t value, const Bounds& bounds) {
    if (bounds.min && value < *bounds.min) {
      report_.add(path, "must be at least " + std::to_string(*bounds.min));
    }
    if (bounds.max && value > *bounds.max) {
      report_.add(path, "must be at most " + std::to_string(*bounds.max));
    }
  }

  void check_value(const std::string& path, const std::string& value, const Bounds& bounds) {
    const auto length = static_cast<std::int64_t>(value.size());
    if (length < bounds.min_length) {
      report_.add(path, "must not be empty");
    } else if (length > bounds.max_length) {
      report_.add(
          path,
          "is " + std::to_string(length) + " bytes long, allowed are " +
              std::to_string(bounds.max_length)
      );
    } else if (!has_form(value, bounds.form)) {
      report_.add(path, "must match " + std::string(pattern(bounds.form)));
    }
  }

  void check_value(const std::string& path, const Decimal& decimal, const Bounds& bounds) {
    const double value = decimal.value();
    const bool above = bounds.above_min ? value > bounds.min_decimal : value >= bounds.min_decimal;
    const bool below = bounds.below_max ? value < bounds.max_decimal : value <= bounds.max_decimal;
    if (above && below) return;  // NaN, an unreadable number, is neither
    report_.add(
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
    BoundsChecker inside(path, report_);
    visit(inside, value);
  }

  void check_count(const std::string& path, std::size_t size, const Bounds& bounds) {
    const auto count = static_cast<std::int64_t>(size);
    if (count < bounds.min_items || count > bounds.max_items) {
      report_.add(
          path,
          "has " + std::to_string(count) + " items, allowed are " +
              std::to_string(bounds.min_items) + " to " + std::to_string(bounds.max_items)
      );
    }
  }

  std::string path_;
  Report& report_;
};

// ---- rules between fields; the CRD has each of them in CEL, with the same message

void check_dataset(const GnnJobSpec& spec, Report& report) {
  const Dataset& dataset = spec.dataset;
  const bool synthetic = dataset.format == DatasetFormat::Synthetic;
  report.require(
      synthetic == dataset.synthetic.has_value(),
      "spec.dataset",
      "synthetic must be set exactly when format is Synthetic"
  );
  report.require(
      synthetic != dataset.path.has_value(),
      "spec.dataset",
      "path must be set for every format but Synthetic"
  );
  const bool many_graphs = spec.task.type == TaskType::GraphClassification;
  const bool fits =
      dataset.format == DatasetFormat::Native ||
      many_graphs == (dataset.format == DatasetFormat::TU || dataset.format == DatasetFormat::GIN);
  report.require(
      fits,
      "spec.dataset.format",
      "GraphClassification reads TU, GIN or Native; NodeClassification reads OGB, EdgeList, Native "
      "or "
      "Synthetic"
  );
  report.require(
      !many_graphs || !(dataset.to_undirected || dataset.add_self_loops || dataset.coalesce),
      "spec.dataset",
      "toUndirected, addSelfLoops and coalesce are for NodeClassification"
  );
  report.require(
      many_graphs || dataset.node_features == NodeFeatures::Provided,
      "spec.dataset.nodeFeatures",
      "Constant and DegreeOneHot are for GraphClassification"
  );
}

void check_split(const GnnJobSpec& spec, Report& report) {
  const Split& split = spec.dataset.split;
  const bool random = split.type == SplitType::Random;
  const bool folds = split.type == SplitType::KFold;
  constexpr std::string_view kPath = "spec.dataset.split";
  report.require(
      random == split.train.has_value() && random == split.test.has_value(),
      kPath,
      "train and test must be set exactly when type is Random"
  );
  report.require(
      random ? split.validation.has_value()
             : !split.validation || (folds && split.validation->value() < 1.0),
      kPath,
      "validation must be set with type Random, may be set below 1 with KFold"
  );
  if (split.train && split.validation && split.test) {
    const double sum = split.train->value() + split.validation->value() + split.test->value();
    report.require(!(sum > 1.0 + 1e-9), kPath, "train, validation and test must sum to at most 1");
  }
  report.require(
      folds == split.folds.has_value(), kPath, "folds must be set exactly when type is KFold"
  );
  report.require(
      !split.fold || (folds && (!split.folds || *split.fold < *split.folds)),
      kPath,
      "fold needs type KFold and must be less than folds"
  );
  report.require(
      !split.name || split.type == SplitType::Provided, kPath, "name needs type Provided"
  );
  report.require(!split.seed || random || folds, kPath, "seed needs type Random or KFold");
  report.require(
      !folds || spec.task.type == TaskType::GraphClassification,
      kPath,
      "KFold is for GraphClassification"
  );
  const DatasetFormat format = spec.dataset.format;
  report.require(
      split.type != SplitType::Provided ||
          (format != DatasetFormat::TU && format != DatasetFormat::GIN),
      kPath,
      "TU and GIN data sets bring no split: set type Random or KFold"
  );
}

std::optional<std::int64_t> layers_of(const Model& model) {
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
  }
  return std::nullopt;
}

void check_model(const GnnJobSpec& spec, Report& report) {
  const Model& model = spec.model;
  const bool one = (model.type == ModelType::GraphSAGE) == model.graph_sage.has_value() &&
                   (model.type == ModelType::GCN) == model.gcn.has_value() &&
                   (model.type == ModelType::GIN) == model.gin.has_value();
  report.require(
      one,
      "spec.model",
      "set exactly the member that type names: graphSage for GraphSAGE, gcn for GCN, gin for GIN"
  );
  report.require(
      (model.type == ModelType::GIN) == (spec.task.type == TaskType::GraphClassification),
      "spec.model.type",
      "GIN is for GraphClassification; GraphSAGE and GCN are for NodeClassification"
  );
}

void check_sampling(const GnnJobSpec& spec, Report& report) {
  const bool nodes = spec.task.type == TaskType::NodeClassification;
  report.require(
      nodes == spec.sampling.has_value(),
      "spec.sampling",
      "must be set exactly for NodeClassification"
  );
  const std::optional<std::int64_t> layers = layers_of(spec.model);
  const auto fits = [&](const std::vector<std::int64_t>& fanout) {
    return !layers || static_cast<std::int64_t>(fanout.size()) == *layers;
  };
  report.require(
      !spec.sampling || fits(spec.sampling->fanout),
      "spec.sampling.fanout",
      "must have one entry per layer of the model"
  );
  const Evaluation& evaluation = spec.training.evaluation;
  report.require(
      nodes || evaluation.mode == EvaluationMode::Sampled,
      "spec.training.evaluation.mode",
      "LayerWise is for NodeClassification"
  );
  report.require(
      !evaluation.fanout || (nodes && evaluation.mode == EvaluationMode::Sampled),
      "spec.training.evaluation.fanout",
      "is for NodeClassification with mode Sampled"
  );
  report.require(
      !evaluation.fanout || fits(*evaluation.fanout),
      "spec.training.evaluation.fanout",
      "must have one entry per layer of the model"
  );
}

void check_training(const GnnJobSpec& spec, Report& report) {
  const Training& training = spec.training;
  report.require(
      !training.optimizer.momentum || training.optimizer.type == OptimizerType::SGD,
      "spec.training.optimizer",
      "momentum needs type SGD"
  );
  report.require(
      training.uneven_inputs != UnevenInputs::Join || training.gradient_accumulation == 1,
      "spec.training.gradientAccumulation",
      "must be 1 with unevenInputs: Join, whose handshake is a step's; use Shadow"
  );
  const bool gpus = spec.workers.gpus_per_process > 0;
  report.require(
      training.device != DeviceChoice::CUDA || gpus,
      "spec.training.device",
      "CUDA needs workers.gpusPerProcess: 1"
  );
  report.require(
      spec.workers.backend != Backend::NCCL || (gpus && training.device != DeviceChoice::CPU),
      "spec.workers.backend",
      "NCCL needs workers.gpusPerProcess: 1 and a training.device other than CPU"
  );
  report.require(
      !spec.checkpoint || spec.checkpoint->every_epochs > 0 || spec.checkpoint->every_steps > 0,
      "spec.checkpoint",
      "everyEpochs or everySteps must be above 0"
  );
}

template <class Item>
bool names_are_unique(const std::vector<Item>& list) {
  std::set<std::string_view> names;
  return std::all_of(list.begin(), list.end(), [&](const Item& item) {
    return names.insert(item.name).second;
  });
}

bool is_reserved_mount(const std::string& path) {
  return std::any_of(
      kReservedMounts.begin(),
      kReservedMounts.end(),
      [&](std::string_view reserved) {
        return path == reserved ||
               (reserved != "/" && path.starts_with(std::string(reserved) + "/"));
      }
  );
}

void check_volumes(const PodTemplate& pod, Report& report) {
  const std::string path = "spec.workers.template";
  report.require(names_are_unique(pod.volumes), path + ".volumes", "names must be unique");
  for (std::size_t i = 0; i < pod.volumes.size(); ++i) {
    const Volume& volume = pod.volumes[i];
    const std::string here = path + ".volumes[" + std::to_string(i) + "]";
    const int sources = (volume.persistent_volume_claim ? 1 : 0) + (volume.empty_dir ? 1 : 0) +
                        (volume.config_map ? 1 : 0);
    report.require(
        sources == 1, here, "set exactly one of persistentVolumeClaim, emptyDir and configMap"
    );
    report.require(
        !volume.name.starts_with("gnn-"), here + ".name", "names that start with gnn- are reserved"
    );
  }
  std::set<std::string_view> paths;
  for (std::size_t i = 0; i < pod.volume_mounts.size(); ++i) {
    const VolumeMount& mount = pod.volume_mounts[i];
    const std::string here = path + ".volumeMounts[" + std::to_string(i) + "]";
    report.require(
        std::any_of(
            pod.volumes.begin(),
            pod.volumes.end(),
            [&](const Volume& volume) { return volume.name == mount.name; }
        ),
        here + ".name",
        "names no volume of the template"
    );
    report.require(paths.insert(mount.mount_path).second, here + ".mountPath", "is mounted twice");
    report.require(
        !is_reserved_mount(mount.mount_path),
        here + ".mountPath",
        "/, /etc/gnn, /tmp, /dev, /proc and /sys are reserved"
    );
    const std::string& sub_path = mount.sub_path.value_or("");
    report.require(
        sub_path.find("..") == std::string::npos, here + ".subPath", "must not contain .."
    );
  }
}

void check_template(const PodTemplate& pod, Report& report) {
  const std::string path = "spec.workers.template";
  report.require(names_are_unique(pod.env), path + ".env", "names must be unique");
  for (std::size_t i = 0; i < pod.env.size(); ++i) {
    const std::string here = path + ".env[" + std::to_string(i) + "]";
    report.require(
        !is_reserved_env(pod.env[i].name), here + ".name", "is reserved for the operator"
    );
    report.require(
        !(pod.env[i].value && pod.env[i].value_from), here, "set value or valueFrom, not both"
    );
  }
  const bool gpu = pod.resources.requests.contains(std::string(kGpuResource)) ||
                   pod.resources.limits.contains(std::string(kGpuResource));
  report.require(!gpu, path + ".resources", "set workers.gpusPerProcess instead of nvidia.com/gpu");
  report.require(
      !pod.priority_class_name || !pod.priority_class_name->starts_with("system-"),
      path + ".priorityClassName",
      "system- classes are not for training jobs"
  );
  check_volumes(pod, report);
}

}  // namespace

bool is_reserved_env(std::string_view name) {
  return name.starts_with("GNN_") ||
         std::find(contract::kReservedEnv.begin(), contract::kReservedEnv.end(), name) !=
             contract::kReservedEnv.end();
}

std::vector<FieldError> validate(const GnnJob& job) {
  Report report;
  const std::string& name = job.metadata.name;
  const bool name_fits = !name.empty() &&
                         static_cast<std::int64_t>(name.size()) <= contract::kMaxJobNameLength &&
                         has_form(name, TextForm::DnsLabel) && name[0] >= 'a';
  report.require(
      name_fits,
      "metadata.name",
      "must be a lower-case DNS label of at most 40 characters that starts with a letter"
  );
  BoundsChecker bounds("spec", report);
  visit(bounds, job.spec);
  check_dataset(job.spec, report);
  check_split(job.spec, report);
  check_model(job.spec, report);
  check_sampling(job.spec, report);
  check_training(job.spec, report);
  if (job.spec.workers.pod_template) check_template(*job.spec.workers.pod_template, report);
  return report.take();
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
