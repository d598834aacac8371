#include "common/api/yaml.h"

#include "common/api/codec.h"
#include "common/api/yaml_scalar.h"
#include "common/printable.h"

#include <nlohmann/json.hpp>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>

namespace gnn::api {
namespace {

using nlohmann::json;

// " (line 3, column 1)" of a text whose first line has that number in the file, or nothing.
std::string where(const YAML::Mark& mark, int64_t first_line) {
  if (mark.is_null()) return "";
  return " (line " + std::to_string(mark.line + first_line) + ", column " +
         std::to_string(mark.column + 1) + ")";
}

std::string in_quotes(const std::string& text) {
  return "\"" + text + "\"";
}

// What is said of a plain scalar that is one value for kubectl and another for programs that read YAML 1.2.
std::string warning_of(const std::string& text, const json& value, const json& other) {
  const std::string read = value.dump();
  return text + " is " + read + " for kubectl, which reads YAML 1.1, and " + other.dump() +
         " in YAML 1.2: write " + read + ", or " + in_quotes(text) + " for the text";
}

// Refuses a closing bracket without an opening one ("{}}"): yaml-cpp would find a document there
// again and again, without moving on, until memory runs out. And so many values that their nodes would
// fill it.
class EachDocumentMovesOn final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    if (mark.pos <= last_start_) throw YAML::ParserException(mark, "expected the document's end");
    last_start_ = mark.pos;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { count(mark); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { count(mark); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t, const std::string&)
      override {
    count(mark);
  }
  void OnSequenceStart(
      const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value
  ) override {
    count(mark);
  }
  void OnSequenceEnd() override {}
  void OnMapStart(
      const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value
  ) override {
    count(mark);
  }
  void OnMapEnd() override {}

 private:
  // A value of a map has a key besides.
  void count(const YAML::Mark& mark) {
    if (++nodes_ > 2 * kMaxDocumentValues) {
      throw YAML::ParserException(
          mark, "more than " + std::to_string(2 * kMaxDocumentValues) + " keys and values"
      );
    }
  }

  int last_start_ = -1;
  int64_t nodes_ = 0;
};

void check_documents(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  EachDocumentMovesOn check;
  while (parser.HandleNextDocument(check)) {
  }
}

class Converter {
 public:
  // The number of the first line of the text that is converted from now on.
  void begin_at(int64_t line) { first_line_ = line; }
  bool has_room() const { return values_ <= kMaxDocumentValues; }
  // What was said since the last call.
  std::vector<std::string> take_warnings() { return std::exchange(warnings_, {}); }

  Result<json> convert(const YAML::Node& node, int64_t depth) {
    if (depth > kMaxDocumentDepth || ++values_ > kMaxDocumentValues) {
      return fail(
          ErrorKind::Configuration,
          "YAML is deeper than " + std::to_string(kMaxDocumentDepth) + " levels or has more than " +
              std::to_string(kMaxDocumentValues) +
              " values, aliases counted each time they are used"
      );
    }
    switch (node.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null:
        return json();
      case YAML::NodeType::Scalar:
        return convert_scalar(node);
      case YAML::NodeType::Sequence:
        return convert_list(node, depth);
      case YAML::NodeType::Map:
        return convert_map(node, depth);
    }
    return json();
  }

 private:
  Result<json> convert_list(const YAML::Node& node, int64_t depth) {
    json list = json::array();
    for (const YAML::Node& element : node) {
      GNN_ASSIGN_OR_RETURN(json value, convert(element, depth + 1));
      list.push_back(std::move(value));
    }
    return list;
  }

  // yaml-cpp tags quoted scalars "!" and plain ones "?".
  static bool is_plain(const YAML::Node& node) { return node.IsScalar() && node.Tag() == "?"; }

  Result<json> convert_scalar(const YAML::Node& node) {
    if (!is_plain(node)) return json(node.Scalar());
    if (is_no_json_number(node.Scalar())) {
      return fail(
          ErrorKind::Configuration,
          node.Scalar() + " is a number that JSON does not have: put it in quotes if it is text" +
              where(node.Mark(), first_line_)
      );
    }
    json value = plain_scalar(node.Scalar());
    compare(node, value);
    return value;
  }

