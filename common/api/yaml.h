#pragma once

#include "common/result.h"

#include <nlohmann/json_fwd.hpp>

#include <string_view>
#include <vector>

namespace gnn::api {

/// The documents of a YAML text as JSON values, by YAML 1.2's core schema ("yes" is a string).
/// Empty documents are left out.
/// Errors: Configuration for bad syntax (with line and column), duplicate keys, keys that are not
/// strings, or text beyond the limits of codec.h.
[[nodiscard]] Result<std::vector<nlohmann::json>> parse_yaml(std::string_view text);

}  // namespace gnn::api
