#pragma once

#include "controller/objects/meta.h"

#include <map>
#include <string>
#include <string_view>

namespace gnn::objects {

/// Of type Opaque, and immutable. Created, and never read: the operator may not.
struct Secret {
  ObjectMeta metadata;
  std::map<std::string, std::string> data;  ///< as text
  friend bool operator==(const Secret&, const Secret&) = default;
};

[[nodiscard]] Json encode(const Secret& secret);

template <>
struct ResourceTraits<Secret> {
  static constexpr std::string_view kGroup = "";
  static constexpr std::string_view kVersion = "v1";
  static constexpr std::string_view kKind = "Secret";
  static constexpr std::string_view kPlural = "secrets";
};

}  // namespace gnn::objects
