#include "controller/reconcile/progress_text.h"

#include <array>
#include <string_view>

namespace gnn::reconcile {
namespace {

struct Unit {
  int64_t seconds;
  std::string_view letter;
  std::string_view word;
};

constexpr std::array<Unit, 4> kUnits = {{
    {.seconds = 86400, .letter = "d", .word = "d"},
    {.seconds = 3600, .letter = "h", .word = "h"},
    {.seconds = 60, .letter = "m", .word = "min"},
    {.seconds = 1, .letter = "s", .word = "s"},
}};

// The largest unit that fits, and the next one if there is something of it.
std::string time_text(int64_t seconds, std::string_view Unit::*name, const std::string& space) {
  size_t first = 0;
  while (first + 1 < kUnits.size() && seconds < kUnits[first].seconds) ++first;
  const int64_t whole = seconds / kUnits[first].seconds;
  std::string text = std::to_string(whole) + space + std::string(kUnits[first].*name);
  if (first + 1 == kUnits.size()) return text;
  const int64_t rest = seconds % kUnits[first].seconds / kUnits[first + 1].seconds;
  if (rest == 0) return text;
  return text + space + std::to_string(rest) + space + std::string(kUnits[first + 1].*name);
}

}  // namespace

std::string short_time(int64_t seconds) {
  return time_text(seconds, &Unit::letter, "");
}

std::string progress_text(const api::JobProgress& progress) {
  if (!progress.epoch) return "";
  std::string text = "Epoch " + std::to_string(*progress.epoch);
  if (progress.epochs) text += " of " + std::to_string(*progress.epochs);
  if (progress.loss) text += ", loss " + *progress.loss;
  if (progress.eta_seconds)
    text += ", " + time_text(*progress.eta_seconds, &Unit::word, " ") + " left";
  return text;
}

}  // namespace gnn::reconcile
