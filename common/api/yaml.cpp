#include "common/api/yaml.h"

#include "common/api/codec.h"

#include <nlohmann/json.hpp>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <cstdint>
#include <sstream>
#include <string>
#include <utility>

namespace gnn::api {
namespace {

using nlohmann::json;

std::string where(const YAML::Node& node) {
  const YAML::Mark mark = node.Mark();
  if (mark.is_null()) return "";
  return " (line " + std::to_string(mark.line + 1) + ", column " + std::to_string(mark.column + 1) +
         ")";
}

// The whole text as a number of type T.
template <class T>
std::optional<T> whole_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A plain scalar by the core schema.
json resolve(const std::string& text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return {};
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  if (const auto integer = whole_number<int64_t>(text)) return *integer;
  const char first = text[text[0] == '+' || text[0] == '-' ? 1 : 0];
  const bool numeric = (first >= '0' && first <= '9') || first == '.';
  if (numeric) {
    if (const auto real = whole_number<double>(text)) return *real;
  }
  return text;
}

// Refuses a closing bracket without an opening one ("{}}"). yaml-cpp would find a document there
// again and again, without moving on, until memory runs out.
class EachDocumentMovesOn final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    if (mark.pos <= last_start_) throw YAML::ParserException(mark, "expected the document's end");
    last_start_ = mark.pos;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&)
      override {}
  void OnSequenceStart(
      const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value
  ) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value)
      override {}
  void OnMapEnd() override {}

 private:
  int last_start_ = -1;
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
        // yaml-cpp tags quoted scalars "!" and plain ones "?".
        if (node.Tag() == "?") return resolve(node.Scalar());
        return json(node.Scalar());
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

  Result<json> convert_map(const YAML::Node& node, int64_t depth) {
    json object = json::object();
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) {
        return fail(ErrorKind::Configuration, "YAML key is not a string" + where(entry.first));
      }
      const std::string key = entry.first.Scalar();
      if (object.contains(key)) {
        return fail(
            ErrorKind::Configuration, "YAML key \"" + key + "\" appears twice" + where(entry.first)
        );
      }
      GNN_ASSIGN_OR_RETURN(json value, convert(entry.second, depth + 1));
      object[key] = std::move(value);
    }
    return object;
  }

  int64_t values_ = 0;
};

}  // namespace

Result<std::vector<json>> parse_yaml(std::string_view text) {
  if (text.size() > kMaxDocumentBytes) {
    return fail(
        ErrorKind::Configuration,
        "document of " + std::to_string(text.size()) + " bytes is larger than the limit of " +
            std::to_string(kMaxDocumentBytes)
    );
  }
  try {
    std::vector<json> documents;
    Converter converter;
    const std::string copy(text);
    check_documents(copy);
    for (const YAML::Node& node : YAML::LoadAll(copy)) {
      GNN_ASSIGN_OR_RETURN(json document, converter.convert(node, 1));
      if (!document.is_null()) documents.push_back(std::move(document));
    }
    return documents;
  } catch (const YAML::Exception& error) {
    return fail(ErrorKind::Configuration, std::string("not YAML: ") + error.what());
  }
}

}  // namespace gnn::api