  void compare(const YAML::Node& node, const json& value) {
    const std::string& text = node.Scalar();
    const json other = plain_scalar_of_yaml_1_2(text);
    if (value == other && value.type() == other.type()) return;
    const bool is_new = warned_.insert(node.Mark().pos).second;
    if (is_new && warnings_.size() < kMaxWarnings) {
      warnings_.push_back(warning_of(text, value, other) + where(node.Mark(), first_line_));
    }
  }

  // JSON's keys are text. kubectl makes it of numbers and of true and false, too.
  Result<std::string> convert_key(const YAML::Node& key) {
    if (key.IsNull()) {
      return fail(
          ErrorKind::Configuration,
          "YAML key ~ or null is no text: put it in quotes" + where(key.Mark(), first_line_)
      );
    }
    if (!key.IsScalar()) {
      return fail(
          ErrorKind::Configuration, "YAML key is not a string" + where(key.Mark(), first_line_)
      );
    }
    if (!is_plain(key)) return key.Scalar();
    const json value = plain_scalar(key.Scalar());
    if (value.is_string()) return key.Scalar();
    if (value.is_number_float()) {
      return fail(
          ErrorKind::Configuration,
          "YAML key " + key.Scalar() + " is " + value.dump() + " and no text: put it in quotes" +
              where(key.Mark(), first_line_)
      );
    }
    compare(key, value);
    return value.dump();
  }

  // What "<<" puts beneath the map's own keys: a map, or the first of several that has a key.
  Status merge(const YAML::Node& node, int64_t depth, json& merged) {
    GNN_ASSIGN_OR_RETURN(json value, convert(node, depth + 1));
    json maps = value.is_array() ? std::move(value) : json::array({std::move(value)});
    for (auto map = maps.rbegin(); map != maps.rend(); ++map) {
      if (!map->is_object()) {
        return fail(
            ErrorKind::Configuration, "YAML << expects maps" + where(node.Mark(), first_line_)
        );
      }
      merged.update(*map);
    }
    return {};
  }

  Result<json> convert_map(const YAML::Node& node, int64_t depth) {
    json object = json::object();
    json merged = json::object();
    for (const auto& entry : node) {
      const std::string place = where(entry.first.Mark(), first_line_);
      if (is_plain(entry.first) && entry.first.Scalar() == "<<") {
        // To kubectl, what is merged goes before what stands above it.
        if (!object.empty()) {
          return fail(ErrorKind::Configuration, "YAML << must be the first key of its map" + place);
        }
        GNN_RETURN_IF_ERROR(merge(entry.second, depth, merged));
        continue;
      }
      GNN_ASSIGN_OR_RETURN(const std::string key, convert_key(entry.first));
      if (object.contains(key)) {
        std::string problem = "YAML key \"";
        problem.append(key).append("\" appears twice").append(place);
        return fail(ErrorKind::Configuration, problem);
      }
      GNN_ASSIGN_OR_RETURN(json value, convert(entry.second, depth + 1));
      object[key] = std::move(value);
    }
    for (auto& [key, value] : merged.items()) object.emplace(key, std::move(value));
    return object;
  }

  static constexpr size_t kMaxWarnings = 20;

  int64_t values_ = 0;
  int64_t first_line_ = 1;
  std::vector<std::string> warnings_;
  std::set<int> warned_;  // by their places, as aliases repeat them
};

// yaml-cpp would take a 0x04 for the end of the text, and others for UTF-16.
Status check_text(std::string_view text) {
  if (text.size() > kMaxDocumentBytes) {
    return fail(
        ErrorKind::Configuration,
        "document of " + std::to_string(text.size()) + " bytes is larger than the limit of " +
            std::to_string(kMaxDocumentBytes)
    );
  }
  int64_t line = 1;
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text[0]);
    const size_t length = utf8_sequence_length(text);
    const bool control = byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r';
    if (length == 0 || control) {
      constexpr std::string_view kDigits = "0123456789ABCDEF";
      return fail(
          ErrorKind::Configuration,
          std::string("not YAML: byte 0x") + kDigits[byte / 16] + kDigits[byte % 16] + " (line " +
              std::to_string(line) + ") is no text in UTF-8"
      );
    }
    if (byte == '\n') ++line;
    text.remove_prefix(length);
  }
  return {};
}

