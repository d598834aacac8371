#pragma once

#include "common/result.h"
#include "controller/client/api_error.h"
#include "controller/objects/json.h"

#include <string>
#include <string_view>
#include <vector>

namespace gnn::client {

enum class WatchEventType { Added, Modified, Deleted, Bookmark, Error, Unknown };

struct WatchEvent {
  WatchEventType type = WatchEventType::Unknown;
  objects::Json object;
};

/// Cuts the bytes of a watch's body into events, whatever the chunks. A line that is cut off by the
/// stream's end is dropped: its event comes again with the next watch. Holds at most one line.
class WatchDecoder {
 public:
  explicit WatchDecoder(objects::JsonLimits limits = {}) : limits_(limits) {}

  /// Takes the next bytes and appends the events that they complete. Errors: Data for a line that
  /// is too long, too deep or no watch event; the stream cannot be trusted after that.
  [[nodiscard]] Status feed(std::string_view bytes, std::vector<WatchEvent>& events);

 private:
  [[nodiscard]] Status take_line(std::string_view line, std::vector<WatchEvent>& events);

  objects::JsonLimits limits_;
  std::string line_;
  bool broken_ = false;
};

/// What an ERROR event's Status object says.
[[nodiscard]] ApiError api_error_from_status(const objects::Json& status, std::string_view call);

}  // namespace gnn::client
