#include "controller/client/watch_decoder.h"

#include <utility>

namespace gnn::client {
namespace {

WatchEventType type_from(std::string_view name) {
  if (name == "ADDED") return WatchEventType::Added;
  if (name == "MODIFIED") return WatchEventType::Modified;
  if (name == "DELETED") return WatchEventType::Deleted;
  if (name == "BOOKMARK") return WatchEventType::Bookmark;
  if (name == "ERROR") return WatchEventType::Error;
  return WatchEventType::Unknown;
}

// What is read of an event above the limits.
const std::vector<std::vector<std::string>> kIdentity = {
    {"type"},
    {"object", "metadata", "namespace"},
    {"object", "metadata", "name"},
    {"object", "metadata", "resourceVersion"},
};

}  // namespace

Status WatchDecoder::feed(std::string_view bytes, std::vector<WatchEvent>& events) {
  if (broken_) return fail(ErrorKind::Data, "the watch stream is already broken");
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    if (static_cast<int64_t>(line_.size() + piece.size()) > limits_.line_bytes) {
      broken_ = true;
      line_ = {};
      return fail(
          ErrorKind::Data,
          "expected watch events of at most " + std::to_string(limits_.line_bytes) +
              " bytes, found a longer line"
      );
    }
    if (end == std::string_view::npos) {
      line_.append(piece);
      return {};
    }
    bytes.remove_prefix(end + 1);
    Status taken;
    if (line_.empty()) {
      taken = take_line(piece, events);
    } else {
      line_.append(piece);
      taken = take_line(line_, events);
      // Give back the memory of a long line.
      if (line_.capacity() > size_t{64} << 10U) {
        line_ = {};
      } else {
        line_.clear();
      }
    }
    if (!taken) {
      broken_ = true;
      line_ = {};
      return taken;
    }
  }
  return {};
}

Status WatchDecoder::take_line(std::string_view line, std::vector<WatchEvent>& events) {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return {};
  std::optional<Error> unread;
  auto json = objects::parse_object(line, limits_.event);
  if (!json) {
    unread = std::move(json).error();
    json = objects::parse_members(line, kIdentity);
  }
  if (!json) {
    return tl::unexpected<Error>(with_context(std::move(json).error(), "watch event"));
  }
  if (!json->is_object()) {
    return fail(
        ErrorKind::Data, std::string("watch event: expected an object, found ") + json->type_name()
    );
  }
  const auto type = json->find("type");
  const auto object = json->find("object");
  if (type == json->end() || !type->is_string() || object == json->end()) {
    // An API server that refuses a watch may reply 200 with a plain Status object.
    if (json->contains("kind") && (*json)["kind"] == "Status") {
      events.push_back({WatchEventType::Error, std::move(*json), std::nullopt});
      return {};
    }
    return fail(ErrorKind::Data, "watch event: expected members type and object");
  }
  events.push_back(
      {type_from(type->get_ref<const std::string&>()), std::move(*object), std::move(unread)}
  );
  return {};
}

}  // namespace gnn::client