// All documents of a text that check_text() has seen.
Result<std::vector<json>> convert_all(
    std::string_view text, int64_t first_line, Converter& converter
) {
  try {
    std::vector<json> documents;
    const std::string copy(text);
    converter.begin_at(first_line);
    check_documents(copy);
    for (const YAML::Node& node : YAML::LoadAll(copy)) {
      GNN_ASSIGN_OR_RETURN(json document, converter.convert(node, 1));
      if (!document.is_null()) documents.push_back(std::move(document));
    }
    return documents;
  } catch (const YAML::Exception& error) {
    // What yaml-cpp says of a text that is deeper than it can follow.
    const bool deep = error.msg == YAML::ErrorMsg::BAD_FILE;
    const std::string problem =
        deep ? "deeper than " + std::to_string(kMaxDocumentDepth) + " levels" : error.msg;
    return fail(ErrorKind::Configuration, "not YAML: " + problem + where(error.mark, first_line));
  }
}

// Whether the line begins a document, or ends one: YAML takes neither for text, wherever it stands.
bool is_marker(std::string_view line, std::string_view marker) {
  return line.starts_with(marker) && (line.size() == marker.size() ||
                                      line.find_first_of(" \t\r", marker.size()) == marker.size());
}

bool is_blank_or_comment(std::string_view line) {
  const size_t first = line.find_first_not_of(" \t\r");
  return first == std::string_view::npos || line[first] == '#';
}

// A stretch of a text, the number of its first line, and of the one on which its document begins.
struct Stretch {
  std::string_view text;
  int64_t first_line = 1;
  int64_t line = 1;
  bool is_empty = true;
};

// Cuts a text where documents begin or end. Comments and directives stay with what follows them.
class PartReader {
 public:
  explicit PartReader(std::string_view text) : rest_(text) {}

  std::optional<Stretch> next() {
    Stretch part{.text = rest_, .first_line = line_, .line = line_};
    bool begun = false;
    size_t size = 0;
    while (size < rest_.size()) {
      const size_t end = std::min(rest_.find('\n', size), rest_.size() - 1);
      const std::string_view line = rest_.substr(size, end - size + (rest_[end] == '\n' ? 0 : 1));
      const bool begins = is_marker(line, "---");
      const bool ends = is_marker(line, "...");
      if (begun && begins) break;
      const bool is_before = is_blank_or_comment(line) || line[0] == '%' || ends;
      if (!begun && is_before && !ends) part.line = line_ + 1;
      begun = begun || !is_before;
      if (!ends && !is_blank_or_comment(begins ? line.substr(3) : line)) part.is_empty = false;
      size = end + 1;
      ++line_;
      if (ends) break;
    }
    if (size == 0) return std::nullopt;
    part.text = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return part;
  }

 private:
  std::string_view rest_;
  int64_t line_ = 1;
};

}  // namespace

Result<std::vector<json>> parse_yaml(std::string_view text) {
  GNN_RETURN_IF_ERROR(check_text(text));
  Converter converter;
  return convert_all(text, 1, converter);
}

std::vector<std::string> yaml_warnings(std::string_view text) {
  std::vector<std::string> all;
  for_each_yaml_document(
      text,
      [&](int64_t, const Result<json>&, const std::vector<std::string>& warnings) {
        all.insert(all.end(), warnings.begin(), warnings.end());
      }
  );
  return all;
}

void for_each_yaml_document(std::string_view text, const YamlVisitor& visit) {
  if (const Status status = check_text(text); !status) {
    return visit(1, tl::unexpected(status.error()), {});
  }
  Converter converter;
  PartReader reader(text);
  while (const std::optional<Stretch> part = reader.next()) {
    if (part->is_empty) continue;
    const Result<std::vector<json>> documents =
        convert_all(part->text, part->first_line, converter);
    const std::vector<std::string> warnings = converter.take_warnings();
    if (!documents) visit(part->line, tl::unexpected(documents.error()), warnings);
    if (!converter.has_room()) return;
    if (!documents) continue;
    for (const json& document : *documents) visit(part->line, document, warnings);
  }
}

}  // namespace gnn::api
