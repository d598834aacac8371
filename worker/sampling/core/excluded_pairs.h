#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace gnn::sampling::core {

/// (source, destination) pairs of one relation that a batch must not use as edges, to be looked up
/// by destination. Reused for batch after batch, it stops allocating once it has grown.
/// Threads: safe to read from any thread.
class ExcludedPairs {
 public:
  /// The sources excluded for one destination, ascending.
  class Sources {
   public:
    Sources() = default;
    explicit Sources(std::span<const int64_t> ids) : ids_(ids) {}
    [[nodiscard]] bool empty() const { return ids_.empty(); }
    [[nodiscard]] bool contains(int64_t source) const {
      return std::binary_search(ids_.begin(), ids_.end(), source);
    }

   private:
    std::span<const int64_t> ids_;
  };

  void clear() {
    pairs_.clear();
    sources_.clear();
    slots_.clear();
    marks_.clear();
  }

  /// Adds a pair; build() comes after the last.
  void add(int64_t source, int64_t destination) { pairs_.emplace_back(destination, source); }

  void build() {
    std::sort(pairs_.begin(), pairs_.end());
    sources_.resize(pairs_.size());
    size_t capacity = 16;
    while (capacity < 2 * pairs_.size()) capacity *= 2;
    slots_.assign(capacity, {});
    marks_.assign(capacity * kMarksPerSlot / 64, 0);
    for (size_t begin = 0, end = 0; begin < pairs_.size(); begin = end) {
      const int64_t destination = pairs_[begin].first;
      for (; end < pairs_.size() && pairs_[end].first == destination; ++end)
        sources_[end] = pairs_[end].second;
      slots_[slot_of(destination)] = {destination, begin, end};
      marks_[mark_of(destination) / 64] |= uint64_t{1} << mark_of(destination) % 64;
    }
  }

  [[nodiscard]] bool empty() const { return pairs_.empty(); }
  /// (destination, source), ascending. Only after build().
  [[nodiscard]] std::span<const std::pair<int64_t, int64_t>> pairs() const { return pairs_; }

  /// Only after build().
  [[nodiscard]] Sources of(int64_t destination) const {
    if ((marks_[mark_of(destination) / 64] >> mark_of(destination) % 64 & 1U) == 0)
      return Sources();
    const Slot& slot = slots_[slot_of(destination)];
    return Sources(std::span(sources_).subspan(slot.begin, slot.end - slot.begin));
  }

 private:
  struct Slot {
    int64_t destination = 0;
    size_t begin = 0;
    size_t end = 0;  // equal to begin: the slot is free
  };

  // Most destinations have nothing excluded: one bit, which stays in the first-level cache, says so
  // of nearly all of them.
  static constexpr size_t kMarksPerSlot = 8;

  [[nodiscard]] static size_t hash(int64_t destination) {
    return (static_cast<uint64_t>(destination) * 0x9E3779B97F4A7C15U) >> 24U;
  }
  [[nodiscard]] size_t mark_of(int64_t destination) const {
    return hash(destination) & (marks_.size() * 64 - 1);
  }
  // The slot of `destination`, or the free one where it would go.
  [[nodiscard]] size_t slot_of(int64_t destination) const {
    const size_t mask = slots_.size() - 1;
    size_t at = hash(destination) >> 8U & mask;
    while (slots_[at].begin != slots_[at].end && slots_[at].destination != destination)
      at = (at + 1) & mask;
    return at;
  }

  std::vector<std::pair<int64_t, int64_t>> pairs_;  // (destination, source)
  std::vector<int64_t> sources_;                    // parallel to pairs_
  std::vector<Slot> slots_;                         // at most half of them in use
  std::vector<uint64_t> marks_;                     // bits by hash: of what has a slot, all are set
};

}  // namespace gnn::sampling::core
