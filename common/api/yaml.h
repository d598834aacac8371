#pragma once

#include "common/result.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace gnn::api {

/// The documents of a YAML text as JSON values, by YAML 1.2's core schema ("yes" is a string).
/// Empty documents are left out.
/// Errors: Configuration for bad syntax (with line and column), duplicate keys, keys that are not
/// strings, bytes that are no text of YAML, or text beyond the limits of codec.h.
[[nodiscard]] Result<std::vector<nlohmann::json>> parse_yaml(std::string_view text);

/// The line of the text on which a document begins, counted from 1, and its value or what is wrong with it.
using YamlVisitor = std::function<void(int64_t line, const Result<nlohmann::json>& document)>;

/// The same one by one, so that a broken document does not hide the others. Once a limit of codec.h is
/// reached, which counts for all documents together, that error is the last thing visited.
void for_each_yaml_document(std::string_view text, const YamlVisitor& visit);

}  // namespace gnn::api
