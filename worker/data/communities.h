#pragma once

#include "worker/data/counter_random.h"
#include "worker/data/permutation.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace gnn::data {

/// The order 0 .. size-1 shuffled (Fisher–Yates).
std::vector<int32_t> shuffled_order(int64_t size, const CounterRandom& random);

/// Picks places so that degrees fall as degree^-2.5: with y uniform in [hub, 1), the share
/// t = (y^3 - hub^3) / (1 - hub^3) of a range has density (t + t0)^(-2/3). The smaller `hub`, the
/// larger the degrees of the first places.
class PowerLaw {
 public:
  explicit PowerLaw(double hub) : hub_(hub), cube_(hub * hub * hub) {}

  /// The share of the range that lies before the place; `uniform` in [0, 1).
  [[nodiscard]] double share(double uniform) const {
    const double y = hub_ + uniform * (1.0 - hub_);
    return (y * y * y - cube_) / (1.0 - cube_);
  }
  /// The probability of all places before `share` of the range: the inverse of share().
  [[nodiscard]] double probability_before(double share) const;

 private:
  double hub_;
  double cube_;
};

/// Nodes in an inner order, in which each community is one range of places; `order` or `shuffle` maps
/// it to node ids.
struct Communities {
  std::vector<int64_t> starts;         ///< [C + 1] in the inner order
  std::vector<int32_t> order;          ///< [N], or empty
  std::optional<Permutation> shuffle;  ///< instead of `order`, for more nodes than memory is for

  /// Sizes fall linearly, the first community being twice the last.
  Communities(int64_t num_nodes, int64_t num_communities, const CounterRandom& random);
  Communities(int64_t num_nodes, int64_t num_communities, const Permutation& nodes);

  [[nodiscard]] int64_t node_at(int64_t place) const {
    return shuffle ? shuffle->at(place) : order[static_cast<size_t>(place)];
  }

  [[nodiscard]] int64_t of(int64_t place) const {
    return std::upper_bound(starts.begin(), starts.end(), place) - starts.begin() - 1;
  }
  [[nodiscard]] int64_t size(int64_t community) const {
    return starts[static_cast<size_t>(community) + 1] - starts[static_cast<size_t>(community)];
  }
  /// A community by size, from random bits.
  [[nodiscard]] int64_t at(uint64_t bits) const {
    return of(static_cast<int64_t>(CounterRandom::scale(bits, static_cast<uint64_t>(starts.back())))
    );
  }
  /// A place of the community by the power law.
  [[nodiscard]] int64_t place_in(int64_t community, const PowerLaw& law, double uniform) const {
    const int64_t count = size(community);
    const auto place = static_cast<int64_t>(law.share(uniform) * static_cast<double>(count));
    return starts[static_cast<size_t>(community)] + std::clamp<int64_t>(place, 0, count - 1);
  }

 private:
  void divide(int64_t num_nodes, int64_t num_communities);
};

}  // namespace gnn::data
