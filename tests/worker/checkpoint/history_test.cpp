#include "worker/checkpoint/history.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>
#include <string>

namespace gnn::checkpoint {
namespace {

using Json = nlohmann::json;

progress::EpochReport epoch_report() {
  progress::EpochReport epoch;
  epoch.epoch = 3;
  epoch.epochs = 9;
  epoch.steps = 45;
  epoch.average_loss = 0.1 + 0.2;  // no short decimal
  epoch.train = progress::accuracy(7, 10);
  epoch.validation = progress::Measure{.metric = "auc", .value = 0.1 + 0.2, .count = 5};
  epoch.seconds = 1.0 / 3;
  epoch.items = 1234;
  epoch.sampled_edges = int64_t{1} << 60;
  return epoch;
}

// As through a file.
History through_text(const History& history) {
  return history_of(Json::parse(to_json(history).dump()));
}

TEST(History, ComesBackWithAllItsBits) {
  History history{
      .sums = {.loss = std::nextafter(2.0, 3.0), .items = 80, .correct = 41},
      .epochs = {epoch_report()}
  };
  history.epochs[0].train_set = progress::accuracy(6, 9);
  history.epochs[0].test = progress::accuracy(0, 4);
  history.epochs[0].global_step = 180;
  history.sums.weight = 12.5;
  const History found = through_text(history);
  EXPECT_EQ(found.sums.loss, history.sums.loss);
  EXPECT_EQ(found.sums.items, 80);
  EXPECT_EQ(found.sums.correct, 41);
  ASSERT_EQ(found.epochs.size(), 1U);
  const progress::EpochReport& epoch = found.epochs[0];
  EXPECT_EQ(epoch.epoch, 3);
  EXPECT_EQ(epoch.epochs, 9);
  EXPECT_EQ(epoch.steps, 45);
  EXPECT_EQ(epoch.average_loss, 0.1 + 0.2);
  EXPECT_EQ(epoch.train, history.epochs[0].train);
  EXPECT_EQ(epoch.train_set, history.epochs[0].train_set);
  EXPECT_EQ(epoch.validation, history.epochs[0].validation);
  EXPECT_EQ(epoch.test, history.epochs[0].test);
  EXPECT_EQ(epoch.global_step, 180);
  EXPECT_EQ(found.sums.weight, 12.5);
  EXPECT_EQ(epoch.seconds, 1.0 / 3);
  EXPECT_EQ(epoch.items, 1234);
  EXPECT_EQ(epoch.sampled_edges, int64_t{1} << 60);
}

TEST(History, KeepsThatAnEpochWasNotMeasured) {
  const History found = through_text({.sums = {}, .epochs = {progress::EpochReport{}}});
  EXPECT_FALSE(found.epochs.at(0).train_set.has_value());
  EXPECT_FALSE(found.epochs.at(0).validation.has_value());
  EXPECT_FALSE(found.epochs.at(0).test.has_value());
}

TEST(History, ReadsTheCountsOfAnOldCheckpointAsAccuracies) {
  Json json = to_json({.sums = {}, .epochs = {epoch_report()}});
  json["epochs"][0]["train"] = Json::array({7, 10});
  json["epochs"][0]["validation"] = Json::array({1, 3});
  const History found = history_of(json);
  EXPECT_EQ(found.epochs.at(0).train, progress::accuracy(7, 10));
  EXPECT_EQ(found.epochs.at(0).validation, progress::accuracy(1, 3));
}

TEST(History, OfAnOldCheckpointWeighsEachItemOnceAndHasNoStepsOfEpochs) {
  const History found =
      through_text({.sums = {.items = 7, .weight = 7}, .epochs = {epoch_report()}});
  EXPECT_EQ(found.sums.weight, 7);
  Json json = to_json({.sums = {.items = 7, .weight = 7}, .epochs = {epoch_report()}});
  EXPECT_FALSE(json.contains("weight"));
  EXPECT_FALSE(found.epochs.at(0).global_step.has_value());
}

TEST(History, KeepsAMeasureThatIsNoNumber) {
  History history{.sums = {}, .epochs = {epoch_report()}};
  history.epochs[0].test = progress::Measure{.metric = "auc", .count = 4};
  const History found = through_text(history);
  EXPECT_TRUE(std::isnan(found.epochs.at(0).test->value));
  EXPECT_EQ(found.epochs.at(0).test->count, 4);
}

TEST(History, KeepsALossThatIsNoNumber) {
  History history;
  history.sums.loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(through_text(history).sums.loss));
}

TEST(History, NamesWhatIsMissing) {
  for (const char* name : {"loss", "items", "correct", "epochs"}) {
    Json json = to_json({.sums = {}, .epochs = {epoch_report()}});
    json.erase(name);
    try {
      static_cast<void>(history_of(json));
      ADD_FAILURE() << "accepted without " << name;
    } catch (const Json::exception& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
  Json json = to_json({.sums = {}, .epochs = {epoch_report()}});
  json["epochs"][0]["steps"] = "many";
  EXPECT_THROW(static_cast<void>(history_of(json)), Json::exception);
}

}  // namespace
}  // namespace gnn::checkpoint
