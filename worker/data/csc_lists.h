#pragma once

#include "common/progress_bar.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace gnn::data {

// Parts of csc_builder.cpp that the two ways of making lists share.

/// Neighbour lists under construction, or a part of them.
template <class Index>
struct Lists {
  std::span<Index> indices;
  std::span<int64_t> edge_ids;  ///< empty if they are not wanted
};

/// The lists [first, last), which take the places [begin, end) before duplicates are removed.
struct ListRange {
  size_t first = 0;
  size_t last = 0;
  int64_t begin = 0;
  int64_t end = 0;

  [[nodiscard]] size_t size() const { return static_cast<size_t>(end - begin); }
};

/// The lists from `previous.last` on that have at most `most` places, at least one list. ends[v] is
/// the end of list v.
inline ListRange next_range(
    std::span<const int64_t> ends, const ListRange& previous, int64_t most
) {
  ListRange range{
      .first = previous.last, .last = previous.last + 1, .begin = previous.end, .end = previous.end
  };
  while (range.last < ends.size() && ends[range.last] - range.begin <= most) {
    ++range.last;
  }
  range.end = ends[range.last - 1];
  return range;
}

/// Sorts lists and appends them to a result.
template <class Index>
class ListAppender {
 public:
  /// `out`: the whole result. Lists lose their duplicates if `drop_duplicates`. `progress`: begun by the
  /// caller, of as many edges as come.
  ListAppender(const Lists<Index>& out, bool drop_duplicates, ProgressBar& progress)
      : out_(out), drop_duplicates_(drop_duplicates), progress_(progress) {}

  /// Appends the lists of `range`, whose places `lists` holds. begins[v] is where list v begins;
  /// indptr[v] becomes where it does in the result. The two may be the same memory.
  void append(
      const ListRange& range,
      const Lists<Index>& lists,
      std::span<const int64_t> begins,
      std::span<int64_t> indptr
  );

  /// Places of the result that are taken.
  [[nodiscard]] int64_t written() const { return written_; }

 private:
  void sort(const Lists<Index>& list);

  Lists<Index> out_;
  bool drop_duplicates_;
  ProgressBar& progress_;
  int64_t written_ = 0;
  int64_t done_ = 0;                              // edges that came, duplicates included
  std::vector<std::pair<Index, int64_t>> pairs_;  // memory that is used again
};

template <class Index>
void ListAppender<Index>::sort(const Lists<Index>& list) {
  if (list.edge_ids.empty()) {
    std::sort(list.indices.begin(), list.indices.end());
    return;
  }
  pairs_.clear();
  for (size_t edge = 0; edge < list.indices.size(); ++edge) {
    pairs_.emplace_back(list.indices[edge], list.edge_ids[edge]);
  }
  std::sort(pairs_.begin(), pairs_.end());
  for (size_t edge = 0; edge < pairs_.size(); ++edge) {
    list.indices[edge] = pairs_[edge].first;
    list.edge_ids[edge] = pairs_[edge].second;
  }
}

template <class Index>
void ListAppender<Index>::append(
    const ListRange& range,
    const Lists<Index>& lists,
    std::span<const int64_t> begins,
    std::span<int64_t> indptr
) {
  const bool with_ids = !lists.edge_ids.empty();
  int64_t begin = range.begin;
  for (size_t node = range.first; node < range.last; ++node) {
    const int64_t end = node + 1 < range.last ? begins[node + 1] : range.end;
    const auto at = static_cast<size_t>(begin - range.begin);
    const auto count = static_cast<size_t>(end - begin);
    const Lists<Index> list{
        .indices = lists.indices.subspan(at, count),
        .edge_ids = with_ids ? lists.edge_ids.subspan(at, count) : std::span<int64_t>()
    };
    sort(list);
    const int64_t first = written_;
    for (size_t edge = 0; edge < count; ++edge) {
      const Index index = list.indices[edge];
      if (drop_duplicates_ && written_ > first &&
          out_.indices[static_cast<size_t>(written_ - 1)] == index) {
        continue;
      }
      if (with_ids) {
        out_.edge_ids[static_cast<size_t>(written_)] = list.edge_ids[edge];
      }
      out_.indices[static_cast<size_t>(written_++)] = index;
    }
    begin = end;
    indptr[node] = first;
    if ((node & 0xFFFU) == 0) {
      progress_.advance_to(done_ + begin - range.begin);
    }
  }
  done_ += range.end - range.begin;
  progress_.advance_to(done_);
}

}  // namespace gnn::data
