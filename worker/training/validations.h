#pragma once

#include "worker/progress/progress_sink.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace gnn::training {

/// What the validations of a training say so far: which epoch is best, and for how long nothing has
/// improved. A function of the reports of its epochs, each counted once: a run that repeats an
/// evaluation after a resume has the same as one that was never stopped.
class Validations {
 public:
  /// An epoch with the best validation.
  struct Best {
    int64_t epoch = 0;
    double value = 0;
    int64_t global_step = 0;  ///< after the epoch
    friend bool operator==(const Best&, const Best&) = default;
  };

  /// Of `metric` alone. Only a rise by more than `min_delta` is an improvement.
  explicit Validations(std::string metric, double min_delta = 0)
      : metric_(std::move(metric)), min_delta_(min_delta) {}

  /// Counts an epoch, unless it or a later one has been counted, it is of another training, or it has
  /// no validation of the metric. Gives whether it is the best now: strictly better than all before,
  /// which NaN never is.
  bool add(const progress::EpochReport& epoch);

  [[nodiscard]] const std::optional<Best>& best() const { return best_; }
  /// How many validations in a row have not improved.
  [[nodiscard]] int64_t without_improvement() const { return without_improvement_; }

 private:
  std::string metric_;
  double min_delta_;
  std::optional<Best> best_;
  std::optional<double> improved_to_;  // the value of the last improvement
  int64_t without_improvement_ = 0;
  int64_t newest_epoch_ = -1;
};

}  // namespace gnn::training
