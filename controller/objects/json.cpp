#include "controller/objects/json.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace gnn::objects {
namespace {

// Of a text that need not be valid JSON.
struct TextShape {
  int64_t depth = 0;   // deepest nesting of arrays and objects
  int64_t values = 1;  // at most so many
};

TextShape shape_of(std::string_view text) {
  int64_t depth = 0;
  TextShape shape;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
      continue;
    }
    if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      shape.depth = std::max(shape.depth, ++depth);
      ++shape.values;
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (c == ',') {
      ++shape.values;
    }
  }
  return shape;
}

Error too_many_values(const JsonLimits& limits) {
  return Error{
      .kind = ErrorKind::Data,
      .message =
          "expected JSON of at most " + std::to_string(limits.max_values) + " values, found more",
  };
}

tl::unexpected<Error> not_json(const std::string& problem) {
  return fail(ErrorKind::Data, "not valid JSON: " + problem);
}

// Makes something of a document that is read from start to end.
class DocumentReader : public Json::json_sax_t {
 public:
  [[nodiscard]] virtual Json take() = 0;

  // Errors: Data if the text is not JSON.
  [[nodiscard]] Result<Json> read(std::string_view text) {
    try {
      if (Json::sax_parse(text.begin(), text.end(), this)) return take();
    } catch (const Json::exception& error) {
      problem_ = error.what();
    }
    if (refused_) return tl::unexpected<Error>(*refused_);
    return not_json(problem_);
  }

  bool parse_error(size_t, const std::string&, const Json::exception& error) override {
    problem_ = error.what();
    return false;
  }

 protected:
  // Ends the reading with that error.
  bool refuse(Error error) {
    refused_ = std::move(error);
    return false;
  }

 private:
  std::string problem_;
  std::optional<Error> refused_;
};

// Keeps the wanted text members of a document.
class MemberReader final : public DocumentReader {
 public:
  explicit MemberReader(const std::vector<std::vector<std::string>>& wanted) : wanted_(wanted) {}

