#include "worker/report/record_json.h"

#include "common/api/codec.h"
#include "common/printable.h"
#include "common/rfc3339.h"

#include <nlohmann/json.hpp>

#include <array>
#include <cmath>
#include <utility>

namespace gnn::report {
namespace {

using Json = nlohmann::json;

constexpr int64_t kFormat = 1;
// Up to here a browser's numbers are exact, as those of the reader are.
constexpr int64_t kMaxCount = int64_t{1} << 53;

struct PhaseName {
  const char* name;
  double progress::StepSeconds::*field;
};
constexpr std::array kPhases{
    PhaseName{.name = "wait", .field = &progress::StepSeconds::wait},
    PhaseName{.name = "forward", .field = &progress::StepSeconds::forward},
    PhaseName{.name = "backward", .field = &progress::StepSeconds::backward},
    PhaseName{.name = "reduce", .field = &progress::StepSeconds::reduce},
    PhaseName{.name = "optimizer", .field = &progress::StepSeconds::optimizer},
    PhaseName{.name = "total", .field = &progress::StepSeconds::total},
};

struct EndName {
  AttemptEnd end;
  const char* name;
};
constexpr std::array kEnds{
    EndName{.end = AttemptEnd::Unknown, .name = "Unknown"},
    EndName{.end = AttemptEnd::Complete, .name = "Complete"},
    EndName{.end = AttemptEnd::Stopped, .name = "Stopped"},
    EndName{.end = AttemptEnd::Failed, .name = "Failed"},
};

// Declared first, so that the templates below find them.
Json json_of(double value);
Json json_of(const std::string& text);
Json json_of(const progress::Measure& measure);
Json json_of(const progress::StepSeconds& seconds);
Json json_of(const progress::RowOrigins& rows);
Json json_of(const EpochRecord& epoch);
Json json_of(const RankRecord& rank);
Json json_of(const RankTable& table);
Json json_of(const AttemptRecord& attempt);
Json json_of(const Confusion& confusion);
Json json_of(const DegreeRecord& degrees);
Json json_of(const LabelRecord& labels);
Json json_of(const DataRecord& data);
Json json_of(const Outcome& outcome);

template <class T>
void put(Json& json, const char* name, const std::optional<T>& value) {
  if (value) json[name] = json_of(*value);
}

template <class T>
Json list_of(const std::vector<T>& values) {
  Json json = Json::array();
  for (const T& value : values) json.push_back(json_of(value));
  return json;
}

Json json_of(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

// Texts of the run itself are cut as those that are read: a record is never too long for its reader.
Json json_of(const std::string& text) {
  return printable_line(text, kMaxTextBytes);
}

Json json_of(const progress::Measure& measure) {
  return {
      {"metric", json_of(measure.metric)},
      {"value", json_of(measure.value)},
      {"count", measure.count}
  };
}

Json json_of(const progress::StepSeconds& seconds) {
  Json json = Json::object();
  for (const PhaseName& phase : kPhases) json[phase.name] = json_of(seconds.*phase.field);
  return json;
}

Json json_of(const progress::RowOrigins& rows) {
  return {{"local", rows.local}, {"cache", rows.cache}, {"remote", rows.remote}};
}

Json json_of(const RunFacts& facts) {
  return {
      {"job", json_of(facts.job)},
      {"task", json_of(facts.task)},
      {"model", json_of(facts.model)},
      {"dataset", json_of(facts.dataset)},
      {"evaluation", json_of(facts.evaluation)},
      {"epochs", facts.epochs},
      {"batchSize", facts.batch_size},
  };
}

Json json_of(const EpochRecord& epoch) {
  Json json = {
      {"epoch", epoch.epoch},
      {"steps", epoch.steps},
      {"loss", json_of(epoch.loss)},
      {"seconds", json_of(epoch.seconds)},
      {"train", json_of(epoch.train)},
  };
  put(json, "trainSet", epoch.train_set);
  put(json, "validation", epoch.validation);
  put(json, "test", epoch.test);
  put(json, "learningRate", epoch.learning_rate);
  put(json, "stepSeconds", epoch.step_seconds);
  put(json, "rows", epoch.rows);
  return json;
}

Json json_of(const RankRecord& rank) {
  Json json = {
      {"seconds", json_of(rank.seconds)},
      {"items", rank.items},
      {"sampledEdges", rank.sampled_edges},
  };
  put(json, "rows", rank.rows);
  put(json, "expectedHitRate", rank.expected_hit_rate);
  return json;
}

Json json_of(const RankTable& table) {
  return {
      {"attempt", table.attempt},
      {"firstEpoch", table.first_epoch},
      {"lastEpoch", table.last_epoch},
      {"worldSize", table.world_size},
      {"ranks", list_of(table.ranks)},
  };
}

Json json_of(const AttemptRecord& attempt) {
  Json json = {
      {"jobUid", json_of(attempt.incarnation.job_uid)},
      {"attempt", attempt.incarnation.attempt},
      {"round", attempt.incarnation.round},
      {"worldSize", attempt.world_size},
      {"device", json_of(attempt.device)},
      {"began", format_rfc3339(attempt.began)},
      {"epoch", attempt.epoch},
      {"step", attempt.step},
      {"seen", format_rfc3339(attempt.seen)},
      {"reason", json_of(attempt.reason)},
  };
  for (const EndName& end : kEnds) {
    if (end.end == attempt.end) json["end"] = end.name;
  }
  return json;
}

Json json_of(const Confusion& confusion) {
  return {
      {"numClasses", confusion.num_classes},
      {"classes", confusion.classes},
      {"counts", confusion.counts},
  };
}

Json json_of(const DegreeRecord& degrees) {
  return {
      {"edgeType", json_of(degrees.edge_type)},
      {"nodes", degrees.nodes},
      {"looked", degrees.looked},
      {"most", degrees.most},
      {"counts", degrees.histogram.counts},
  };
}

Json json_of(const LabelRecord& labels) {
  return {
      {"of", json_of(labels.of)},
      {"numClasses", labels.num_classes},
      {"items", labels.items},
      {"looked", labels.looked},
      {"unlabelled", labels.unlabelled},
      {"classes", labels.classes},
      {"counts", labels.counts},
      {"others", labels.others},
  };
}

Json json_of(const DataRecord& data) {
  Json json = {
      {"description", json_of(data.description)},
      {"degrees", list_of(data.degrees)},
  };
  put(json, "labels", data.labels);
  return json;
}

Json json_of(const Outcome& outcome) {
  Json metrics = Json::object();
  for (const auto& [name, value] : outcome.metrics) metrics[name] = json_of(value);
  Json json = {
      {"metrics", std::move(metrics)},
      {"testModel", json_of(outcome.test_model)},
      {"checkpoint", json_of(outcome.checkpoint)},
      {"parametersHash", json_of(outcome.parameters_hash)},
  };
  if (outcome.best_epoch) json["bestEpoch"] = *outcome.best_epoch;
  return json;
}

// Reads the fields of an object. The first thing that is wrong is kept in `wrong`, which all of a
// document's readers share; from then on they give defaults.
class Reader {
 public:
  Reader(const Json& json, std::string path, std::string& wrong)
      : json_(json), path_(std::move(path)), wrong_(wrong) {
    if (!json.is_object()) refuse("", "an object", json);
  }

  [[nodiscard]] bool has(const char* name) const {
    return json_.is_object() && json_.contains(name);
  }

  int64_t count(const char* name) { return count_in(field(name), name); }

  // NaN for null.
  double number(const char* name) {
    const Json& value = field(name);
    if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
    if (value.is_number()) return value.get<double>();
    refuse(name, "a number or null", value);
    return 0;
  }

  std::string text(const char* name) {
    const Json& value = field(name);
    if (value.is_string())
      return printable_line(value.get_ref<const std::string&>(), kMaxTextBytes);
    refuse(name, "a text", value);
    return {};
  }

  TimePoint time(const char* name) {
    const std::string written = text(name);
    const std::optional<TimePoint> time = parse_rfc3339(written);
    if (!time) refuse(name, "a time as 2026-11-21T11:28:56Z", field(name));
    return time.value_or(TimePoint());
  }

  AttemptEnd end(const char* name) {
    const std::string written = text(name);
    for (const EndName& end : kEnds) {
      if (written == end.name) return end.end;
    }
    refuse(name, "Unknown, Complete, Stopped or Failed", field(name));
    return AttemptEnd::Unknown;
  }

  Reader object(const char* name) { return {field(name), path_of(name), wrong_}; }

  // `read` of the object, if it is there.
  template <class Read>
  auto optional(const char* name, const Read& read)
      -> std::optional<decltype(read(std::declval<Reader&>()))> {
    if (!has(name)) return std::nullopt;
    Reader inner = object(name);
    return read(inner);
  }

  template <class Read>
  auto list(const char* name, size_t most, const Read& read)
      -> std::vector<decltype(read(std::declval<Reader&>()))> {
    std::vector<decltype(read(std::declval<Reader&>()))> values;
    const Json& json = array(name, most);
    for (size_t i = 0; i < json.size() && wrong_.empty(); ++i) {
      Reader inner(json[i], path_of(name) + "[" + std::to_string(i) + "]", wrong_);
      values.push_back(read(inner));
    }
    return values;
  }

  // Numbers from `least` on.
  std::vector<int64_t> counts(const char* name, size_t most, int64_t least = 0) {
    std::vector<int64_t> values;
    for (const Json& value : array(name, most)) values.push_back(count_in(value, name, least));
    return values;
  }

  template <class Take>
  void numbers(const char* name, size_t most, const Take& take) {
    const Json& json = field(name);
    if (!json.is_object() || json.size() > most)
      return refuse(name, "an object of at most " + std::to_string(most) + " numbers", json);
    Reader inner(json, path_of(name), wrong_);
    for (const auto& [key, value] : json.items()) take(key, inner.number(key.c_str()));
  }

  void expect(bool holds, const char* name, const std::string& expected) {
    if (!holds) refuse(name, expected, field(name));
  }

 private:
  const Json& field(const char* name) {
    static const Json none;
    if (has(name)) return json_.at(name);
    if (wrong_.empty()) wrong_ = path_of(name) + ": required field is missing";
    return none;
  }

  int64_t count_in(const Json& value, const char* name, int64_t least = 0) {
    if (value.is_number_integer()) {
      const bool large = value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{kMaxCount};
      const int64_t number = large ? kMaxCount + 1 : value.get<int64_t>();
      if (number >= least && number <= kMaxCount) return number;
    }
    refuse(name, "a whole number from " + std::to_string(least) + " to 2^53", value);
    return 0;
  }

  const Json& array(const char* name, size_t most) {
    static const Json none = Json::array();
    const Json& json = field(name);
    if (json.is_array() && json.size() <= most) return json;
    refuse(name, "a list of at most " + std::to_string(most), json);
    return none;
  }

  [[nodiscard]] std::string path_of(const std::string& name) const {
    if (path_.empty()) return name;
    return name.empty() ? path_ : path_ + "." + name;
  }

  void refuse(const char* name, const std::string& expected, const Json& found) {
    if (!wrong_.empty()) return;
    const std::string shown = found.is_structured() ? std::string(found.type_name()) + " of " +
                                                          std::to_string(found.size())
                                                    : printable_line(found.dump(), 60);
    wrong_ = printable_line(path_of(name), 120) + ": expected " + expected + ", found " + shown;
  }

  const Json& json_;
  std::string path_;
  std::string& wrong_;
};

progress::Measure read_measure(Reader& json) {
  return {
      .metric = json.text("metric"), .value = json.number("value"), .count = json.count("count")
  };
}

progress::StepSeconds read_seconds(Reader& json) {
  progress::StepSeconds seconds;
  for (const PhaseName& phase : kPhases) seconds.*phase.field = json.number(phase.name);
  return seconds;
}

progress::RowOrigins read_rows(Reader& json) {
  return {
      .local = json.count("local"), .cache = json.count("cache"), .remote = json.count("remote")
  };
}

std::optional<double> read_if_there(Reader& json, const char* name) {
  if (!json.has(name)) return std::nullopt;
  return json.number(name);
}

RunFacts read_facts(Reader json) {
  return {
      .job = json.text("job"),
      .task = json.text("task"),
      .model = json.text("model"),
      .dataset = json.text("dataset"),
      .evaluation = json.text("evaluation"),
      .epochs = json.count("epochs"),
      .batch_size = json.count("batchSize"),
  };
}

EpochRecord read_epoch(Reader& json) {
  return {
      .epoch = json.count("epoch"),
      .steps = json.count("steps"),
      .loss = json.number("loss"),
      .seconds = json.number("seconds"),
      .train = json.optional("train", &read_measure).value_or(progress::Measure()),
      .train_set = json.optional("trainSet", &read_measure),
      .validation = json.optional("validation", &read_measure),
      .test = json.optional("test", &read_measure),
      .learning_rate = read_if_there(json, "learningRate"),
      .step_seconds = json.optional("stepSeconds", &read_seconds),
      .rows = json.optional("rows", &read_rows),
  };
}

RankRecord read_rank(Reader& json) {
  Reader seconds = json.object("seconds");
  return {
      .seconds = read_seconds(seconds),
      .items = json.count("items"),
      .sampled_edges = json.count("sampledEdges"),
      .rows = json.optional("rows", &read_rows),
      .expected_hit_rate = read_if_there(json, "expectedHitRate"),
  };
}

RankTable read_ranks(Reader& json) {
  return {
      .attempt = json.count("attempt"),
      .first_epoch = json.count("firstEpoch"),
      .last_epoch = json.count("lastEpoch"),
      .world_size = json.count("worldSize"),
      .ranks = json.list("ranks", kMaxRanks, &read_rank),
  };
}

AttemptRecord read_attempt(Reader& json) {
  return {
      .incarnation =
          {.job_uid = json.text("jobUid"),
           .attempt = json.count("attempt"),
           .round = json.count("round")},
      .world_size = json.count("worldSize"),
      .device = json.text("device"),
      .began = json.time("began"),
      .epoch = json.count("epoch"),
      .step = json.count("step"),
      .seen = json.time("seen"),
      .end = json.end("end"),
      .reason = json.text("reason"),
  };
}

Confusion read_confusion(Reader& json) {
  Confusion confusion{
      .num_classes = json.count("numClasses"),
      .classes = json.counts("classes", kMaxClasses + 1, -1),
      .counts = json.counts("counts", (kMaxClasses + 1) * (kMaxClasses + 1)),
  };
  const size_t rows = confusion.classes.size();
  json.expect(
      confusion.counts.size() == rows * rows,
      "counts",
      "one number for each pair of " + std::to_string(rows) + " classes"
  );
  return confusion;
}

DegreeRecord read_degrees(Reader& json) {
  return {
      .edge_type = json.text("edgeType"),
      .nodes = json.count("nodes"),
      .looked = json.count("looked"),
      .most = json.count("most"),
      .histogram = {.counts = json.counts("counts", 64)},
  };
}

LabelRecord read_labels(Reader& json) {
  LabelRecord labels{
      .of = json.text("of"),
      .num_classes = json.count("numClasses"),
      .items = json.count("items"),
      .looked = json.count("looked"),
      .unlabelled = json.count("unlabelled"),
      .classes = json.counts("classes", kMaxClasses),
      .counts = json.counts("counts", kMaxClasses),
      .others = json.count("others"),
  };
  json.expect(
      labels.counts.size() == labels.classes.size(), "counts", "one number for each of the classes"
  );
  return labels;
}

DataRecord read_data(Reader& json) {
  return {
      .description = json.text("description"),
      .degrees = json.list("degrees", kMaxEdgeTypes, &read_degrees),
      .labels = json.optional("labels", &read_labels),
  };
}

Outcome read_outcome(Reader& json) {
  constexpr size_t kMaxMetrics = 64;
  Outcome outcome{
      .test_model = json.text("testModel"),
      .checkpoint = json.text("checkpoint"),
      .parameters_hash = json.text("parametersHash"),
  };
  if (json.has("bestEpoch")) outcome.best_epoch = json.count("bestEpoch");
  json.numbers("metrics", kMaxMetrics, [&](const std::string& name, double value) {
    outcome.metrics[printable_line(name, kMaxTextBytes)] = value;
  });
  return outcome;
}

// Epochs come in order, each once.
void expect_order(const RunRecord& record, std::string& wrong) {
  for (size_t i = 1; i < record.epochs.size() && wrong.empty(); ++i) {
    if (record.epochs[i - 1].epoch < record.epochs[i].epoch) continue;
    wrong = "epochs[" + std::to_string(i) + "].epoch: expected more than " +
            std::to_string(record.epochs[i - 1].epoch) + ", found " +
            std::to_string(record.epochs[i].epoch);
  }
}

RunRecord read_record(const Json& document, std::string& wrong) {
  Reader json(document, "", wrong);
  const int64_t format = json.count("format");
  json.expect(
      format == kFormat,
      "format",
      std::to_string(kFormat) + ", which this version of gnn-worker reads"
  );
  RunRecord record;
  if (!wrong.empty()) return record;
  record.facts = read_facts(json.object("facts"));
  record.epochs = json.list("epochs", kMaxEpochs, &read_epoch);
  record.epoch_stride = json.count("epochStride");
  json.expect(record.epoch_stride >= 1, "epochStride", "a whole number from 1");
  record.attempts = json.list("attempts", kMaxAttempts, &read_attempt);
  record.attempts_left_out = json.count("attemptsLeftOut");
  record.ranks = json.optional("ranks", &read_ranks);
  record.confusion = json.optional("confusion", &read_confusion);
  record.data = json.optional("data", &read_data);
  record.outcome = json.optional("outcome", &read_outcome);
  expect_order(record, wrong);
  return record;
}

}  // namespace

Json to_json(const RunRecord& record) {
  Json json = {
      {"format", kFormat},
      {"facts", json_of(record.facts)},
      {"epochs", list_of(record.epochs)},
      {"epochStride", record.epoch_stride},
      {"attempts", list_of(record.attempts)},
      {"attemptsLeftOut", record.attempts_left_out},
  };
  put(json, "ranks", record.ranks);
  put(json, "confusion", record.confusion);
  put(json, "data", record.data);
  put(json, "outcome", record.outcome);
  return json;
}

std::string to_text(const RunRecord& record) {
  return to_json(record).dump() + "\n";
}

Result<RunRecord> parse_record(std::string_view text) {
  const Result<Json> json = api::parse_json(text);
  if (!json) return fail(ErrorKind::Data, json.error().message);
  std::string wrong;
  RunRecord record = read_record(*json, wrong);
  if (!wrong.empty()) return fail(ErrorKind::Data, wrong);
  return record;
}

}  // namespace gnn::report
