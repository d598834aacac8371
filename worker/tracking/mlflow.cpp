#include "worker/tracking/mlflow.h"

#include "common/api/codec.h"
#include "common/log.h"
#include "common/printable.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

namespace gnn::tracking {
namespace {

using nlohmann::json;

constexpr int64_t kLongestAnswer = 256 * 1024;
constexpr size_t kLongestQuote = 200;
// MLflow's limits of one call, and of a parameter.
constexpr size_t kMetricsOfACall = 1000;
constexpr size_t kParametersOfACall = 100;
constexpr size_t kLongestParameter = 6000;

int64_t milliseconds(TimePoint time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && (std::isalnum(byte) != 0 || c == '-' || c == '_' || c == '.')) {
      encoded += c;
    } else {
      encoded += {'%', kDigits[byte >> 4U], kDigits[byte & 0xFU]};
    }
  }
  return encoded;
}

// `text` with all but letters, digits and `signs` replaced.
std::string only(std::string text, std::string_view signs) {
  std::ranges::replace_if(
      text,
      [signs](unsigned char c) {
        return c >= 0x80 ||
               (std::isalnum(c) == 0 && signs.find(static_cast<char>(c)) == std::string_view::npos);
      },
      '_'
  );
  return text;
}

// MLflow knows fewer signs in names than "hits@10" has.
std::string metric_name(const std::string& name) {
  return only(name, "_-./ ");
}

// Where the answer has a text at `path`, the text.
Result<std::string> text_at(const std::string& answer, const json::json_pointer& path) {
  const json parsed = json::parse(answer, nullptr, false);
  if (parsed.is_discarded() || !parsed.contains(path) || !parsed.at(path).is_string())
    return fail(
        ErrorKind::Data,
        "expected JSON with " + path.to_string() + ", found " +
            printable_line(answer, kLongestQuote)
    );
  return parsed.at(path).get<std::string>();
}

// The word for an error, such as RESOURCE_DOES_NOT_EXIST; empty if there is none.
std::string error_code_of(const std::string& answer) {
  return text_at(answer, json::json_pointer("/error_code")).value_or("");
}

// What another try may change counts as a fault of the network.
ErrorKind kind_of(int status, const std::string& error_code) {
  if (error_code == "RESOURCE_DOES_NOT_EXIST") return ErrorKind::NotFound;
  if (error_code == "RESOURCE_ALREADY_EXISTS") return ErrorKind::Conflict;
  const bool later = status >= 500 || status == 408 || status == 429;
  return later ? ErrorKind::Network : ErrorKind::Data;
}

std::string_view status_of(RunEnd end) {
  switch (end) {
    case RunEnd::Done:
      return "FINISHED";
    case RunEnd::Stopped:
      return "KILLED";
    case RunEnd::Failed:
      break;
  }
  return "FAILED";
}

void collect(
    const std::string& path, const json& value, std::map<std::string, std::string>& parameters
) {
  if (value.is_object()) {
    for (const auto& [name, field] : value.items()) collect(path + "." + name, field, parameters);
    return;
  }
  const std::string text = value.is_string() ? value.get<std::string>() : dump(value);
  parameters[path] = printable_line(text, kLongestParameter);
}

json tag(std::string_view key, const std::string& value) {
  return {{"key", key}, {"value", value}};
}

std::vector<json> metrics_of(std::span<const Record> records) {
  std::vector<json> metrics;
  for (const Record& record : records) {
    for (const Scalar& scalar : record.scalars) {
      if (!std::isfinite(scalar.value)) continue;
      metrics.push_back(
          {{"key", metric_name(scalar.name)},
           {"value", scalar.value},
           {"timestamp", milliseconds(record.time)},
           {"step", record.step}}
      );
    }
  }
  return metrics;
}

// Bodies of log-batch, each with at most `most` of the entries.
std::vector<std::string> batches_of(
    const std::string& run_id, const char* field, const std::vector<json>& entries, size_t most
) {
  std::vector<std::string> bodies;
  for (size_t at = 0; at < entries.size(); at += most) {
    const size_t end = std::min(entries.size(), at + most);
    json batch = json::array();
    for (size_t i = at; i < end; ++i) batch.push_back(entries[i]);
    bodies.push_back(dump({{"run_id", run_id}, {field, std::move(batch)}}));
  }
  return bodies;
}

}  // namespace

Mlflow::Mlflow(Url server, std::string experiment, RunDescription run)
    : server_(std::move(server)), experiment_(std::move(experiment)), run_(std::move(run)) {
  // It stands in a filter.
  run_.job_uid = only(std::move(run_.job_uid), "-_.");
}

Result<std::string> Mlflow::ask(const Call& call, MonotonicPoint deadline) const {
  const Duration left = deadline - MonotonicPoint(std::chrono::steady_clock::now());
  http::Request request{.target = "/api/2.0/mlflow/" + call.target};
  if (!call.body.empty()) {
    request.method = "POST";
    request.content_type = "application/json";
    request.body = call.body;
  }
  auto reply = http::send(server_, request, {.time = left, .body_bytes = kLongestAnswer});
  const std::string what = call.target.substr(0, call.target.find('?'));
  if (!reply) return tl::unexpected(with_context(std::move(reply).error(), what));
  if (reply->status == 200) return std::move(reply->body);
  return fail(
      kind_of(reply->status, error_code_of(reply->body)),
      what + ": status " + std::to_string(reply->status) + ", " +
          printable_line(reply->body, kLongestQuote)
  );
}

