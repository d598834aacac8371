#include "worker/sampling/core/alias_table.h"

#include <algorithm>
#include <numeric>

namespace gnn::sampling::core {

AliasTable::AliasTable(std::span<const double> weights) : slots_(weights.size()) {
  // Shares of the mean. Each slot is filled up to 1: what a small index lacks, a large one gives.
  const double mean =
      std::accumulate(weights.begin(), weights.end(), 0.0) / static_cast<double>(weights.size());
  std::vector<double> shares;
  std::vector<size_t> small;
  std::vector<size_t> large;
  shares.reserve(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    shares.push_back(weights[i] / mean);
    (shares[i] < 1 ? small : large).push_back(i);
  }
  while (!small.empty() && !large.empty()) {
    const size_t taker = small.back();
    const size_t giver = large.back();
    small.pop_back();
    auto threshold = static_cast<uint32_t>(std::min(shares[taker] * 0x1p32, 0x1p32 - 1));
    if (weights[taker] > 0) threshold = std::max(threshold, uint32_t{1});
    slots_[taker] = {threshold, static_cast<int64_t>(giver)};
    shares[giver] -= 1 - shares[taker];
    if (shares[giver] < 1) {
      large.pop_back();
      small.push_back(giver);
    }
  }
  // What is left is 1, but for rounding. An index of weight 0 is left only if rounding has used up
  // what others had to give: it goes to the heaviest.
  const auto heaviest = std::max_element(weights.begin(), weights.end()) - weights.begin();
  for (const auto& rest : {small, large}) {
    for (const size_t i : rest)
      slots_[i] = {0, weights[i] > 0 ? static_cast<int64_t>(i) : static_cast<int64_t>(heaviest)};
  }
}

}  // namespace gnn::sampling::core
