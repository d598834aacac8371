#include "worker/data/communities.h"

#include <cmath>
#include <numeric>
#include <utility>

// Compiled with -ffp-contract=off, as generate.cpp.
namespace gnn::data {

std::vector<int32_t> shuffled_order(int64_t size, const CounterRandom& random) {
  std::vector<int32_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = size - 1; i > 0; --i) {
    std::swap(
        order[static_cast<size_t>(i)],
        order[static_cast<size_t>(random.below(static_cast<uint64_t>(i), i + 1))]
    );
  }
  return order;
}

double PowerLaw::probability_before(double share) const {
  return (std::cbrt(cube_ + share * (1.0 - cube_)) - hub_) / (1.0 - hub_);
}

Communities::Communities(int64_t num_nodes, int64_t num_communities, const CounterRandom& random)
    : order(shuffled_order(num_nodes, random)) {
  divide(num_nodes, num_communities);
}

Communities::Communities(int64_t num_nodes, int64_t num_communities, const Permutation& nodes)
    : shuffle(nodes) {
  divide(num_nodes, num_communities);
}

void Communities::divide(int64_t num_nodes, int64_t num_communities) {
  // In integers, to avoid rounding.
  const int64_t last = std::max<int64_t>(num_communities - 1, 1);
  int64_t total = 0;
  for (int64_t c = 0; c < num_communities; ++c) {
    total += 2 * last - c;
  }
  int64_t sum = 0;
  starts.push_back(0);
  for (int64_t c = 0; c < num_communities; ++c) {
    sum += 2 * last - c;
    starts.push_back(num_nodes * sum / total);
  }
}

}  // namespace gnn::data
