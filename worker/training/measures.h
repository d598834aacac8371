#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gnn::training {

// How well scores tell links that exist (positives) from links that do not (negatives). Only the
// order of the scores counts, infinities and denormal numbers included; −0 equals 0. The value is
// NaN where it is undefined, and where a score is NaN. Equal scores give equal bits in any order.

/// Area under the ROC curve, exact: the share of pairs of a positive and a negative in which the
/// positive has the higher score, a tie counting one half. NaN without positives or negatives.
/// O(n log n). At most 2^31 scores of each kind, so that the pairs can be counted.
/// Source: the statistic of Mann and Whitney 1947.
[[nodiscard]] double auc(std::vector<float> positive, std::vector<float> negative);

/// The mean over the positives of the precision at each one's score: the share of positives among
/// all scores that are as high. NaN without positives. O(n log n).
/// Source: scikit-learn's average_precision_score, which gives 0 without positives.
[[nodiscard]] double average_precision(std::vector<float> positive, std::vector<float> negative);

/// The share of positives above the k-th best of all negatives; 1 if there are fewer than k. NaN
/// without positives. O(n).
/// Precondition: k >= 1.
/// Source: OGB's evaluator of link prediction.
[[nodiscard]] double hits_at_k(
    std::span<const float> positive, std::vector<float> negative, int64_t k
);

/// Counts positives by their rank among negatives of their own, from 1 for the best; negatives of the
/// same score share the mean of the ranks that they span with it. Counts of batches and of ranks of
/// a job add up exactly.
class RankCounts {
 public:
  /// `negatives`: of each positive, at least 1.
  explicit RankCounts(int64_t negatives);

  /// Shapes: positive [P], negatives [P, K] by rows, without NaN.
  void add(std::span<const float> positive, std::span<const float> negatives);

  /// [2 K + 1], of the ranks 1, 1.5, 2, and so on.
  [[nodiscard]] std::vector<int64_t>& counts() { return counts_; }
  [[nodiscard]] int64_t positives() const;
  /// The mean of 1 / rank; NaN without positives.
  [[nodiscard]] double mean_reciprocal_rank() const;

 private:
  int64_t negatives_;
  std::vector<int64_t> counts_;
};

}  // namespace gnn::training
