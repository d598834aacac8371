#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

namespace gnn::api {

/// The value of a plain scalar as kubectl reads it, which is YAML 1.1 with Go's numbers: "on" is true, "010" is 8,
/// "1_000" is 1000, and "1:30" is text. Numbers without a fraction are integers ("1e2").
[[nodiscard]] nlohmann::json plain_scalar(const std::string& text);

/// Whether it is infinity or NaN (".inf"), which JSON does not have: kubectl refuses it.
[[nodiscard]] bool is_no_json_number(std::string_view text);

/// The value by YAML 1.2's core schema, as many other programs read it: "on" is text, "010" is 10.
[[nodiscard]] nlohmann::json plain_scalar_of_yaml_1_2(const std::string& text);

}  // namespace gnn::api
