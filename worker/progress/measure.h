#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace gnn::progress {

inline constexpr std::string_view kAccuracyMetric = "accuracy";
inline constexpr std::string_view kAucMetric = "auc";
inline constexpr std::string_view kAveragePrecisionMetric = "average_precision";
inline constexpr std::string_view kMrrMetric = "mrr";

/// How good the answers of all ranks are together: never a mean of the ranks' means.
struct Measure {
  std::string metric{};  ///< one of the names above, or "hits@K"
  /// Between 0 and 1, higher is better; NaN where the metric is undefined.
  double value = std::numeric_limits<double>::quiet_NaN();
  /// What it is over: items; scores of links, or of Hits@K and MRR positives alone.
  int64_t count = 0;

  /// NaN is no Measure's equal.
  friend bool operator==(const Measure&, const Measure&) = default;
};

/// Correct answers among `count`. Sum the counts of batches and ranks first: integers add up
/// exactly, in any order.
[[nodiscard]] Measure accuracy(int64_t correct, int64_t count);

/// The metric for people: "Accuracy", "AUC", "Average Precision", "Hits@10", "MRR"; any other
/// unchanged.
[[nodiscard]] std::string title_of(const std::string& metric);

}  // namespace gnn::progress
