#pragma once

#include "worker/training/trainer.h"

#include <map>
#include <span>
#include <string>

namespace gnn::tasks {

/// What cross-validation says, from each fold's accuracies by epoch. Test accuracies are means over
/// the folds.
/// - test_accuracy: at the epoch whose mean over the folds is highest (test_accuracy_epoch). The
/// protocol of Xu et al.
///   2019; the epoch is chosen on the test folds, which flatters.
/// - test_accuracy_stddev: over the folds, at that epoch.
/// - test_accuracy_last_epoch: without any choice.
/// - test_accuracy_by_validation: at each fold's epoch of highest validation accuracy (the earliest
/// of equals), where
///   every fold has a validation set.
[[nodiscard]] std::map<std::string, double> fold_metrics(
    std::span<const training::TrainingOutcome> folds
);

}  // namespace gnn::tasks
