#include "worker/sampling/core/pair_set.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <string>
#include <utility>

namespace gnn::sampling::core {

namespace {

// Of a shuffled list of ranks, the places that are not where they were.
class Displaced {
 public:
  explicit Displaced(int64_t count)
      : slots_(std::bit_ceil(static_cast<size_t>(count) * 2 + 1)), mask_(slots_.size() - 1) {}

  [[nodiscard]] int64_t at(int64_t place) const {
    const Slot& slot = slots_[find(place)];
    return slot.place == place ? slot.rank : place;
  }
  void put(int64_t place, int64_t rank) { slots_[find(place)] = {place, rank}; }

 private:
  struct Slot {
    int64_t place = -1;
    int64_t rank = 0;
  };

  // The slot of `place`, or the free one where it would go.
  [[nodiscard]] size_t find(int64_t place) const {
    size_t at = (static_cast<uint64_t>(place) * 0x9E3779B97F4A7C15U) >> 20U & mask_;
    while (slots_[at].place >= 0 && slots_[at].place != place) at = (at + 1) & mask_;
    return at;
  }

  std::vector<Slot> slots_;
  size_t mask_;
};

}  // namespace

Result<PairSet> PairSet::create(
    const PairSetShape& shape,
    std::span<const int64_t> pairs,
    std::optional<std::span<const int64_t>> ids
) {
  constexpr int64_t kMaxPairs = int64_t{1} << 62;
  if (shape.num_destinations > 0 && shape.num_sources > kMaxPairs / shape.num_destinations) {
    return fail(
        ErrorKind::Configuration,
        "links: " + std::to_string(shape.num_sources) + " sources and " +
            std::to_string(shape.num_destinations) + " destinations make more than 2^62 pairs"
    );
  }
  const size_t count = ids ? ids->size() : pairs.size() / 2;
  const auto id_of = [&](size_t i) { return ids ? (*ids)[i] : static_cast<int64_t>(i); };
  const auto pair_of = [&](size_t i) {
    const auto at = static_cast<size_t>(id_of(i)) * 2;
    NodePair pair{pairs[at], pairs[at + 1]};
    if (shape.domain == PairDomain::Ascending && pair.source > pair.destination)
      std::swap(pair.source, pair.destination);
    return pair;
  };
  PairSet set(shape);
  std::vector<int64_t> counts(static_cast<size_t>(shape.num_sources));
  for (size_t i = 0; i < count; ++i) {
    const NodePair pair = pair_of(i);
    if (pair.source < 0 || pair.source >= shape.num_sources || pair.destination < 0 ||
        pair.destination >= shape.num_destinations) {
      return fail(
          ErrorKind::Data,
          "link " + std::to_string(id_of(i)) + ": expected a pair of nodes below " +
              std::to_string(shape.num_sources) + " and " + std::to_string(shape.num_destinations) +
              ", found " + std::to_string(pair.source) + " and " + std::to_string(pair.destination)
      );
    }
    ++counts[static_cast<size_t>(pair.source)];
  }
  // A counting sort by source. In the domain NoLoops the loops are in the rows, as if they were
  // links: so no rank leads to one.
  const bool with_loops = shape.domain == PairDomain::NoLoops;
  set.offsets_.resize(counts.size() + 1);
  for (size_t source = 0; source < counts.size(); ++source) {
    set.offsets_[source + 1] = set.offsets_[source] + counts[source] + (with_loops ? 1 : 0);
    counts[source] = set.offsets_[source];
  }
  set.destinations_.resize(static_cast<size_t>(set.offsets_.back()));
  const auto put = [&](const NodePair& pair) {
    int64_t& next = counts[static_cast<size_t>(pair.source)];
    set.destinations_[static_cast<size_t>(next++)] = pair.destination;
  };
  for (size_t i = 0; i < count; ++i) put(pair_of(i));
  for (int64_t node = 0; with_loops && node < shape.num_sources; ++node) put({node, node});
  set.sort_rows();
  return set;
}

// Sorts each row, and closes the gaps that repeated pairs and those outside the domain leave.
void PairSet::sort_rows() {
  const auto begin = destinations_.begin();
  free_before_.assign(1, 0);
  free_before_.reserve(offsets_.size());
  auto out = begin;
  for (int64_t source = 0; source < shape_.num_sources; ++source) {
    const auto at = static_cast<size_t>(source);
    const auto first = begin + offsets_[at];
    const auto last = begin + offsets_[at + 1];
    offsets_[at] = out - begin;
    std::sort(first, last);
    const auto row_end = std::unique(first, last);
    out = std::move(std::lower_bound(first, row_end, first_of(source)), row_end, out);
    const int64_t links = out - begin - offsets_[at];
    free_before_.push_back(
        free_before_.back() + shape_.num_destinations - first_of(source) - links
    );
  }
  offsets_.back() = out - begin;
  destinations_.erase(out, destinations_.end());
}

std::span<const int64_t> PairSet::row(int64_t source) const {
  const auto at = static_cast<size_t>(source);
  return {destinations_.data() + offsets_[at], destinations_.data() + offsets_[at + 1]};
}

bool PairSet::contains(const NodePair& pair) const {
  if (pair.destination < first_of(pair.source)) return true;
  const auto links = row(pair.source);
  return std::binary_search(links.begin(), links.end(), pair.destination);
}

int64_t PairSet::num_free_of(int64_t source) const {
  const auto at = static_cast<size_t>(source);
  return free_before_[at + 1] - free_before_[at];
}

NodePair PairSet::free_pair_of(int64_t source, int64_t rank) const {
  // Before the i-th link of the row there are row[i] - first - i free destinations, so that the one
  // of that rank comes after as many links as have at most `rank` of them before.
  const int64_t first = first_of(source);
  const auto links = row(source);
  size_t passed = 0;
  for (size_t left = links.size(); left > 0;) {
    const size_t half = left / 2;
    if (links[passed + half] - first - static_cast<int64_t>(passed + half) <= rank) {
      passed += half + 1;
      left -= half + 1;
    } else {
      left = half;
    }
  }
  return {source, first + rank + static_cast<int64_t>(passed)};
}

NodePair PairSet::free_pair(int64_t rank) const {
  const auto after = std::upper_bound(free_before_.begin(), free_before_.end(), rank);
  const int64_t source = after - free_before_.begin() - 1;
  return free_pair_of(source, rank - *(after - 1));
}

std::vector<NodePair> PairSet::draw_free(int64_t count, CounterRng rng) const {
  // The first steps of Fisher-Yates over all ranks; only the displaced ones are kept.
  Displaced ranks(count);
  std::vector<NodePair> drawn;
  drawn.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t place =
        i + static_cast<int64_t>(rng.below(static_cast<uint64_t>(num_free() - i)));
    drawn.push_back(free_pair(ranks.at(place)));
    ranks.put(place, ranks.at(i));
  }
  return drawn;
}

}  // namespace gnn::sampling::core
