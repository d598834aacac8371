#include "worker/training/measures.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace gnn::training {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

bool has_nan(std::span<const float> scores) {
  return std::ranges::any_of(scores, [](float score) { return std::isnan(score); });
}

// How many of the ascending `scores` before `end`, the highest of which is at most `score`, equal it.
size_t ties_before(std::span<const float> scores, size_t end, float score) {
  size_t begin = end;
  while (begin > 0 && scores[begin - 1] == score) --begin;
  return end - begin;
}

}  // namespace

double auc(std::vector<float> positive, std::vector<float> negative) {
  if (positive.empty() || negative.empty()) return kUndefined;
  if (has_nan(positive) || has_nan(negative)) return kUndefined;
  std::ranges::sort(positive);
  std::ranges::sort(negative);
  uint64_t wins_twice = 0;  // a win counts 2, a tie 1
  size_t less = 0;          // negatives below the score
  size_t not_more = 0;      // negatives below or at the score
  for (const float score : positive) {
    while (less < negative.size() && negative[less] < score) ++less;
    not_more = std::max(not_more, less);
    while (not_more < negative.size() && negative[not_more] == score) ++not_more;
    wins_twice += less + not_more;
  }
  const uint64_t pairs = positive.size() * negative.size();
  return static_cast<double>(wins_twice) / (2.0 * static_cast<double>(pairs));
}

double average_precision(std::vector<float> positive, std::vector<float> negative) {
  if (positive.empty() || has_nan(positive) || has_nan(negative)) return kUndefined;
  std::ranges::sort(positive);
  std::ranges::sort(negative);
  // What is left below the scores seen so far, from the best downwards.
  size_t positives_left = positive.size();
  size_t negatives_left = negative.size();
  double sum = 0;
  while (positives_left > 0) {
    const float score = positive[positives_left - 1];
    while (negatives_left > 0 && negative[negatives_left - 1] >= score) --negatives_left;
    const size_t ties = ties_before(positive, positives_left, score);
    positives_left -= ties;
    const auto found = static_cast<double>(positive.size() - positives_left);
    const auto shown = found + static_cast<double>(negative.size() - negatives_left);
    sum += static_cast<double>(ties) * (found / shown);
  }
  return sum / static_cast<double>(positive.size());
}

double hits_at_k(std::span<const float> positive, std::vector<float> negative, int64_t k) {
  if (positive.empty() || has_nan(positive) || has_nan(negative)) return kUndefined;
  if (static_cast<int64_t>(negative.size()) < k) return 1;
  const auto kth = negative.begin() + (k - 1);
  std::ranges::nth_element(negative, kth, std::greater{});
  const auto hits = std::ranges::count_if(positive, [&](float score) { return score > *kth; });
  return static_cast<double>(hits) / static_cast<double>(positive.size());
}

RankCounts::RankCounts(int64_t negatives)
    : negatives_(negatives), counts_(static_cast<size_t>(2 * negatives + 1)) {}

void RankCounts::add(std::span<const float> positive, std::span<const float> negatives) {
  const auto k = static_cast<size_t>(negatives_);
  for (size_t i = 0; i < positive.size(); ++i) {
    size_t twice_above = 0;
    for (const float score : negatives.subspan(i * k, k))
      twice_above += (score > positive[i] ? 1 : 0) + (score >= positive[i] ? 1 : 0);
    ++counts_[twice_above];
  }
}

int64_t RankCounts::positives() const {
  return std::accumulate(counts_.begin(), counts_.end(), int64_t{0});
}

double RankCounts::mean_reciprocal_rank() const {
  double sum = 0;
  for (size_t twice_above = 0; twice_above < counts_.size(); ++twice_above)
    sum += static_cast<double>(counts_[twice_above]) * 2 / static_cast<double>(twice_above + 2);
  const int64_t all = positives();
  return all == 0 ? kUndefined : sum / static_cast<double>(all);
}

}  // namespace gnn::training
