#pragma once

#include "common/result.h"
#include "worker/sampling/core/rng.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace gnn::sampling::core {

/// A link's ends.
struct NodePair {
  int64_t source = 0;
  int64_t destination = 0;

  friend bool operator==(const NodePair&, const NodePair&) = default;
  friend auto operator<=>(const NodePair&, const NodePair&) = default;
};

/// Which pairs of nodes can be links.
enum class PairDomain {
  All,        ///< ends of two types
  NoLoops,    ///< ends of one type, and not the same node
  Ascending,  ///< ends of one type without direction: the pairs with source < destination
};

struct PairSetShape {
  int64_t num_sources = 0;
  int64_t num_destinations = 0;
  PairDomain domain = PairDomain::All;
};

/// The links of one edge type as sorted rows by source: tells links from other pairs, and finds the
/// free pairs, those of the domain that are no link, by their rank. 8 bytes per link and 16 per
/// source.
/// Threads: safe to read from any thread.
class PairSet {
 public:
  /// `pairs`: [E, 2] row by row, as sources and destinations; `ids`: the pairs that count, or
  /// std::nullopt for all. In the domain Ascending a pair stands for its reverse too.
  /// Errors: Data naming the first pair with an end outside the shape; Configuration if the shape
  /// has more than 2^62 pairs.
  [[nodiscard]] static Result<PairSet> create(
      const PairSetShape& shape,
      std::span<const int64_t> pairs,
      std::optional<std::span<const int64_t>> ids = std::nullopt
  );

  /// Whether the pair is a link, or outside the domain.
  [[nodiscard]] bool contains(const NodePair& pair) const;

  [[nodiscard]] int64_t num_free() const { return free_before_.back(); }
  /// The free pair of that rank in [0, num_free()), in order of (source, destination).
  [[nodiscard]] NodePair free_pair(int64_t rank) const;

  /// The free pairs of one source, likewise.
  [[nodiscard]] int64_t num_free_of(int64_t source) const;
  [[nodiscard]] NodePair free_pair_of(int64_t source, int64_t rank) const;

  /// `count` distinct free pairs, every ordered choice equally likely.
  /// Requires count <= num_free(). 32 to 64 bytes per pair while it runs.
  [[nodiscard]] std::vector<NodePair> draw_free(int64_t count, CounterRng rng) const;

  [[nodiscard]] const PairSetShape& shape() const { return shape_; }

 private:
  explicit PairSet(const PairSetShape& shape) : shape_(shape) {}

  void sort_rows();
  [[nodiscard]] std::span<const int64_t> row(int64_t source) const;
  // The first destination of a source's domain.
  [[nodiscard]] int64_t first_of(int64_t source) const {
    return shape_.domain == PairDomain::Ascending ? source + 1 : 0;
  }

  PairSetShape shape_;
  std::vector<int64_t> offsets_;       // [num_sources + 1]
  std::vector<int64_t> destinations_;  // of each source, ascending and distinct
  std::vector<int64_t> free_before_;   // [num_sources + 1]: free pairs of the sources before
};

}  // namespace gnn::sampling::core
