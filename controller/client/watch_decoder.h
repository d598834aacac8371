#pragma once

#include "common/result.h"
#include "controller/client/api_error.h"
#include "controller/client/http_transport.h"
#include "controller/objects/json.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::client {

enum class WatchEventType { Added, Modified, Deleted, Bookmark, Error, Unknown };

struct WatchEvent {
  WatchEventType type = WatchEventType::Unknown;
  objects::Json object;
  /// Why the object was not read: it is above a limit. `object` then has only namespace, name and
  /// resourceVersion, in its metadata.
  std::optional<Error> unread{};
};

struct WatchLimits {
  objects::JsonLimits event{};
  int64_t line_bytes = kMaxReplyBytes;
};

/// Splits the bytes of a watch's body, in chunks of any size, into events. An incomplete last line
/// is dropped: the next watch brings its event again. Holds at most one line.
class WatchDecoder {
 public:
  explicit WatchDecoder(WatchLimits limits = {}) : limits_(limits) {}

  /// Takes the next bytes and appends the events that they complete.
  /// Errors: Data for a line that is too long or not a watch event; the stream is unusable after
  /// that.
  [[nodiscard]] Status feed(std::string_view bytes, std::vector<WatchEvent>& events);

 private:
  [[nodiscard]] Status take_line(std::string_view line, std::vector<WatchEvent>& events);

  WatchLimits limits_;
  std::string line_;
  bool broken_ = false;
};

/// From the Status object of an ERROR event.
[[nodiscard]] ApiError api_error_from_status(const objects::Json& status, std::string_view call);

}  // namespace gnn::client
