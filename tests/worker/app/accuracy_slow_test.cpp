#include "common/progress_bar.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/app/samples.h"
#include "tests/worker/app/spread.h"
#include "worker/app/import_data.h"
#include "worker/app/inspect_data.h"
#include "worker/data/readers/package_list.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace gnn::app {
namespace {

TEST(Accuracy, OfGraphSageOnArxivsShapeIsNearThePlantedCeiling) {
  // A tenth of the labels is random among 40 classes: 1 - 0.1 · 39/40.
  constexpr double kCeiling = 0.9025;
  const auto result =
      run_job(sample("arxiv-sage.yaml", {"workers.nodes=1", "workers.processesPerNode=1"}));
  ASSERT_TRUE(result.has_value()) << result.error().message;
  const double accuracy = result->report.metrics.at("test_accuracy");
  RecordProperty("test_accuracy", std::to_string(accuracy));
  EXPECT_GE(accuracy, kCeiling - 0.02);
  EXPECT_LE(accuracy, kCeiling + 0.01);
}

TEST(Accuracy, OfTheRedditSampleOnAGraphOfItsShapeIsNearThePlantedCeiling) {
  // A tenth of the labels is random among 41 classes: 1 - 0.1 · 40/41.
  constexpr double kCeiling = 0.9024;
  const auto result = run_job(sample(
      "reddit-sage.yaml",
      {R"(dataset={"format":"Synthetic","synthetic":{"shape":"Reddit","flippedLabels":"0.1"}})",
       "training.epochs=1",
       "training.evaluation.every=1"}
  ));
  ASSERT_TRUE(result.has_value()) << result.error().message;
  for (const auto& [name, value] : result->report.metrics)
    RecordProperty(name, std::to_string(value));
  EXPECT_NEAR(result->report.metrics.at("test_accuracy"), kCeiling, 0.01);
}

// Test accuracies of the seeds 0, 1 and 2.
std::vector<double> accuracies_on_packages(const std::string& folder, const std::string& fanout) {
  std::vector<double> values;
  for (int64_t seed = 0; seed < 3; ++seed) {
    const auto result = run_job(sample(
        "packages-sage.yaml",
        {"dataset.path=" + folder,
         "checkpoint=null",
         "sampling.fanout=" + fanout,
         "training.seed=" + std::to_string(seed)}
    ));
    if (!result) {
      ADD_FAILURE() << result.error().message;
      return {};
    }
    values.push_back(result->report.metrics.at("test_accuracy"));
  }
  return values;
}

TEST(Accuracy, OfGraphSageOnPackagesGainsFromTheEdges) {
  if (!data::run_dumpavail()) GTEST_SKIP() << "this machine has no package index";
  const gnn::testing::TemporaryFolder folder;
  SilentProgressBar silent;
  std::ostringstream out;
  ImportRequest request;
  request.format = ImportFormat::PackageIndex;
  request.output.folder = folder.path("packages");
  const DataConsole console{.out = out, .progress = silent, .dumpavail = &data::run_dumpavail};
  const Status imported = import_data(request, console);
  ASSERT_TRUE(imported.has_value()) << imported.error().message;
  std::ostringstream facts;
  const DataConsole printer{.out = facts, .progress = silent, .dumpavail = &data::run_dumpavail};
  ASSERT_TRUE(inspect_data(request.output.folder, InspectFormat::Json, printer).has_value());
  RecordProperty("data", facts.str());  // with the SHA-256 of the index

  const std::vector<double> with_edges =
      accuracies_on_packages(request.output.folder, "[10,10,10]");
  const std::vector<double> without = accuracies_on_packages(request.output.folder, "[0,0,0]");
  ASSERT_EQ(with_edges.size(), 3U);
  ASSERT_EQ(without.size(), 3U);
  const Spread sage = spread_of(with_edges);
  const Spread mlp = spread_of(without);
  const double error = error_of_difference(sage, mlp);
  RecordProperty("graphsage", std::to_string(sage.mean));
  RecordProperty("mlp", std::to_string(mlp.mean));
  RecordProperty("standard_error", std::to_string(error));
  EXPECT_GE(sage.mean - mlp.mean, 0.02);
  EXPECT_GT(sage.mean - mlp.mean, 3 * error);
}

}  // namespace
}  // namespace gnn::app
