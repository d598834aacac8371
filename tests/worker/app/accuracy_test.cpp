#include "tests/worker/app/dgl_imdb.h"
#include "tests/worker/app/samples.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace gnn::app {
namespace {

std::vector<std::string> cora_with_seed(int64_t seed) {
  return {
      "dataset.path=" + test_data() + "/cora",
      "training.seed=" + std::to_string(seed),
      "training.evaluation.every=0"
  };
}

double metric(const api::GnnJob& job, const std::string& name) {
  const auto result = run_job(job);
  if (!result) {
    ADD_FAILURE() << result.error().message;
    return 0;
  }
  return result->report.metrics.at(name);
}

TEST(Accuracy, OfGcnOnCoraMatchesTheLiterature) {
  GNN_REQUIRE_TEST_DATA();
  double sum = 0;
  for (int64_t seed = 0; seed < 5; ++seed) {
    const double accuracy = metric(sample("cora.yaml", cora_with_seed(seed)), "test_accuracy");
    RecordProperty("seed_" + std::to_string(seed), std::to_string(accuracy));
    sum += accuracy;
  }
  RecordProperty("mean", std::to_string(sum / 5));
  EXPECT_GE(sum / 5, 0.80);
}

// Trains in whole batches, where no order of items matters, from the parameters that the seed also
// gives DGL, and expects DGL's losses but for rounding, which differs between processors and grows
// with every step: relative to them, `tolerance` per step.
void expect_losses(
    const nlohmann::json& by_seed,
    double tolerance,
    const std::string& name,
    const std::vector<std::string>& fields
) {
  for (size_t seed = 0; seed < by_seed.size(); ++seed) {
    SCOPED_TRACE(seed);
    const auto expected = by_seed[seed].get<std::vector<double>>();
    std::vector<std::string> overrides = fields;
    overrides.push_back("training.seed=" + std::to_string(seed));
    overrides.push_back("training.epochs=" + std::to_string(expected.size()));
    overrides.emplace_back("training.evaluation.every=0");
    EpochList list;
    const auto result = run_job(imdb_sample(name, overrides), list);
    ASSERT_TRUE(result.has_value()) << result.error().message;
    ASSERT_EQ(list.epochs.size(), expected.size());
    for (size_t epoch = 0; epoch < expected.size(); ++epoch) {
      EXPECT_EQ(list.epochs[epoch].steps, 1);
      EXPECT_NEAR(
          list.epochs[epoch].average_loss,
          expected[epoch],
          tolerance * static_cast<double>(epoch + 1) * expected[epoch]
      ) << "epoch "
        << epoch;
    }
  }
}

TEST(Losses, OfTheGinOfDglsTutorialAreDglsInEveryStep) {
  GNN_REQUIRE_TEST_DATA();
  expect_losses(
      dgl_imdb("whole-batch").at("tutorialLossBySeedAndEpoch"),
      1e-5,
      "imdb-gin.yaml",
      {"training.batchSize=800"}
  );
}

TEST(Losses, OfThePapersGinAreDglsInEveryStep) {
  GNN_REQUIRE_TEST_DATA();
  expect_losses(
      dgl_imdb("whole-batch").at("foldsLossBySeedAndEpoch"),
      5e-4,
      "imdb-gin-folds.yaml",
      {"training.batchSize=900",
       "dataset.split.fold=0",
       R"(model.gin.dropout="0")",
       R"(training.optimizer={"type": "SGD", "learningRate": "0.00001"})"}
  );
}

}  // namespace
}  // namespace gnn::app
