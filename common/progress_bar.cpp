#include "common/progress_bar.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <sys/ioctl.h>
#include <unistd.h>

namespace gnn {
namespace {

constexpr int kBarCells = 24;

std::string format(const char* pattern, double value, const char* suffix) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), pattern, value, suffix);
  return buffer.data();
}

}  // namespace

std::string short_count(double value) {
  struct Step {
    double size;
    const char* suffix;
  };
  static constexpr std::array<Step, 4> kSteps{{{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}}
  };
  for (const Step& step : kSteps) {
    if (value >= step.size) {
      return format("%.3g%s", value / step.size, step.suffix);
    }
  }
  return format(value < 10 && value != std::floor(value) ? "%.2f%s" : "%.0f%s", value, "");
}

std::string short_duration(std::chrono::seconds duration) {
  const int64_t total = duration.count();
  std::array<char, 64> buffer{};
  if (total >= 3600) {
    std::snprintf(
        buffer.data(),
        buffer.size(),
        "%lld:%02lld:%02lld",
        static_cast<long long>(total / 3600),
        static_cast<long long>(total / 60 % 60),
        static_cast<long long>(total % 60)
    );
  } else {
    std::snprintf(
        buffer.data(),
        buffer.size(),
        "%lld:%02lld",
        static_cast<long long>(total / 60),
        static_cast<long long>(total % 60)
    );
  }
  return buffer.data();
}

StreamProgressBar::StreamProgressBar(
    std::FILE* stream, ProgressBarOptions options, ProgressBarClock clock
)
    : stream_(stream), options_(options), clock_(clock) {}

StreamProgressBar::~StreamProgressBar() {
  if (running_) {
    // The task was not finished, because of an error: leave the cursor on a fresh line.
    if (options_.terminal && drawn_) {
      std::fputc('\n', stream_);
      std::fflush(stream_);
    }
  }
}

void StreamProgressBar::begin(std::string_view label, int64_t total, std::string_view unit) {
  if (running_) {
    end();
  }
  label_ = label;
  unit_ = unit;
  note_.clear();
  total_ = total;
  done_ = 0;
  running_ = true;
  drawn_ = false;
  started_ = clock_();
  shown_ = started_;
  if (options_.terminal) {
    draw(false);
  }
}

void StreamProgressBar::advance_to(int64_t done, std::string_view note) {
  done_ = done;
  if (!note.empty()) {
    note_ = note;
  }
  const auto now = clock_();
  if (!running_ ||
      now - shown_ < (options_.terminal ? options_.redraw_interval : options_.line_interval)) {
    return;
  }
  shown_ = now;
  draw(false);
}

void StreamProgressBar::end() {
  if (!running_) {
    return;
  }
  draw(true);
  running_ = false;
}

void StreamProgressBar::say(std::string_view line) {
  clear_line();
  std::fprintf(stream_, "%.*s\n", static_cast<int>(line.size()), line.data());
  if (running_ && options_.terminal) {
    draw(false);
  }
  std::fflush(stream_);
}

void StreamProgressBar::clear_line() {
  if (options_.terminal && drawn_) {
    std::fputs("\r\x1b[K", stream_);
    drawn_ = false;
  }
}

void StreamProgressBar::draw(bool last) {
  const double seconds = std::chrono::duration<double>(clock_() - started_).count();
  const double rate = seconds > 0 ? static_cast<double>(done_) / seconds : 0.0;
  std::string text = label_ + " ";
  if (total_ > 0) {
    const double share =
        std::clamp(static_cast<double>(done_) / static_cast<double>(total_), 0.0, 1.0);
    if (options_.terminal && !last) {
      const int filled = static_cast<int>(share * kBarCells);
      text += "[" + std::string(static_cast<size_t>(filled), '#') +
              std::string(static_cast<size_t>(kBarCells - filled), '.') + "] ";
    }
    text += format("%3.0f%%%s ", share * 100, "");
    text +=
        short_count(static_cast<double>(done_)) + "/" + short_count(static_cast<double>(total_));
  } else {
    text += short_count(static_cast<double>(done_));
  }
  text += " " + unit_;
  if (rate > 0) {
    text += ", " + short_count(rate) + "/s";
  }
  const auto whole = [](double value) { return std::chrono::seconds(static_cast<int64_t>(value)); };
  if (last) {
    text += ", " + format("%.1f s%s", seconds, "");
  } else if (total_ > done_ && rate > 0) {
    text += ", " + short_duration(whole(static_cast<double>(total_ - done_) / rate)) + " left";
  }
  if (!note_.empty()) {
    text += "  " + note_;
  }
  clear_line();
  if (!options_.terminal || last) {
    std::fprintf(stream_, "%s\n", text.c_str());
  } else {
    // A line longer than the terminal would wrap and could not be redrawn in place.
    const auto width = static_cast<size_t>(std::max(options_.columns - 1, 10));
    std::fprintf(stream_, "%s", text.substr(0, width).c_str());
    drawn_ = true;
  }
  std::fflush(stream_);
}

std::unique_ptr<ProgressBar> make_progress_bar(std::FILE* stream) {
  return make_progress_bar(stream, fileno(stream));
}

std::unique_ptr<ProgressBar> make_progress_bar(std::FILE* stream, int descriptor) {
  ProgressBarOptions options;
  options.terminal = descriptor >= 0 && isatty(descriptor) == 1;
  winsize size{};
  if (options.terminal && ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    options.columns = size.ws_col;
  }
  return std::make_unique<StreamProgressBar>(stream, options);
}

}  // namespace gnn
