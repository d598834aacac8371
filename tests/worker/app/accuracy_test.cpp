#include "tests/worker/app/samples.h"

#include <gtest/gtest.h>

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

TEST(Accuracy, OfTheGinOfDglsTutorialIsReported) {
  GNN_REQUIRE_TEST_DATA();
  const auto result = run_job(
      sample("imdb-gin.yaml", {"dataset.path=" + test_data() + "/IMDBBINARY/IMDBBINARY.txt"})
  );
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->report.epochs, 5);
  // 800 graphs by 32: 25 steps an epoch.
  EXPECT_EQ(result->report.global_steps, 125);
  const double accuracy = result->report.metrics.at("test_accuracy");
  RecordProperty("test_accuracy", std::to_string(accuracy));
  EXPECT_GE(accuracy, 0.3);
  EXPECT_LE(accuracy, 1.0);
}

}  // namespace
}  // namespace gnn::app
