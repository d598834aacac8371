// The accuracy of GIN on IMDB-BINARY beside that of DGL with the same splits and settings. Equal models
// differ by the order of items and by dropout: their means, by less than their standard error.
#include "tests/worker/app/dgl_imdb.h"
#include "tests/worker/app/samples.h"
#include "tests/worker/app/spread.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

namespace gnn::app {
namespace {

TEST(Accuracy, OfTheGinOfDglsTutorialIsDglsOnTheSameSplits) {
  GNN_REQUIRE_TEST_DATA();
  const auto theirs = dgl_imdb("tutorial");
  std::vector<double> dgl_accuracies;
  std::vector<double> our_accuracies;
  for (const double correct : theirs.at("correctBySeed")) {
    const auto job = imdb_sample(
        "imdb-gin.yaml",
        {"training.seed=" + std::to_string(our_accuracies.size()), "training.evaluation.every=0"}
    );
    dgl_accuracies.push_back(correct / theirs.at("total").get<double>());
    const auto result = run_job(job);
    ASSERT_TRUE(result.has_value()) << result.error().message;
    our_accuracies.push_back(result->report.metrics.at("test_accuracy"));
  }
  const Spread dgl = spread_of(dgl_accuracies);
  const Spread ours = spread_of(our_accuracies);
  RecordProperty("dgl", std::to_string(dgl.mean));
  RecordProperty("ours", std::to_string(ours.mean));
  RecordProperty("standard_error", std::to_string(error_of_difference(ours, dgl)));
  EXPECT_NEAR(ours.mean, dgl.mean, error_of_difference(ours, dgl));
}

// Mean accuracy of each fold on its test items over the second half of the epochs, which a single
// epoch's noise moves less than the last one's.
std::vector<double> accuracies_of_folds(const std::vector<std::vector<double>>& by_fold_and_epoch) {
  std::vector<double> means;
  for (const auto& epochs : by_fold_and_epoch) {
    const auto half = epochs.begin() + static_cast<std::ptrdiff_t>(epochs.size() / 2);
    means.push_back(
        std::accumulate(half, epochs.end(), 0.0) / static_cast<double>(epochs.end() - half)
    );
  }
  return means;
}

TEST(Accuracy, OfGinOnImdbBinaryMatchesThePaperAndDglOnTheSameFolds) {
  GNN_REQUIRE_TEST_DATA();
  EpochList list;
  const auto result = run_job(imdb_sample("imdb-gin-folds.yaml"), list);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  for (const auto& [name, value] : result->report.metrics)
    RecordProperty(name, std::to_string(value));
  EXPECT_GE(result->report.metrics.at("test_accuracy"), 0.70);

  const auto theirs = dgl_imdb("folds");
  std::vector<std::vector<double>> dgl_folds;
  std::vector<std::vector<double>> our_folds;
  for (const auto& counts : theirs.at("correctByFoldAndEpoch")) {
    dgl_folds.emplace_back();
    our_folds.emplace_back();
    for (const double correct : counts) {
      dgl_folds.back().push_back(correct / theirs.at("total").get<double>());
      const size_t epoch = (our_folds.size() - 1) * counts.size() + our_folds.back().size();
      our_folds.back().push_back(list.epochs.at(epoch).test.value().value);
    }
  }
  const Spread dgl = spread_of(accuracies_of_folds(dgl_folds));
  const Spread ours = spread_of(accuracies_of_folds(our_folds));
  RecordProperty("dgl", std::to_string(dgl.mean));
  RecordProperty("ours", std::to_string(ours.mean));
  RecordProperty("standard_error", std::to_string(error_of_difference(ours, dgl)));
  EXPECT_NEAR(ours.mean, dgl.mean, error_of_difference(ours, dgl));
}

}  // namespace
}  // namespace gnn::app
