#pragma once

#include "common/clock.h"
#include "common/guarded.h"
#include "worker/agent/unique_fd.h"

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace gnn::agent {

struct LineWriterOptions {
  int fd = -1;  ///< outlives the writer
  size_t capacity_bytes = size_t{4} << 20;
  /// write() waits for room only while the oldest queued line is younger than this: a reader that
  /// takes less than `capacity_bytes` in that time stalls, or is too slow.
  std::chrono::milliseconds patience{1'000};
  /// How long the destructor waits for the reader to take what is queued.
  std::chrono::milliseconds flush_limit{2'000};
};

/// Writes lines to a descriptor on its own thread, so that a reader that stalls, as a full pipe or a
/// stopped terminal does, stops nobody but that thread. A fast writer waits for a slow reader as long
/// as that one keeps up; then lines are dropped, and a line in their place says how many. After an
/// error, as when the reader is gone, all lines are dropped.
/// Threads: safe from any thread. Its own thread takes no signals.
class LineWriter {
 public:
  /// `clock` outlives the writer.
  LineWriter(const LineWriterOptions& options, Clock& clock);
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  /// Queues `line`, which has no line end. Waits at most for `patience`.
  void write(std::string_view line);
  /// Queues `text` as it is: several lines, or a part of one.
  void write_text(std::string text);

 private:
  struct Line {
    std::string text;  // with its end
    MonotonicPoint queued_at{};
  };
  struct Queue {
    std::deque<Line> lines;
    size_t bytes = 0;
    int64_t dropped = 0;  // since the last line that was queued
    bool closing = false;
    bool broken = false;  // nobody will read what is written
  };
  using LockedQueue = Guarded<Queue>::Locked;

  void run();
  [[nodiscard]] std::string next_chunk();
  [[nodiscard]] bool write_all(std::string_view chunk);
  [[nodiscard]] bool wait_until_writable();
  [[nodiscard]] bool wait_for_room(LockedQueue& queue, size_t size);
  void push(Queue& queue, std::string text);
  void push_count_of_dropped(Queue& queue);

  LineWriterOptions options_;
  Clock& clock_;
  UniqueFd own_;  // a non-blocking description of options_.fd, where one can be had
  UniqueFd closing_;
  std::optional<std::chrono::steady_clock::time_point> flush_deadline_;  // the thread's
  Guarded<Queue> queue_;
  std::thread thread_;
};

}  // namespace gnn::agent