  [[nodiscard]] Json take() override { return std::move(found_); }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool string(string_t& text) override {
    if (std::find(wanted_.begin(), wanted_.end(), path_) == wanted_.end()) return true;
    Json* member = &found_;
    for (const std::string& name : path_) member = &(*member)[name];
    *member = std::move(text);
    return true;
  }
  bool start_object(size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool start_array(size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  bool key(string_t& name) override {
    if (depth_ <= kDeepestPath) path_.back() = std::move(name);
    return true;
  }

 private:
  // Longer than any wanted path, so that what is deeper never looks like one.
  static constexpr size_t kDeepestPath = 4;

  bool enter() {
    if (++depth_ <= kDeepestPath) path_.emplace_back();
    return true;
  }
  bool leave() {
    if (depth_-- <= kDeepestPath) path_.pop_back();
    return true;
  }

  const std::vector<std::vector<std::string>>& wanted_;
  std::vector<std::string> path_;  // an array's elements have an empty name
  size_t depth_ = 0;
  Json found_ = Json::object();
};

// A member and the object that holds it.
struct Member {
  std::string_view parent;
  std::string_view name;
};

// What no caller of parse_object() reads. Most of a pod's text, and so of the work of a watch.
constexpr std::array kUnreadMembers = {
    Member{"metadata", "managedFields"},
    Member{"spec", "containers"},
    Member{"spec", "initContainers"},
    Member{"spec", "volumes"},
    Member{"spec", "tolerations"},
    Member{"spec", "topologySpreadConstraints"},
};

// Where the keys of labels and annotations begin of which a caller of parse_object() reads any.
constexpr std::array<std::string_view, 4> kReadKeys = {
    "gnn.dev/", "kueue.x-k8s.io/", "scheduling.k8s.io/", "scheduling.x-k8s.io/"
};

// Builds a document without kUnreadMembers of an object or of a watch event's object, and without
// labels and annotations that nobody reads.
class ObjectBuilder final : public DocumentReader {
 public:
  explicit ObjectBuilder(const JsonLimits& limits) : limits_(limits) {}

  [[nodiscard]] Json take() override { return std::move(root_); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool binary(binary_t& value) override { return put(std::move(value)); }
  bool string(string_t& text) override { return put(std::move(text)); }
  bool start_object(size_t) override { return enter(Json::value_t::object); }
  bool end_object() override { return leave(); }
  bool start_array(size_t) override { return enter(Json::value_t::array); }
  bool end_array() override { return leave(); }
  bool key(string_t& name) override {
    if (skipped_depth_ > 0) return true;
    skip_next_ = is_unread(name) || is_foreign_key(name);
    if (open_.size() < kDeepestParent) parent_names_[open_.size()] = name;
    if (!skip_next_) member_ = &(*open_.back())[name];
    return true;
  }

 private:
  // Of an object the parent is a member of the root, of a watch event's object one level deeper.
  static constexpr size_t kDeepestUnread = 3;
  static constexpr size_t kDeepestParent = 4;

  [[nodiscard]] bool is_unread(const std::string& name) const {
    if (open_.size() < 2 || open_.size() > kDeepestUnread) return false;
    const std::string& parent = parent_names_[open_.size() - 1];
    return std::any_of(kUnreadMembers.begin(), kUnreadMembers.end(), [&](const Member& member) {
      return member.name == name && member.parent == parent;
    });
  }

  // Whether the key is of a label or an annotation of the object that nobody reads.
  [[nodiscard]] bool is_foreign_key(const std::string& name) const {
    const size_t depth = open_.size();
    if (depth < 3 || depth > kDeepestParent || parent_names_[depth - 2] != "metadata") return false;
    if (depth == kDeepestParent && parent_names_[1] != "object") return false;
    const std::string& parent = parent_names_[depth - 1];
    if (parent != "labels" && parent != "annotations") return false;
    return std::none_of(kReadKeys.begin(), kReadKeys.end(), [&](std::string_view known) {
      return name.starts_with(known);
    });
  }

  // Counts a value that is kept.
  bool has_room() { return ++values_ <= limits_.max_values || refuse(too_many_values(limits_)); }

  // Where the next value goes.
  Json* place() {
    if (open_.empty()) return &root_;
    if (open_.back()->is_object()) return member_;
    return &open_.back()->emplace_back();
  }

  template <class T>
  bool put(T&& value) {
    if (skipped_depth_ > 0) return true;
    if (std::exchange(skip_next_, false)) return true;
    if (!has_room()) return false;
    *place() = std::forward<T>(value);
    return true;
  }

  bool enter(Json::value_t type) {
    if (skipped_depth_ > 0 || std::exchange(skip_next_, false)) {
      ++skipped_depth_;
      return true;
    }
    if (!has_room()) return false;
    Json* here = place();
    *here = type;
    open_.push_back(here);
    // What is in an array has no name.
    if (open_.size() < kDeepestParent && type == Json::value_t::array) {
      parent_names_[open_.size()].clear();
    }
    return true;
  }

  bool leave() {
    if (skipped_depth_ > 0) {
      --skipped_depth_;
    } else {
      open_.pop_back();
    }
    return true;
  }

  const JsonLimits& limits_;
  int64_t values_ = 0;
  Json root_;
  std::vector<Json*> open_;  // the objects and arrays around what comes next
  Json* member_ = nullptr;   // of the innermost object
  std::array<std::string, kDeepestParent> parent_names_;  // the last member named at each depth
  int64_t skipped_depth_ = 0;
  bool skip_next_ = false;
};

// Returns at most how many values the text has.
Result<int64_t> check_limits(std::string_view text, const JsonLimits& limits) {
  if (static_cast<int64_t>(text.size()) > limits.max_bytes) {
    return fail(
        ErrorKind::Data,
        "expected at most " + std::to_string(limits.max_bytes) + " bytes of JSON, found " +
            std::to_string(text.size())
    );
  }
  const TextShape shape = shape_of(text);
  if (shape.depth > limits.max_depth) {
    return fail(
        ErrorKind::Data,
        "expected JSON of at most " + std::to_string(limits.max_depth) + " levels, found more"
    );
  }
  return shape.values;
}

}  // namespace

Result<Json> parse_json(std::string_view text, const JsonLimits& limits) {
  GNN_ASSIGN_OR_RETURN(const int64_t values, check_limits(text, limits));
  if (values > limits.max_values) return tl::unexpected<Error>(too_many_values(limits));
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::exception& error) {
    return not_json(error.what());
  }
}

Result<Json> parse_object(std::string_view text, const JsonLimits& limits) {
  GNN_RETURN_IF_ERROR(check_limits(text, limits));
  return ObjectBuilder(limits).read(text);
}

Result<Json> parse_members(
    std::string_view text, const std::vector<std::vector<std::string>>& paths
) {
  return MemberReader(paths).read(text);
}

std::string dump_json(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

ObjectReader::ObjectReader(const Json& value, std::string path) : path_(std::move(path)) {
  if (value.is_object()) {
    value_ = &value;
  } else {
    fail_type(path_.empty() ? "." : path_, "an object", value);
  }
}

const Json* ObjectReader::find(std::string_view member) const {
  if (error_ || value_ == nullptr) return nullptr;
  const auto found = value_->find(member);
  return found == value_->end() || found->is_null() ? nullptr : &*found;
}

std::string ObjectReader::path_of(std::string_view member) const {
  return path_.empty() ? std::string(member) : path_ + "." + std::string(member);
}

void ObjectReader::fail_type(
    const std::string& path, std::string_view expected, const Json& found
) {
  error_ = Error{
      .kind = ErrorKind::Data,
      .message = path + ": expected " + std::string(expected) + ", found " + found.type_name(),
  };
}

void ObjectReader::read(std::string_view member, std::string& out) {
  const Json* value = find(member);
  if (value == nullptr) return;
  if (!value->is_string()) return fail_type(path_of(member), "a string", *value);
  out = value->get_ref<const std::string&>();
}

void ObjectReader::read(std::string_view member, std::optional<std::string>& out) {
  if (find(member) == nullptr) return;
  std::string text;
  read(member, text);
  if (!error_) out = std::move(text);
}

void ObjectReader::read(std::string_view member, int64_t& out) {
  const Json* value = find(member);
  if (value == nullptr) return;
  if (!value->is_number_integer()) return fail_type(path_of(member), "an integer", *value);
  if (value->is_number_unsigned() && value->get<uint64_t>() > uint64_t{INT64_MAX}) {
    error_ = Error{.kind = ErrorKind::Data, .message = path_of(member) + ": integer out of range"};
    return;
  }
  out = value->get<int64_t>();
}

void ObjectReader::read(std::string_view member, std::optional<int64_t>& out) {
  if (find(member) == nullptr) return;
  int64_t number = 0;
  read(member, number);
  if (!error_) out = number;
}

void ObjectReader::read(std::string_view member, bool& out) {
  const Json* value = find(member);
  if (value == nullptr) return;
  if (!value->is_boolean()) return fail_type(path_of(member), "a boolean", *value);
  out = value->get<bool>();
}

void ObjectReader::read(std::string_view member, std::vector<std::string>& out) {
  read_list(member, out, [this](const Json& item, const std::string& path) -> Result<std::string> {
    if (item.is_string()) return item.get<std::string>();
    fail_type(path, "a string", item);
    return tl::unexpected<Error>(*error_);
  });
}

void ObjectReader::read(std::string_view member, std::map<std::string, std::string>& out) {
  const Json* value = find(member);
  if (value == nullptr) return;
  if (!value->is_object()) return fail_type(path_of(member), "an object", *value);
  for (const auto& [key, item] : value->items()) {
    if (!item.is_string()) return fail_type(path_of(member) + "[" + key + "]", "a string", item);
    out.insert_or_assign(key, item.get<std::string>());
  }
}

void ObjectReader::require(std::string_view member) {
  if (error_) return;
  const Json* value = find(member);
  const bool empty =
      value == nullptr || (value->is_string() && value->get_ref<const std::string&>().empty());
  if (empty) {
    error_ = Error{
        .kind = ErrorKind::Data, .message = path_of(member) + ": expected a value, found none"
    };
  }
}

Status ObjectReader::status() const {
  if (error_) return tl::unexpected<Error>(*error_);
  return {};
}

}  // namespace gnn::objects
