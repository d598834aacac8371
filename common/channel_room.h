#pragma once

#include <cstdint>
#include <limits>
#include <map>

namespace gnn {

/// How many of the items that are made, and not yet taken, find no room in a channel of so many bytes.
/// Items are made in any order and taken by rising index. In the channel are those that are taken
/// next, as many as it has room for and one at least; the others wait outside. The next one is never
/// among these, however large it is and however late it was made, so that it cannot wait for itself.
/// Threads: one at a time.
class ChannelRoom {
 public:
  static constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

  /// `bytes` > 0.
  explicit ChannelRoom(int64_t bytes) : bytes_(bytes) {}

  /// An item of so many bytes is there. No index comes twice.
  void made(int64_t index, int64_t bytes) {
    made_.emplace(index, bytes);
    count();
  }

  /// The item with the least index is not there any more. Precondition: one is.
  void taken() {
    made_.erase(made_.begin());
    count();
  }

  /// Items outside the channel.
  [[nodiscard]] int64_t waiting() const { return waiting_; }

 private:
  void count() {
    if (bytes_ == kUnbounded) return;
    int64_t inside = 0;
    int64_t left = bytes_;
    for (const auto& [index, bytes] : made_) {
      if (inside > 0 && bytes > left) break;
      left -= bytes;
      ++inside;
    }
    waiting_ = static_cast<int64_t>(made_.size()) - inside;
  }

  const int64_t bytes_;
  std::map<int64_t, int64_t> made_;  // their bytes, by index
  int64_t waiting_ = 0;
};

}  // namespace gnn
