#pragma once

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <regex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::testing {

/// One of docs/schemas, for programs that can't ask Python: the keywords that those files use. Any
/// other keyword throws, so that no rule is passed over.
class Schema {
 public:
  explicit Schema(const std::string& path) {
    std::ifstream file(path);
    root_ = nlohmann::json::parse(file);
  }

  /// A sentence for each rule that `text` breaks; none if it is a document of the schema.
  [[nodiscard]] std::vector<std::string> problems(std::string_view text) const {
    const auto document = nlohmann::json::parse(text, nullptr, false);
    if (document.is_discarded()) return {"no JSON: " + std::string(text)};
    std::vector<std::string> found;
    check(root_, document, "document", found);
    return found;
  }

  /// The names of all properties, sorted.
  [[nodiscard]] std::vector<std::string> properties() const {
    std::vector<std::string> names;
    for (const auto& [name, rule] : root_.at("properties").items()) names.push_back(name);
    return names;
  }

 private:
  using Json = nlohmann::json;

  void check(
      const Json& rules, const Json& value, const std::string& path, std::vector<std::string>& found
  ) const {
    for (const auto& [keyword, rule] : rules.items()) {
      const bool fits = keyword == "properties" ? fits_properties(rule, value, path, found)
                        : keyword == "$ref"     ? fits_reference(rule, value, path, found)
                        : keyword == "additionalProperties"
                            ? rule.get<bool>() || !holds_others(rules, value)
                            : fits_value(keyword, rule, value);
      if (!fits) found.push_back(path + ": " + keyword + " " + rule.dump() + ": " + value.dump());
    }
  }

  /// What does not fit inside is said by the inner call.
  bool fits_properties(
      const Json& rule, const Json& value, const std::string& path, std::vector<std::string>& found
  ) const {
    for (const auto& [name, inner] : rule.items())
      if (value.contains(name)) check(inner, value.at(name), path + "." + name, found);
    return true;
  }

  bool fits_reference(
      const Json& rule, const Json& value, const std::string& path, std::vector<std::string>& found
  ) const {
    const auto pointer = rule.get<std::string>().substr(1);  // "#/$defs/decimal"
    check(root_.at(Json::json_pointer(pointer)), value, path, found);
    return true;
  }

  static bool holds_others(const Json& rules, const Json& value) {
    return std::any_of(value.items().begin(), value.items().end(), [&](const auto& item) {
      return !rules.at("properties").contains(item.key());
    });
  }

  static bool fits_value(const std::string& keyword, const Json& rule, const Json& value) {
    constexpr std::array<std::string_view, 4> kNotes = {"$schema", "$defs", "title", "description"};
    if (std::find(kNotes.begin(), kNotes.end(), keyword) != kNotes.end()) return true;
    if (keyword == "const") return value == rule;
    if (keyword == "enum") return std::find(rule.begin(), rule.end(), value) != rule.end();
    if (keyword == "type") return is_of_type(rule.get<std::string>(), value);
    if (keyword == "required")
      return std::all_of(rule.begin(), rule.end(), [&](const Json& name) {
        return value.contains(name.get<std::string>());
      });
    if (keyword == "minimum") return !value.is_number() || value >= rule;
    if (keyword == "maximum") return !value.is_number() || value <= rule;
    if (keyword == "maxLength")
      return !value.is_string() || num_characters(value.get<std::string>()) <= rule.get<size_t>();
    if (keyword == "pattern")
      return !value.is_string() ||
             std::regex_search(value.get<std::string>(), std::regex(rule.get<std::string>()));
    throw std::logic_error("schema.h does not know the keyword " + keyword);
  }

  static bool is_of_type(const std::string& type, const Json& value) {
    if (type == "object") return value.is_object();
    if (type == "string") return value.is_string();
    if (type == "integer") return value.is_number_integer();
    if (type == "boolean") return value.is_boolean();
    throw std::logic_error("schema.h does not know the type " + type);
  }

  /// Code points of UTF-8, which is what JSON Schema counts.
  static size_t num_characters(const std::string& text) {
    return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
      return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
    }));
  }

  Json root_;
};

}  // namespace gnn::testing
