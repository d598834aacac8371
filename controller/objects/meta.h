#pragma once

#include "common/clock.h"
#include "common/result.h"
#include "controller/objects/json.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The Kubernetes objects that we use: plain structs with only the fields that we read or write.
namespace gnn::objects {

/// Names an object of a known kind. Cluster-scoped objects have no namespace.
struct ObjectKey {
  std::string namespace_;
  std::string name;

  friend auto operator<=>(const ObjectKey&, const ObjectKey&) = default;
  friend bool operator==(const ObjectKey&, const ObjectKey&) = default;
};

/// "namespace/name", as logs and messages show it.
[[nodiscard]] std::string to_string(const ObjectKey& key);

struct OwnerReference {
  std::string api_version;
  std::string kind;
  std::string name;
  std::string uid;
  bool controller = false;
  bool block_owner_deletion = false;
  friend bool operator==(const OwnerReference&, const OwnerReference&) = default;
};

struct ObjectMeta {
  std::string name;
  std::string namespace_;
  std::string uid;
  std::string resource_version;
  int64_t generation = 0;
  std::optional<TimePoint> creation_timestamp;
  std::optional<TimePoint> deletion_timestamp;
  std::optional<int64_t> deletion_grace_period_seconds;
  std::vector<std::string> finalizers;
  std::map<std::string, std::string> labels;
  /// Written only: those of others stay where an object is changed, and none is read.
  std::map<std::string, std::string> annotations;
  std::vector<OwnerReference> owner_references;
  friend bool operator==(const ObjectMeta&, const ObjectMeta&) = default;
};

[[nodiscard]] inline ObjectKey key_of(const ObjectMeta& meta) {
  return {meta.namespace_, meta.name};
}

/// Whether a resourceVersion is newer than another: the API server's are ascending decimal numbers.
/// False if either is something else.
[[nodiscard]] bool is_newer_version(const std::string& version, const std::string& than);

/// The owner that is the controller of the object, if any.
[[nodiscard]] const OwnerReference* controller_of(const ObjectMeta& meta);
/// Whether that is a GNNJob.
[[nodiscard]] bool is_controlled_by_job(const ObjectMeta& meta);

/// Of what users may write without limit it keeps only what is read here: the labels and the
/// finalizer of this project, the first finalizer of others, and the owner that is the controller. So a cached object is small,
/// however large users make it.
[[nodiscard]] Result<ObjectMeta> decode_meta(const Json& json, const std::string& path);
/// The fields that a client may set: name, namespace, labels, annotations, owners, finalizers, and,
/// unless empty, uid and resourceVersion as preconditions.
[[nodiscard]] Json encode(const ObjectMeta& meta);

/// RFC 3339 with any fraction and offset, as the API server writes times.
[[nodiscard]] Result<TimePoint> parse_time(std::string_view text);

/// Decodes a time member; for ObjectReader::read_with.
[[nodiscard]] Result<std::optional<TimePoint>> decode_time(
    const Json& json, const std::string& path
);

/// How the API server names a kind; specialized beside each struct. Members: kGroup (empty for the
/// core group), kVersion, kKind, kPlural and decode(const Json&) -> Result<T>.
template <class T>
struct ResourceTraits;

}  // namespace gnn::objects

template <>
struct std::hash<gnn::objects::ObjectKey> {
  size_t operator()(const gnn::objects::ObjectKey& key) const noexcept {
    const size_t a = std::hash<std::string>{}(key.namespace_);
    const size_t b = std::hash<std::string>{}(key.name);
    return a ^ (b + 0x9e3779b97f4a7c15ULL + (a << 6U) + (a >> 2U));
  }
};
