#include "controller/client/list_page.h"

#include "controller/objects/json.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace gnn::client {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

// Walks over JSON text without building anything. Accepts some texts that are not JSON; the parser
// of each part refuses them.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  // Takes this character, after any blanks, if it is next.
  bool take(char wanted) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  // The next value; nothing if there is none.
  std::optional<std::string_view> value() {
    skip_blanks();
    const size_t start = at_;
    size_t depth = 0;
    do {
      if (at_ >= text_.size()) return std::nullopt;
      const char c = text_[at_];
      if (c == '"') {
        if (!skip_string()) return std::nullopt;
      } else if (c == '{' || c == '[') {
        ++depth;
        ++at_;
      } else if (c == '}' || c == ']') {
        if (depth == 0) return std::nullopt;
        --depth;
        ++at_;
      } else if (depth > 0) {
        at_ = std::min(text_.find_first_of("\"{}[]", at_), text_.size());
      } else {
        at_ = std::min(text_.find_first_of(",:]} \t\r\n", at_), text_.size());
        break;
      }
    } while (depth > 0);
    return at_ == start ? std::nullopt : std::optional(text_.substr(start, at_ - start));
  }

  bool at_end() {
    skip_blanks();
    return at_ == text_.size();
  }

 private:
  void skip_blanks() { at_ = std::min(text_.find_first_not_of(kBlanks, at_), text_.size()); }

  bool skip_string() {
    for (++at_; at_ < text_.size(); ++at_) {
      at_ = std::min(text_.find_first_of("\"\\", at_), text_.size());
      if (at_ == text_.size()) return false;
      if (text_[at_] == '"') {
        ++at_;
        return true;
      }
      ++at_;  // what a backslash escapes
    }
    return false;
  }

  std::string_view text_;
  size_t at_ = 0;
};

Error no_list(std::string_view found) {
  return {.kind = ErrorKind::Data, .message = "expected a list, found " + std::string(found)};
}

Result<std::vector<std::string_view>> split_items(std::string_view text) {
  std::vector<std::string_view> items;
  if (text == "null") return items;
  Scanner scanner(text);
  if (!scanner.take('[')) return tl::unexpected<Error>(no_list("items that are no array"));
  if (scanner.take(']')) return items;
  do {
    const auto item = scanner.value();
    if (!item) return tl::unexpected<Error>(no_list("an array without an end"));
    items.push_back(*item);
  } while (scanner.take(','));
  if (!scanner.take(']')) return tl::unexpected<Error>(no_list("an array without an end"));
  return items;
}

Status read_metadata(std::string_view text, ListPage& page) {
  GNN_ASSIGN_OR_RETURN(const objects::Json metadata, objects::parse_json(text));
  objects::ObjectReader reader(metadata, "metadata");
  reader.read("resourceVersion", page.resource_version);
  reader.read("continue", page.continuation);
  return reader.status();
}

}  // namespace

Result<ListPage> split_list(std::string_view body) {
  ListPage page;
  bool has_items = false;
  bool has_metadata = false;
  Scanner scanner(body);
  if (!scanner.take('{')) return tl::unexpected<Error>(no_list("no object"));
  if (!scanner.take('}')) {
    do {
      const auto name = scanner.value();
      if (!name || !scanner.take(':')) return tl::unexpected<Error>(no_list("no member"));
      const auto value = scanner.value();
      if (!value) return tl::unexpected<Error>(no_list("a member without a value"));
      if (*name == "\"items\"") {
        GNN_ASSIGN_OR_RETURN(page.items, split_items(*value));
        has_items = true;
      } else if (*name == "\"metadata\"") {
        GNN_RETURN_IF_ERROR(read_metadata(*value, page));
        has_metadata = true;
      }
    } while (scanner.take(','));
    if (!scanner.take('}')) return tl::unexpected<Error>(no_list("an object without an end"));
  }
  if (!scanner.at_end()) return tl::unexpected<Error>(no_list("more than one value"));
  if (!has_items || !has_metadata) {
    return tl::unexpected<Error>(no_list("no items or no metadata"));
  }
  return page;
}

}  // namespace gnn::client
