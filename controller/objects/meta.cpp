#include "controller/objects/meta.h"

#include "common/contract.h"
#include "common/rfc3339.h"

#include <algorithm>
#include <array>
#include <utility>

namespace gnn::objects {
namespace {

constexpr size_t kMaxOwnerText = 253;

Result<OwnerReference> decode_owner(const Json& json, const std::string& path) {
  OwnerReference owner;
  ObjectReader reader(json, path);
  reader.read("apiVersion", owner.api_version);
  reader.read("kind", owner.kind);
  reader.read("name", owner.name);
  reader.read("uid", owner.uid);
  reader.read("controller", owner.controller);
  reader.read("blockOwnerDeletion", owner.block_owner_deletion);
  return reader.finish(std::move(owner));
}

void keep_what_is_read(ObjectMeta& meta) {
  static constexpr std::array kLabels = {
      contract::kLabelJob,
      contract::kLabelJobUid,
      contract::kLabelAttempt,
      contract::kLabelNode,
      contract::kLabelNodeRestart,
      contract::kLabelServer,
      contract::kLabelDataKey,
  };
  std::erase_if(meta.labels, [](const auto& label) {
    return std::find(kLabels.begin(), kLabels.end(), label.first) == kLabels.end();
  });
  // The first of somebody else says that there are some, and a name.
  bool has_foreign = false;
  std::erase_if(meta.finalizers, [&has_foreign](const std::string& name) {
    return name != contract::kPodFinalizer && std::exchange(has_foreign, true);
  });
  meta.finalizers.shrink_to_fit();
  std::erase_if(meta.owner_references, [](const OwnerReference& owner) {
    // The API server does not bound their texts, and no GNNJob has longer ones.
    const size_t longest =
        std::max({owner.api_version.size(), owner.kind.size(), owner.name.size(), owner.uid.size()}
        );
    return !owner.controller || longest > kMaxOwnerText;
  });
  meta.owner_references.shrink_to_fit();
}

Json encode(const OwnerReference& owner) {
  return Json{
      {"apiVersion", owner.api_version},
      {"kind", owner.kind},
      {"name", owner.name},
      {"uid", owner.uid},
      {"controller", owner.controller},
      {"blockOwnerDeletion", owner.block_owner_deletion},
  };
}

}  // namespace

std::string to_string(const ObjectKey& key) {
  return key.namespace_.empty() ? key.name : key.namespace_ + "/" + key.name;
}

bool is_newer_version(const std::string& version, const std::string& than) {
  const auto is_number = [](const std::string& text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  };
  if (!is_number(version) || !is_number(than)) return false;
  return version.size() != than.size() ? version.size() > than.size() : version > than;
}

const OwnerReference* controller_of(const ObjectMeta& meta) {
  for (const OwnerReference& owner : meta.owner_references) {
    if (owner.controller) return &owner;
  }
  return nullptr;
}

bool is_controlled_by_job(const ObjectMeta& meta) {
  const OwnerReference* owner = controller_of(meta);
  return owner != nullptr && owner->kind == contract::kKind &&
         owner->api_version.starts_with(std::string(contract::kApiGroup) + "/");
}

Result<ObjectMeta> decode_meta(const Json& json, const std::string& path) {
  ObjectMeta meta;
  ObjectReader reader(json, path);
  reader.require("name");
  reader.read("name", meta.name);
  reader.read("namespace", meta.namespace_);
  reader.read("uid", meta.uid);
  reader.read("resourceVersion", meta.resource_version);
  reader.read("generation", meta.generation);
  reader.read_with("creationTimestamp", meta.creation_timestamp, decode_time);
  reader.read_with("deletionTimestamp", meta.deletion_timestamp, decode_time);
  reader.read("deletionGracePeriodSeconds", meta.deletion_grace_period_seconds);
  reader.read("finalizers", meta.finalizers);
  reader.read("labels", meta.labels);
  reader.read_list("ownerReferences", meta.owner_references, decode_owner);
  keep_what_is_read(meta);
  return reader.finish(std::move(meta));
}

Json encode(const ObjectMeta& meta) {
  Json json = {{"name", meta.name}};
  put_unless_empty(json, "namespace", meta.namespace_);
  put_unless_empty(json, "uid", meta.uid);
  put_unless_empty(json, "resourceVersion", meta.resource_version);
  put_unless_empty(json, "labels", meta.labels);
  put_unless_empty(json, "annotations", meta.annotations);
  put_unless_empty(json, "finalizers", meta.finalizers);
  for (const OwnerReference& owner : meta.owner_references) {
    json["ownerReferences"].push_back(encode(owner));
  }
  return json;
}

Result<TimePoint> parse_time(std::string_view text) {
  const auto time = parse_stored_rfc3339(text);
  if (time) return *time;
  return fail(
      ErrorKind::Data,
      "expected a time such as 2026-01-02T03:04:05Z, found '" + std::string(text.substr(0, 64)) +
          "'"
  );
}

Result<std::optional<TimePoint>> decode_time(const Json& json, const std::string& path) {
  if (!json.is_string()) {
    return fail(ErrorKind::Data, path + ": expected a time, found " + json.type_name());
  }
  auto time = parse_time(json.get_ref<const std::string&>());
  if (!time) return tl::unexpected<Error>(with_context(std::move(time).error(), path));
  return std::optional<TimePoint>(*time);
}

}  // namespace gnn::objects
