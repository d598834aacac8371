#include "controller/app/manifest_check.h"

#include "common/api/codec.h"
#include "common/api/defaults.h"
#include "common/api/yaml.h"
#include "common/contract.h"
#include "common/printable.h"
#include "controller/reconcile/spec_errors.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace gnn::app {
namespace {

using nlohmann::json;

constexpr size_t kLongestName = 120;
constexpr size_t kLongestMessage = 1000;
constexpr size_t kMostErrors = 50;

// Of Kubernetes' ObjectMeta. Others are misspelt: the API server refuses or drops them.
constexpr std::array<std::string_view, 15> kMetadataFields = {
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
};

std::string text_at(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

const json* object_at(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_object() ? &*found : nullptr;
}

std::string name_of(const json& object) {
  std::string name = text_at(object, "kind");
  const json* metadata = object_at(object, "metadata");
  if (metadata == nullptr) return printable_line(name, kLongestName);
  const std::string name_space = text_at(*metadata, "namespace");
  std::string own = text_at(*metadata, "name");
  if (own.empty() && !text_at(*metadata, "generateName").empty()) {
    own = text_at(*metadata, "generateName") + "*";
  }
  if (!own.empty()) name += " " + (name_space.empty() ? "" : name_space + "/") + own;
  return printable_line(name, kLongestName);
}

// What the API server says against metadata, which the controller does not look at.
void check_metadata(const json& metadata, std::vector<std::string>& errors) {
  for (const auto& [name, unused] : metadata.items()) {
    if (std::find(kMetadataFields.begin(), kMetadataFields.end(), name) == kMetadataFields.end()) {
      errors.push_back(
          "metadata: unknown field \"" + name +
          "\"; expected one of: labels, annotations, name, namespace"
      );
    }
  }
  for (const char* const map : {"labels", "annotations"}) {
    const json* const entries = object_at(metadata, map);
    if (entries == nullptr) continue;
    for (const auto& [key, value] : entries->items()) {
      const std::string path = std::string("metadata.") + map + "[\"" + key + "\"]";
      if (!value.is_string()) errors.push_back(path + ": must be a string; put it in quotes");
      if (!api::is_qualified_key(key)) {
        errors.push_back(
            path +
            ": the key must be a label name of at most 63 characters, with an optional DNS prefix "
            "and /"
        );
      }
    }
  }
}

std::vector<std::string> warnings_of(const json& object, const api::GnnJobSpec& spec) {
  std::vector<std::string> warnings;
  if (std::string gpus = reconcile::idle_gpus(spec); !gpus.empty()) {
    warnings.push_back("spec.training.device: " + gpus);
  }
  if (object.contains("status")) {
    warnings.emplace_back("status: is ignored by the API server when a job is created; remove it");
  }
  return warnings;
}

// Where the API server makes up the name, one of the same length.
json with_a_name(json object) {
  json& metadata = object["metadata"];
  if (metadata.contains("name") || text_at(metadata, "generateName").empty()) return object;
  metadata["name"] = text_at(metadata, "generateName") + "00000";
  return object;
}

// What an administrator allows.
struct Rules {
  const api::AllowedKeys& allowed_keys;
  const std::optional<reconcile::VolcanoQueues>& volcano_queues;
};

// Words and fields that this version does not know; without them the job's rules are judged, too.
void check_spec(const json& object, const Rules& rules, CheckedObject& checked) {
  const Result<api::GnnJob> strict = api::decode_job(object, api::UnknownFields::Reject);
  if (!strict) checked.errors.push_back(strict.error().message);
  const Result<api::GnnJob> lenient =
      strict ? strict : api::decode_job(object, api::UnknownFields::Ignore);
  if (!lenient) return;
  for (const api::UnknownWord& each : lenient->unknown_words) {
    if (!strict && strict.error().message.starts_with(each.path + ":")) continue;
    checked.errors.push_back(each.path + ": this version does not know " + each.word);
  }
  if (!lenient->unknown_words.empty()) return;
  api::GnnJob job = *lenient;
  std::vector<std::string> errors = reconcile::spec_errors(job, rules.allowed_keys);
  if (errors.empty()) {
    api::apply_defaults(job.spec);
    errors = reconcile::spec_errors(job, rules.allowed_keys);
  }
  if (errors.empty() && !job.metadata.namespace_.empty()) {
    const std::string queue = reconcile::volcano_queue_error(job, rules.volcano_queues);
    if (!queue.empty()) errors.push_back(queue);
  }
  std::move(errors.begin(), errors.end(), std::back_inserter(checked.errors));
  if (!checked.errors.empty()) return;
  std::vector<std::string> warnings = warnings_of(object, job.spec);
  std::move(warnings.begin(), warnings.end(), std::back_inserter(checked.warnings));
}

void shorten(std::vector<std::string>& messages) {
  const size_t more = messages.size() > kMostErrors ? messages.size() - kMostErrors : 0;
  messages.resize(messages.size() - more);
  for (std::string& message : messages) message = printable_line(message, kLongestMessage);
  if (more > 0) messages.push_back("and " + std::to_string(more) + " errors more");
}

CheckedObject check_object(const json& object, CheckedObject checked, const Rules& rules) {
  if (!object.is_object()) {
    checked.errors.emplace_back("expected an object with apiVersion and kind");
    return checked;
  }
  checked.name = name_of(object) + checked.name;
  checked.is_job = text_at(object, "kind") == contract::kKind;
  if (!checked.is_job) {
    const std::string group = std::string(contract::kApiGroup) + "/";
    if (text_at(object, "apiVersion").starts_with(group)) {
      checked.errors.push_back("kind: expected " + std::string(contract::kKind));
    } else if (text_at(object, "kind").empty()) {
      checked.errors.emplace_back("kind: required field is missing");
    }
    return checked;
  }
  const json named = with_a_name(object);
  if (const json* metadata = object_at(object, "metadata"))
    check_metadata(*metadata, checked.errors);
  check_spec(named, rules, checked);
  shorten(checked.errors);
  return checked;
}

// The items of a List, as `kubectl get --output yaml` writes them, or null.
const json* items_of(const json& document) {
  if (!document.is_object()) return nullptr;
  const std::string kind = text_at(document, "kind");
  const auto items = document.find("items");
  const bool is_list = kind == "List" || kind == std::string(contract::kKind) + "List";
  return is_list && items != document.end() && items->is_array() ? &*items : nullptr;
}

}  // namespace

std::vector<CheckedObject> check_manifest(
    std::string_view text,
    const api::AllowedKeys& allowed_keys,
    const std::optional<reconcile::VolcanoQueues>& volcano_queues
) {
  const Rules rules{.allowed_keys = allowed_keys, .volcano_queues = volcano_queues};
  std::vector<CheckedObject> found;
  int64_t number = 0;
  const auto check_document =
      [&](int64_t line, const Result<json>& document, const std::vector<std::string>& warnings) {
        CheckedObject checked{.line = line, .document = ++number, .warnings = warnings};
        shorten(checked.warnings);
        if (!document) {
          checked.errors.push_back(printable_line(document.error().message, kLongestMessage));
          found.push_back(std::move(checked));
          return;
        }
        const json* items = items_of(*document);
        if (items == nullptr) {
          found.push_back(check_object(*document, std::move(checked), rules));
          return;
        }
        for (size_t i = 0; i < items->size(); ++i) {
          CheckedObject of_item = checked;
          of_item.name = ", item " + std::to_string(i);
          if (i > 0) of_item.warnings.clear();
          found.push_back(check_object((*items)[i], std::move(of_item), rules));
        }
      };
  api::for_each_yaml_document(text, check_document);
  return found;
}

}  // namespace gnn::app
