#pragma once

#include "common/result.h"
#include "worker/sampling/core/alias_table.h"
#include "worker/sampling/core/pair_set.h"
#include "worker/sampling/core/rng.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace gnn::sampling::core {

/// The power of a node's degree that it is weighed by: word2vec's.
inline constexpr double kDegreeExponent = 0.75;

/// How training negatives are drawn.
struct NegativeOptions {
  PairSetShape shape;
  double amount = 1;  ///< negatives per positive
  /// The links of each node to weigh it by, as degree^kDegreeExponent; empty: all nodes alike. Of the
  /// sources and of the destinations.
  std::span<const int64_t> source_degrees = {};
  std::span<const int64_t> destination_degrees = {};
  /// The training links, which are drawn anew if they come up; null: any pair is taken.
  std::shared_ptr<const PairSet> avoided = nullptr;
};

struct DrawnNegatives {
  std::vector<NodePair> pairs;
  int64_t links = 0;  ///< of them, links that kTries draws did not avoid
};

/// Draws the negatives of a training batch: the ends independently, which a link can hit by chance,
/// as PyG's NegativeSampling("binary") does. In the domain Ascending the ends are put in order.
/// Threads: safe on any number of threads.
class NegativeSampler {
 public:
  static constexpr int kTries = 32;

  /// Errors: Configuration naming the field if `amount` is negative or not finite, or if there are
  /// no nodes or no degrees to draw by.
  [[nodiscard]] static Result<NegativeSampler> create(const NegativeOptions& options);

  /// ceil(positives * amount), in double as Python computes it.
  [[nodiscard]] int64_t count_for(int64_t positives) const { return count_for(amount_, positives); }
  /// Of NegativeOptions::amount.
  [[nodiscard]] static int64_t count_for(double amount, int64_t positives);

  /// A function of the position, the options and `positives`: each end of each pair has a stream of
  /// its own.
  [[nodiscard]] DrawnNegatives draw(const StreamPosition& position, int64_t positives) const;

 private:
  NegativeSampler() = default;

  PairSetShape shape_;
  double amount_ = 1;
  std::shared_ptr<const AliasTable> sources_;  // null: uniform
  std::shared_ptr<const AliasTable> destinations_;
  std::shared_ptr<const PairSet> avoided_;
};

/// `count` distinct negatives for one link: its source with destinations that are free in `links`,
/// every choice equally likely, keyed by (seed, the link's place). Requires 0 < count and count <=
/// links.num_free_of(source).
[[nodiscard]] std::vector<NodePair> draw_ranking_negatives(
    const PairSet& links, int64_t source, int64_t count, uint64_t seed, int64_t place
);

}  // namespace gnn::sampling::core
