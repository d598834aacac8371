#include "worker/progress/measure.h"

namespace gnn::progress {

Measure accuracy(int64_t correct, int64_t count) {
  Measure measure{.metric = std::string(kAccuracyMetric), .count = count};
  if (count > 0) measure.value = static_cast<double>(correct) / static_cast<double>(count);
  return measure;
}

std::string title_of(const std::string& metric) {
  if (metric == kAccuracyMetric) return "Accuracy";
  if (metric == kAucMetric) return "AUC";
  if (metric == kAveragePrecisionMetric) return "Average Precision";
  if (metric == kMrrMetric) return "MRR";
  if (metric.starts_with("hits@")) return "H" + metric.substr(1);
  return metric;
}

}  // namespace gnn::progress
