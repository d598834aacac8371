#include "worker/tasks/folds.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace gnn::tasks {
namespace {

using progress::EpochReport;
using training::TrainingResult;

// The epochs of a fold that were evaluated.
std::vector<EpochReport> measured(const TrainingResult& fold) {
  std::vector<EpochReport> epochs;
  std::ranges::copy_if(fold.epochs, std::back_inserter(epochs), [](const EpochReport& epoch) {
    return epoch.test.has_value();
  });
  return epochs;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Of a sample: over n - 1.
double standard_deviation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double center = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - center) * (value - center);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

std::vector<double> test_values(const std::vector<std::vector<EpochReport>>& folds, size_t epoch) {
  std::vector<double> values;
  values.reserve(folds.size());
  for (const auto& fold : folds) values.push_back(fold[epoch].test->value);
  return values;
}

double by_validation(const std::vector<EpochReport>& fold) {
  const auto best = std::ranges::max_element(fold, {}, [](const EpochReport& epoch) {
    return epoch.validation->value;
  });
  return best->test->value;
}

}  // namespace

std::map<std::string, double> fold_metrics(std::span<const TrainingResult> results) {
  std::vector<std::vector<EpochReport>> folds;
  size_t epochs = SIZE_MAX;
  for (const TrainingResult& result : results) {
    folds.push_back(measured(result));
    epochs = std::min(epochs, folds.back().size());
  }
  if (folds.empty() || epochs == 0) return {};

  size_t best = 0;
  for (size_t epoch = 1; epoch < epochs; ++epoch) {
    if (mean(test_values(folds, epoch)) > mean(test_values(folds, best))) best = epoch;
  }
  const std::string name = "test_" + folds.front()[best].test->metric;
  const std::vector<double> at_best = test_values(folds, best);
  std::map<std::string, double> metrics = {
      {name, mean(at_best)},
      {name + "_stddev", standard_deviation(at_best)},
      {name + "_epoch", static_cast<double>(folds.front()[best].epoch)},
      {name + "_last_epoch", mean(test_values(folds, epochs - 1))},
  };
  const bool validated = std::ranges::all_of(folds, [](const std::vector<EpochReport>& fold) {
    return std::ranges::all_of(fold, [](const EpochReport& epoch) {
      return epoch.validation.has_value();
    });
  });
  if (!validated) return metrics;
  std::vector<double> chosen;
  chosen.reserve(folds.size());
  for (const auto& fold : folds) chosen.push_back(by_validation(fold));
  metrics[name + "_by_validation"] = mean(chosen);
  return metrics;
}

}  // namespace gnn::tasks
