#include "worker/checkpoint/history.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace gnn::checkpoint {
namespace {

using Json = nlohmann::json;

// nlohmann prints the shortest decimal that reads back as the same double; NaN has no JSON form.
Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

double number(const Json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

Json encode(const progress::Measure& measure) {
  return {{"metric", measure.metric}, {"value", number(measure.value)}, {"count", measure.count}};
}

progress::Measure decode_measure(const Json& json) {
  // Version 0.1.0 knew the accuracy alone, as [correct, count].
  if (json.is_array())
    return progress::accuracy(json.at(0).get<int64_t>(), json.at(1).get<int64_t>());
  return {
      .metric = json.at("metric").get<std::string>(),
      .value = number(json.at("value")),
      .count = json.at("count").get<int64_t>(),
  };
}

Json encode(const progress::EpochReport& epoch) {
  Json json = {
      {"epoch", epoch.epoch},
      {"epochs", epoch.epochs},
      {"steps", epoch.steps},
      {"averageLoss", number(epoch.average_loss)},
      {"train", encode(epoch.train)},
      {"seconds", number(epoch.seconds)},
      {"items", epoch.items},
      {"sampledEdges", epoch.sampled_edges},
  };
  if (epoch.train_set) json["trainSet"] = encode(*epoch.train_set);
  if (epoch.validation) json["validation"] = encode(*epoch.validation);
  if (epoch.test) json["test"] = encode(*epoch.test);
  if (epoch.global_step) json["globalStep"] = *epoch.global_step;
  return json;
}

progress::EpochReport decode_epoch(const Json& json) {
  progress::EpochReport epoch;
  epoch.epoch = json.at("epoch").get<int64_t>();
  epoch.epochs = json.at("epochs").get<int64_t>();
  epoch.steps = json.at("steps").get<int64_t>();
  epoch.average_loss = number(json.at("averageLoss"));
  epoch.train = decode_measure(json.at("train"));
  epoch.seconds = number(json.at("seconds"));
  epoch.items = json.at("items").get<int64_t>();
  epoch.sampled_edges = json.at("sampledEdges").get<int64_t>();
  if (json.contains("trainSet")) epoch.train_set = decode_measure(json.at("trainSet"));
  if (json.contains("validation")) epoch.validation = decode_measure(json.at("validation"));
  if (json.contains("test")) epoch.test = decode_measure(json.at("test"));
  if (json.contains("globalStep")) epoch.global_step = json.at("globalStep").get<int64_t>();
  return epoch;
}

}  // namespace

Json to_json(const History& history) {
  Json epochs = Json::array();
  for (const progress::EpochReport& epoch : history.epochs) epochs.push_back(encode(epoch));
  Json json = {
      {"loss", number(history.sums.loss)},
      {"items", history.sums.items},
      {"correct", history.sums.correct},
      {"epochs", std::move(epochs)},
  };
  if (history.sums.weight != static_cast<double>(history.sums.items))
    json["weight"] = history.sums.weight;
  return json;
}

History history_of(const Json& json) {
  History history;
  history.sums = {
      .loss = number(json.at("loss")),
      .items = json.at("items").get<int64_t>(),
      .correct = json.at("correct").get<int64_t>(),
  };
  // Without weights of classes each item counts 1.
  history.sums.weight = json.value("weight", static_cast<double>(history.sums.items));
  for (const Json& epoch : json.at("epochs")) history.epochs.push_back(decode_epoch(epoch));
  return history;
}

}  // namespace gnn::checkpoint
