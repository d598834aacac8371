#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace gnn {

/// Shows how far a long task, such as reading a data set, has come. One task at a time: begin(),
/// advance_to() any number of times, end().
/// Threads: one thread.
class ProgressBar {
 public:
  virtual ~ProgressBar() = default;
  /// `total` is in `unit`s ("edges", "bytes", "batches"); 0 if it isn't known beforehand.
  virtual void begin(std::string_view label, int64_t total, std::string_view unit) = 0;
  /// Cheap: draws a few times a second at most. `note` stands behind the bar ("loss 0.71").
  virtual void advance_to(int64_t done, std::string_view note = {}) = 0;
  virtual void end() = 0;
  /// Prints a line of its own, above the bar.
  virtual void say(std::string_view line) = 0;
};

/// Shows nothing.
class SilentProgressBar final : public ProgressBar {
 public:
  void begin(std::string_view, int64_t, std::string_view) override {}
  void advance_to(int64_t, std::string_view) override {}
  void end() override {}
  void say(std::string_view) override {}
};

struct ProgressBarOptions {
  bool terminal = false;  ///< true: a bar redrawn in place; false: plain lines
  int columns = 80;       ///< width of the terminal
  std::chrono::milliseconds redraw_interval{100};   ///< between two drawings of the bar
  std::chrono::milliseconds line_interval{10'000};  ///< between two plain lines of a running task
};

/// Monotonic time, injected so that tests need no sleeping.
using ProgressBarClock = std::chrono::steady_clock::time_point (*)();

/// Writes to `stream`, which must outlive it. On a terminal a bar with rate and remaining time;
/// elsewhere a line at the end of each task, and every `line_interval` during it.
class StreamProgressBar final : public ProgressBar {
 public:
  explicit StreamProgressBar(
      std::FILE* stream,
      ProgressBarOptions options,
      ProgressBarClock clock = &std::chrono::steady_clock::now
  );
  ~StreamProgressBar() override;
  StreamProgressBar(const StreamProgressBar&) = delete;
  StreamProgressBar& operator=(const StreamProgressBar&) = delete;

  void begin(std::string_view label, int64_t total, std::string_view unit) override;
  void advance_to(int64_t done, std::string_view note) override;
  void end() override;
  void say(std::string_view line) override;

 private:
  void draw(bool last);
  void clear_line();

  std::FILE* stream_;
  ProgressBarOptions options_;
  ProgressBarClock clock_;
  std::string label_;
  std::string unit_;
  std::string note_;
  int64_t total_ = 0;
  int64_t done_ = 0;
  bool running_ = false;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point started_;
  std::chrono::steady_clock::time_point shown_;
};

/// A StreamProgressBar on `stream`: a bar when it is a terminal (its width asked of it), plain lines
/// otherwise.
std::unique_ptr<ProgressBar> make_progress_bar(std::FILE* stream);
/// The same for a stream that has no descriptor itself, and whose text arrives at `descriptor`.
std::unique_ptr<ProgressBar> make_progress_bar(std::FILE* stream, int descriptor);

/// 1234567 -> "1.23 M"; below 1,000 as it is.
std::string short_count(double value);
/// 75 s -> "1:15"; 3,700 s -> "1:01:40".
std::string short_duration(std::chrono::seconds duration);

}  // namespace gnn