Status Mlflow::find_experiment(MonotonicPoint deadline) {
  if (!experiment_id_.empty()) return {};
  const Call find{
      .target = "experiments/get-by-name?experiment_name=" + percent_encoded(experiment_)
  };
  Result<std::string> found = ask(find, deadline);
  if (!found && found.error().kind == ErrorKind::NotFound) {
    const Call make{.target = "experiments/create", .body = dump({{"name", experiment_}})};
    const Result<std::string> made = ask(make, deadline);
    if (made) {
      GNN_ASSIGN_OR_RETURN(experiment_id_, text_at(*made, json::json_pointer("/experiment_id")));
      return {};
    }
    // Another job was faster.
    if (made.error().kind != ErrorKind::Conflict) return tl::unexpected(made.error());
    found = ask(find, deadline);
  }
  if (!found) return tl::unexpected(std::move(found).error());
  GNN_ASSIGN_OR_RETURN(
      experiment_id_, text_at(*found, json::json_pointer("/experiment/experiment_id"))
  );
  return {};
}

Status Mlflow::find_run(MonotonicPoint deadline) {
  const json question{
      {"experiment_ids", {experiment_id_}},
      {"filter", "tags.`gnn.dev/job-uid` = '" + run_.job_uid + "'"},
      {"max_results", 1}
  };
  GNN_ASSIGN_OR_RETURN(
      const std::string answer, ask({.target = "runs/search", .body = dump(question)}, deadline)
  );
  const json runs = json::parse(answer, nullptr, false);
  if (runs.is_object() && runs.value("runs", json::array()).empty()) return make_run(deadline);
  GNN_ASSIGN_OR_RETURN(run_id_, text_at(answer, json::json_pointer("/runs/0/info/run_id")));
  return {};
}

Status Mlflow::make_run(MonotonicPoint deadline) {
  const json run{
      {"experiment_id", experiment_id_},
      {"run_name", run_.job},
      {"start_time", milliseconds(start_)},
      {"tags",
       {tag("mlflow.source.name", "gnn-worker"),
        tag("mlflow.source.type", "JOB"),
        tag("gnn.dev/job", run_.job),
        tag("gnn.dev/namespace", run_.job_namespace),
        tag("gnn.dev/job-uid", run_.job_uid)}}
  };
  GNN_ASSIGN_OR_RETURN(
      const std::string answer, ask({.target = "runs/create", .body = dump(run)}, deadline)
  );
  GNN_ASSIGN_OR_RETURN(run_id_, text_at(answer, json::json_pointer("/run/info/run_id")));
  return {};
}

// The search comes before each try to make a run: one whose answer was lost has made it.
Status Mlflow::begin(TimePoint start, MonotonicPoint deadline) {
  if (begun_) return {};
  if (start_ == TimePoint{}) start_ = start;
  GNN_RETURN_IF_ERROR(find_experiment(deadline));
  if (run_id_.empty()) GNN_RETURN_IF_ERROR(find_run(deadline));
  GNN_RETURN_IF_ERROR(update("RUNNING", deadline));
  GNN_RETURN_IF_ERROR(tell_parameters(deadline));
  begun_ = true;
  return {};
}

Status Mlflow::tell_parameters(MonotonicPoint deadline) {
  std::vector<json> parameters;
  for (const auto& [key, value] : run_.parameters)
    parameters.push_back({{"key", key}, {"value", value}});
  for (std::string& body : batches_of(run_id_, "params", parameters, kParametersOfACall)) {
    const auto told = ask({.target = "runs/log-batch", .body = std::move(body)}, deadline);
    if (told) continue;
    if (told.error().kind != ErrorKind::Data) return tl::unexpected(told.error());
    // MLflow keeps the first value of a parameter, and a job that was changed has another.
    log_warning("MLflow refused parameters", {{"why", told.error().message}});
  }
  return {};
}

Status Mlflow::update(std::string_view status, MonotonicPoint deadline) const {
  json run{{"run_id", run_id_}, {"status", status}};
  if (status != "RUNNING") run["end_time"] = milliseconds(latest_);
  const auto told = ask({.target = "runs/update", .body = dump(run)}, deadline);
  return told ? Status() : tl::unexpected(told.error());
}

Status Mlflow::write(std::span<const Record> records, MonotonicPoint deadline) {
  if (records.empty()) return {};
  GNN_RETURN_IF_ERROR(begin(records.front().time, deadline));
  latest_ = records.back().time;
  for (std::string& body : batches_of(run_id_, "metrics", metrics_of(records), kMetricsOfACall))
    GNN_RETURN_IF_ERROR(ask({.target = "runs/log-batch", .body = std::move(body)}, deadline));
  return {};
}

Status Mlflow::close(RunEnd end, MonotonicPoint deadline) {
  if (!begun_) return {};
  return update(status_of(end), deadline);
}

std::map<std::string, std::string> parameters_of(const api::GnnJobSpec& spec) {
  const json fields = api::encode(spec);
  std::map<std::string, std::string> parameters;
  for (const char* part : {"task", "dataset", "model", "sampling", "training"})
    if (fields.contains(part)) collect(part, fields.at(part), parameters);
  return parameters;
}

}  // namespace gnn::tracking
