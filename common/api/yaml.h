#pragma once

#include "common/result.h"

#include <nlohmann/json_fwd.hpp>

#include <string_view>
#include <vector>

namespace gnn::api {

/// The documents of a YAML text as JSON values, by YAML 1.2's core schema ("yes" is a string).
/// Empty documents are left out. Errors: Configuration for bad syntax (line and column), duplicate
/// keys, keys that are no strings, or more bytes, levels or values than codec.h allows.
[[nodiscard]] Result<std::vector<nlohmann::json>> parse_yaml(std::string_view text);

}  // namespace gnn::api
