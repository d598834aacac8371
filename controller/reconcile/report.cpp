#include "controller/reconcile/report.h"

#include "common/api/codec.h"
#include "common/contract.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace gnn::reconcile {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxCount = 1'000'000'000'000;  // nothing we count in a job comes near it
constexpr std::size_t kMaxDecimalBytes = 32;
constexpr std::size_t kMaxPathBytes = 1024;
constexpr std::size_t kMaxMessageBytes = 1024;

std::optional<std::int64_t> count_of(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  if (found->is_number_unsigned() && found->get<std::uint64_t>() > kMaxCount) return std::nullopt;
  const auto value = found->get<std::int64_t>();
  if (value < 0 || value > kMaxCount) return std::nullopt;
  return value;
}

std::optional<std::string> text_of(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

/// "NaN", "Inf", "-Inf", or digits with an optional sign, fraction and exponent.
bool is_decimal(std::string_view text) {
  if (text.size() > kMaxDecimalBytes) return false;
  if (text == "NaN") return true;
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text == "Inf") return true;
  const auto take_digits = [&] {
    const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
    text.remove_prefix(end);
    return end > 0;
  };
  if (!take_digits()) return false;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (!take_digits()) return false;
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
    if (!take_digits()) return false;
  }
  return text.empty();
}

std::optional<std::string> decimal_of(const json& object, const char* name) {
  std::optional<std::string> text = text_of(object, name);
  if (text && !is_decimal(*text)) return std::nullopt;
  return text;
}

/// Length of the valid UTF-8 sequence at the front of `text`; 0 if there is none.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 0;
  if (length == 0 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool surrogate = first == 0xED && second >= 0xA0;
  const bool too_large = first == 0xF4 && second >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

/// Control characters, and what turns text around or hides it in a terminal.
bool is_unprintable(std::string_view sequence) {
  if (sequence.size() == 1) {
    return static_cast<unsigned char>(sequence[0]) < 0x20 || sequence[0] == 0x7F;
  }
  if (sequence.size() == 2)
    return sequence[0] == '\xC2' && static_cast<unsigned char>(sequence[1]) < 0xA0;
  if (sequence.size() != 3) return false;
  return sequence.starts_with("\xE2\x80") || sequence.starts_with("\xE2\x81") ||
         sequence == "\xEF\xBB\xBF";
}

/// Typographic signs of the block U+2010–U+2027 that is_unprintable would refuse wholesale.
bool is_typographic(std::string_view sequence) {
  return sequence.size() == 3 && sequence.starts_with("\xE2\x80") &&
         static_cast<unsigned char>(sequence[2]) >= 0x90 &&
         static_cast<unsigned char>(sequence[2]) <= 0xA7;
}

}  // namespace

std::string printable(std::string_view text, std::size_t max_bytes) {
  constexpr std::string_view kCut = "…";
  std::string clean;
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    const std::string_view sequence = text.substr(0, std::max<std::size_t>(length, 1));
    const bool visible = length > 0 && (is_typographic(sequence) || !is_unprintable(sequence));
    const std::string_view shown = visible ? sequence : std::string_view(" ");
    if (clean.size() + shown.size() > max_bytes) {
      // Room for the mark, without leaving half a character behind.
      while (!clean.empty() && clean.size() + kCut.size() > max_bytes) {
        while (!clean.empty() && (static_cast<unsigned char>(clean.back()) & 0xC0) == 0x80) {
          clean.pop_back();
        }
        if (!clean.empty()) clean.pop_back();
      }
      if (kCut.size() <= max_bytes) clean += kCut;
      return clean;
    }
    if (shown != " " || !clean.ends_with(' ')) clean += shown;
    text.remove_prefix(sequence.size());
  }
  while (clean.ends_with(' ')) clean.pop_back();
  return clean;
}

std::optional<Report> parse_report(std::string_view text) {
  if (text.size() > static_cast<std::size_t>(contract::kMaxProgressBytes)) return std::nullopt;
  const Result<json> parsed = api::parse_json(text);
  if (!parsed || !parsed->is_object()) return std::nullopt;
  const json& object = *parsed;
  const auto uid = text_of(object, "jobUid");
  const auto attempt = count_of(object, "attempt");
  const auto round = count_of(object, "round");
  const auto node = count_of(object, "node");
  if (count_of(object, "contract") != contract::kVersion || !uid || !attempt || !round || !node) {
    return std::nullopt;
  }
  Report report;
  report.job_uid = printable(*uid, 64);
  report.attempt = *attempt;
  report.round = *round;
  report.node = *node;
  report.rank = count_of(object, "rank");
  report.message = printable(text_of(object, "message").value_or(""), kMaxMessageBytes);
  report.progress.epoch = count_of(object, "epoch");
  report.progress.epochs = count_of(object, "epochs");
  report.progress.step = count_of(object, "step");
  report.progress.loss = decimal_of(object, "loss");
  report.progress.train_metric = decimal_of(object, "trainMetric");
  report.progress.validation_metric = decimal_of(object, "validationMetric");
  report.progress.test_metric = decimal_of(object, "testMetric");
  report.progress.rate = decimal_of(object, "rate");
  report.progress.eta_seconds = count_of(object, "etaSeconds");
  const std::string checkpoint =
      printable(text_of(object, "checkpoint").value_or(""), kMaxPathBytes);
  if (!checkpoint.empty()) report.progress.checkpoint = checkpoint;
  return report;
}

}  // namespace gnn::reconcile
