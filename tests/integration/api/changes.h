#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <utility>
#include <vector>

namespace gnn::testing {

/// Values put at JSON pointers, in order; null removes.
using Changes = std::vector<std::pair<std::string, nlohmann::json>>;

inline nlohmann::json changed(nlohmann::json object, const Changes& changes) {
  for (const auto& [pointer, value] : changes) {
    const nlohmann::json::json_pointer at(pointer);
    if (value.is_null()) {
      object[at.parent_pointer()].erase(at.back());
    } else {
      object[at] = value;
    }
  }
  return object;
}

}  // namespace gnn::testing
