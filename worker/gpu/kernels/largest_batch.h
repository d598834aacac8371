#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace gnn::gpu {

/// How many of a relation's lists are how long.
class ListLengths {
 public:
  ListLengths() = default;
  /// `indptr`: where each list begins, and where the last ends.
  explicit ListLengths(std::span<const int64_t> indptr) {
    std::map<int64_t, int64_t, std::greater<>> lists;
    for (size_t i = 1; i < indptr.size(); ++i) ++lists[indptr[i] - indptr[i - 1]];
    longest_first_.assign(lists.begin(), lists.end());
  }

  /// The most edges that so many lists have.
  [[nodiscard]] int64_t most_edges(int64_t lists) const {
    int64_t edges = 0;
    for (const auto& [length, count] : longest_first_) {
      const int64_t taken = std::min(lists, count);
      edges += taken * length;
      lists -= taken;
      if (lists == 0) break;
    }
    return edges;
  }

 private:
  std::vector<std::pair<int64_t, int64_t>> longest_first_;  // length, and how many are so long
};

/// The most that a batch of a sampler starts from, and may come to.
struct LargestBatch {
  std::vector<int64_t> seeds{};     ///< per node type, all different
  std::vector<int64_t> excluded{};  ///< pairs per relation; empty: none
  /// Per relation, for hops that take all neighbours; may be empty where none does.
  std::vector<ListLengths> lists{};
  /// It is sampled in steps, where others may have drawn any of its edges.
  bool in_steps = false;
};

}  // namespace gnn::gpu
