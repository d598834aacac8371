#pragma once

#include "controller/objects/meta.h"

#include <map>
#include <string>
#include <string_view>

namespace gnn::objects {

/// Its data is written, never read: ours is immutable, and that of others may be large.
struct ConfigMap {
  ObjectMeta metadata;
  std::map<std::string, std::string> data;
  bool immutable = false;
  friend bool operator==(const ConfigMap&, const ConfigMap&) = default;
};

/// Decodes the metadata; PartialObjectMetadata is enough.
[[nodiscard]] Result<ConfigMap> decode_config_map(const Json& json);
[[nodiscard]] Json encode(const ConfigMap& config_map);

template <>
struct ResourceTraits<ConfigMap> {
  static constexpr std::string_view kGroup = "";
  static constexpr std::string_view kVersion = "v1";
  static constexpr std::string_view kKind = "ConfigMap";
  static constexpr std::string_view kPlural = "configmaps";
  [[nodiscard]] static Result<ConfigMap> decode(const Json& json) {
    return decode_config_map(json);
  }
};

}  // namespace gnn::objects
