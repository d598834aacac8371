#pragma once

#include "common/result.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gnn::objects {

using Json = nlohmann::json;

/// Limits of a text that is parsed. nlohmann::json copies and destroys values recursively, so depth
/// must be bounded beforehand. A value takes up to a hundred bytes, however short its text is: a
/// megabyte of short keys would become ten.
struct JsonLimits {
  int64_t max_bytes = int64_t{3} << 20;
  int64_t max_depth = 64;
  int64_t max_values = 20'000;  ///< of all that is kept
};

/// Parses one JSON value.
/// Errors: Data, with the position. Never throws.
[[nodiscard]] Result<Json> parse_json(std::string_view text, const JsonLimits& limits = {});

/// As parse_json(), for an object of the API server, or a watch event with one: leaves out what is
/// large and never read here, such as metadata.managedFields, a pod's containers, and the labels and
/// annotations of others.
[[nodiscard]] Result<Json> parse_object(std::string_view text, const JsonLimits& limits = {});

/// Reads a text that is above the limits: an object that has only those of its text members whose
/// paths are named, e.g. {"metadata", "name"}. Nothing else is built, and nothing is recursive.
/// Errors: Data if the text is not JSON. Never throws.
[[nodiscard]] Result<Json> parse_members(
    std::string_view text, const std::vector<std::vector<std::string>>& paths
);

/// The value as text; invalid UTF-8 becomes U+FFFD. Never throws.
[[nodiscard]] std::string dump_json(const Json& value);

/// Reads the members of one JSON object; its errors carry the JSON path. A null member counts as
/// absent; a member of the wrong type is an error. After the first error the reader does nothing
/// more, so that callers check status() once, at the end.
class ObjectReader {
 public:
  /// `value` must outlive the reader. It is an error if it is not an object.
  ObjectReader(const Json& value, std::string path);

  void read(std::string_view member, std::string& out);
  void read(std::string_view member, std::optional<std::string>& out);
  void read(std::string_view member, int64_t& out);
  void read(std::string_view member, std::optional<int64_t>& out);
  void read(std::string_view member, bool& out);
  void read(std::string_view member, std::vector<std::string>& out);
  void read(std::string_view member, std::map<std::string, std::string>& out);

  /// `decode(const Json&, path)` returns a Result<T>; without the member, `out` stays as it is.
  template <class T, class Decode>
  void read_with(std::string_view member, T& out, Decode decode) {
    const Json* value = find(member);
    if (value == nullptr) return;
    auto decoded = decode(*value, path_of(member));
    if (decoded) {
      out = std::move(*decoded);
    } else {
      error_ = std::move(decoded).error();
    }
  }

  /// As read_with(), element by element.
  template <class T, class Decode>
  void read_list(std::string_view member, std::vector<T>& out, Decode decode) {
    const Json* list = find(member);
    if (list == nullptr) return;
    if (!list->is_array()) return fail_type(path_of(member), "an array", *list);
    out.reserve(list->size());
    for (size_t i = 0; i < list->size() && !error_; ++i) {
      auto decoded = decode((*list)[i], path_of(member) + "[" + std::to_string(i) + "]");
      if (decoded) {
        out.push_back(std::move(*decoded));
      } else {
        error_ = std::move(decoded).error();
      }
    }
  }

  /// It is an error if the member is absent, null or an empty string.
  void require(std::string_view member);

  [[nodiscard]] Status status() const;

  /// `value`, or the first error.
  template <class T>
  [[nodiscard]] Result<T> finish(T value) const {
    if (error_) return tl::unexpected<Error>(*error_);
    return value;
  }

 private:
  [[nodiscard]] const Json* find(std::string_view member) const;
  [[nodiscard]] std::string path_of(std::string_view member) const;
  void fail_type(const std::string& path, std::string_view expected, const Json& found);

  const Json* value_ = nullptr;
  std::string path_;
  std::optional<Error> error_;
};

/// Sets `member` to `value` unless that is empty: Kubernetes treats absent and empty alike.
template <class T>
void put_unless_empty(Json& object, std::string_view member, const T& value) {
  if (!value.empty()) object[std::string(member)] = value;
}

}  // namespace gnn::objects
