#pragma once

#include "common/result.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::api {

/// The documents of a YAML text as JSON values, as kubectl makes them (yaml_scalar.h). Empty documents are
/// left out.
/// Errors: Configuration for bad syntax (with line and column), duplicate keys, keys that are not
/// strings, bytes that are no text of YAML, or text beyond the limits of codec.h.
[[nodiscard]] Result<std::vector<nlohmann::json>> parse_yaml(std::string_view text);

/// The line of the text on which a document begins, counted from 1, its value or what is wrong with it, and its
/// scalars that programs of YAML 1.2 read differently, each with its line and how to write it.
using YamlVisitor = std::function<void(
    int64_t line, const Result<nlohmann::json>& document, const std::vector<std::string>& warnings
)>;

/// The same one by one, so that a broken document does not hide the others. Once a limit of codec.h is
/// reached, which counts for all documents together, that error is the last thing visited.
void for_each_yaml_document(std::string_view text, const YamlVisitor& visit);

/// The warnings of all documents.
[[nodiscard]] std::vector<std::string> yaml_warnings(std::string_view text);

}  // namespace gnn::api
