#pragma once

#include "worker/training/trainer.h"

#include <map>
#include <span>
#include <string>

namespace gnn::tasks {

/// The result of a cross-validation, from each fold's measures by epoch. The names are those of the
/// accuracy; with another metric, its name takes that place. Values are means over the folds.
/// - test_accuracy: at the epoch whose mean over the folds is highest (test_accuracy_epoch), as in
///   Xu et al. 2019. The test folds choose the epoch, so the number is optimistic.
/// - test_accuracy_stddev: over the folds, at that epoch.
/// - test_accuracy_last_epoch: after the last epoch; nothing is chosen.
/// - test_accuracy_by_validation: at each fold's epoch of highest validation measure, the first of
///   equals. Only if every fold has a validation set.
[[nodiscard]] std::map<std::string, double> fold_metrics(
    std::span<const training::TrainingResult> folds
);

}  // namespace gnn::tasks
