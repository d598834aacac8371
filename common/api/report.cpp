#include "common/api/report.h"

#include "common/api/codec.h"
#include "common/contract.h"
#include "common/printable.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace gnn::api {
namespace {

using nlohmann::json;

constexpr int64_t kMaxCount = 1'000'000'000'000;  // far above any count in a job
constexpr size_t kMaxNameBytes = contract::kMaxJobNameLength;
constexpr size_t kMaxUidBytes = 64;
constexpr size_t kMaxWordBytes = 32;  // a phase, a reason
constexpr size_t kMaxDoingBytes = 64;
constexpr size_t kMaxDecimalBytes = 32;
constexpr size_t kMaxHashBytes = 16;
constexpr size_t kMaxPathBytes = 1024;
constexpr size_t kMaxMessageBytes =
    1024;  // of what is read; a writer is bound by the document's size
constexpr size_t kMaxStderrBytes = 4096;
constexpr size_t kMaxWrittenTextBytes = size_t{64} * 1024;

std::optional<int64_t> count_of(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  if (found->is_number_unsigned() && found->get<uint64_t>() > kMaxCount) return std::nullopt;
  const auto value = found->get<int64_t>();
  if (value < 0 || value > kMaxCount) return std::nullopt;
  return value;
}

std::optional<std::string> text_of(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

bool flag_of(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

// "NaN", "Inf", "-Inf", or digits with an optional sign, fraction and exponent.
bool is_decimal(std::string_view text) {
  if (text.size() > kMaxDecimalBytes) return false;
  if (text == "NaN") return true;
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text == "Inf") return true;
  const auto take_digits = [&] {
    const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
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

std::string line_of(const json& object, const char* name, size_t max_bytes) {
  return printable_line(text_of(object, name).value_or(""), max_bytes);
}

// Nothing for an empty text.
std::optional<std::string> if_any(std::string text) {
  if (text.empty()) return std::nullopt;
  return text;
}

enum class Keep { Start, End };

// Sets `key` to as much of `text` as fits into a document of `max_bytes`.
void put_text(
    nlohmann::ordered_json& object,
    const char* key,
    const std::string& text,
    Keep keep,
    size_t max_bytes
) {
  const std::string whole = printable_ascii(text, kMaxWrittenTextBytes);
  if (whole.empty()) return;
  object[key] = whole;
  // A control character or quote takes two bytes in JSON, so cut by what came out, not by length.
  for (size_t length = whole.size(); object.dump().size() > max_bytes && length > 0;) {
    const size_t over = object.dump().size() - max_bytes;
    length -= std::min(length, std::max<size_t>(over / 2, 1));
    object[key] = whole.substr(keep == Keep::Start ? 0 : whole.size() - length, length);
    object["truncated"] = true;
    if (length == 0) object.erase(key);
  }
}

}  // namespace

std::string encode(const ProgressReport& report, size_t max_bytes) {
  nlohmann::ordered_json object{
      {"contract", contract::kVersion},
      {"job", printable_ascii(report.job, kMaxNameBytes)},
      {"jobUid", printable_ascii(report.job_uid, kMaxUidBytes)},
      {"attempt", report.attempt},
      {"round", report.round},
      {"node", report.node},
  };
  const auto put = [&object](const char* key, const auto& value) {
    if (value) object[key] = *value;
  };
  const auto put_word = [&object](const char* key, const std::string& text, size_t longest) {
    if (!text.empty()) object[key] = printable_ascii(text, longest);
  };
  const JobProgress& progress = report.progress;
  put_word("phase", report.phase, kMaxWordBytes);
  put_word("doing", report.doing, kMaxDoingBytes);
  put("percent", report.percent);
  if (report.restarts_nodes) object["restartsNodes"] = true;
  put("awaitedNode", report.awaited_node);
  put("exitCode", report.exit_code);
  put_word("reason", report.reason, kMaxWordBytes);
  put("rank", report.rank);
  put("epoch", progress.epoch);
  put("epochs", progress.epochs);
  put("globalStep", progress.global_step);
  put("loss", progress.loss);
  put_word("metricName", progress.metric_name.value_or(""), kMaxWordBytes);
  put("trainMetric", progress.train_metric);
  put("validationMetric", progress.validation_metric);
  put("testMetric", progress.test_metric);
  put_word("testModel", progress.test_model.value_or(""), kMaxWordBytes);
  put("bestEpoch", progress.best_epoch);
  put("bestMetric", progress.best_metric);
  put("rate", progress.rate);
  put("etaSeconds", progress.eta_seconds);
  put_word("checkpoint", progress.checkpoint.value_or(""), kMaxPathBytes);
  put_word("bestCheckpoint", progress.best_checkpoint.value_or(""), kMaxPathBytes);
  put_word("parametersHash", report.parameters_hash, kMaxHashBytes);
  put("remoteBytesPerStep", report.remote_bytes_per_step);
  put("cacheHitRate", report.cache_hit_rate);
  put("expectedCacheHitRate", report.expected_cache_hit_rate);
  if (report.truncated) object["truncated"] = true;
  put_text(object, "message", report.message, Keep::Start, max_bytes);
  put_text(object, "stderrTail", report.stderr_tail, Keep::End, max_bytes);
  return object.dump();
}

std::optional<ProgressReport> decode_report(std::string_view text) {
  if (text.size() > static_cast<size_t>(contract::kMaxProgressBytes)) return std::nullopt;
  const Result<json> parsed = parse_json(text);
  if (!parsed || !parsed->is_object()) return std::nullopt;
  const json& object = *parsed;
  const auto uid = text_of(object, "jobUid");
  const auto attempt = count_of(object, "attempt");
  const auto round = count_of(object, "round");
  const auto node = count_of(object, "node");
  if (count_of(object, "contract") != contract::kVersion || !uid || !attempt || !round || !node) {
    return std::nullopt;
  }
  ProgressReport report;
  report.job = line_of(object, "job", kMaxNameBytes);
  report.job_uid = printable_line(*uid, kMaxUidBytes);
  report.attempt = *attempt;
  report.round = *round;
  report.node = *node;
  report.phase = line_of(object, "phase", kMaxWordBytes);
  report.doing = line_of(object, "doing", kMaxDoingBytes);
  report.percent = count_of(object, "percent");
  if (report.percent > 100) report.percent.reset();
  report.restarts_nodes = flag_of(object, "restartsNodes");
  report.awaited_node = count_of(object, "awaitedNode");
  report.exit_code = count_of(object, "exitCode");
  report.reason = line_of(object, "reason", kMaxWordBytes);
  report.rank = count_of(object, "rank");
  report.progress.epoch = count_of(object, "epoch");
  report.progress.epochs = count_of(object, "epochs");
  report.progress.global_step = count_of(object, "globalStep");
  report.progress.loss = decimal_of(object, "loss");
  report.progress.metric_name = if_any(line_of(object, "metricName", kMaxWordBytes));
  report.progress.train_metric = decimal_of(object, "trainMetric");
  report.progress.validation_metric = decimal_of(object, "validationMetric");
  report.progress.test_metric = decimal_of(object, "testMetric");
  report.progress.test_model = if_any(line_of(object, "testModel", kMaxWordBytes));
  report.progress.best_epoch = count_of(object, "bestEpoch");
  report.progress.best_metric = decimal_of(object, "bestMetric");
  report.progress.best_checkpoint = if_any(line_of(object, "bestCheckpoint", kMaxPathBytes));
  report.progress.rate = decimal_of(object, "rate");
  report.progress.eta_seconds = count_of(object, "etaSeconds");
  report.progress.checkpoint = if_any(line_of(object, "checkpoint", kMaxPathBytes));
  report.parameters_hash = line_of(object, "parametersHash", kMaxHashBytes);
  report.remote_bytes_per_step = decimal_of(object, "remoteBytesPerStep");
  report.cache_hit_rate = decimal_of(object, "cacheHitRate");
  report.expected_cache_hit_rate = decimal_of(object, "expectedCacheHitRate");
  report.message = line_of(object, "message", kMaxMessageBytes);
  report.stderr_tail = line_of(object, "stderrTail", kMaxStderrBytes);
  report.truncated = flag_of(object, "truncated");
  return report;
}

std::string encode_decimal(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Inf" : "-Inf";
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

}  // namespace gnn::api
