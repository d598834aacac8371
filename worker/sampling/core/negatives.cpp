#include "worker/sampling/core/negatives.h"

#include "worker/sampling/core/draw.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace gnn::sampling::core {

namespace {

// The lanes of the two ends.
constexpr uint32_t kSourceSide = 0;
constexpr uint32_t kDestinationSide = 1;

Result<std::shared_ptr<const AliasTable>> table_of(
    std::span<const int64_t> degrees, const char* side
) {
  std::shared_ptr<const AliasTable> table;
  if (degrees.empty()) return table;
  if (std::all_of(degrees.begin(), degrees.end(), [](int64_t degree) { return degree <= 0; })) {
    return fail(
        ErrorKind::Configuration,
        std::string("sampling.negatives.weights: no ") + side + " has a link to weigh it by"
    );
  }
  std::vector<double> weights;
  weights.reserve(degrees.size());
  for (const int64_t degree : degrees)
    weights.push_back(std::pow(static_cast<double>(degree), kDegreeExponent));
  table = std::make_shared<const AliasTable>(weights);
  return table;
}

int64_t draw_end(const AliasTable* table, int64_t num_nodes, CounterRng& rng) {
  return table != nullptr ? table->draw(rng)
                          : static_cast<int64_t>(rng.below(static_cast<uint64_t>(num_nodes)));
}

}  // namespace

Result<NegativeSampler> NegativeSampler::create(const NegativeOptions& options) {
  if (!std::isfinite(options.amount) || options.amount < 0) {
    return fail(
        ErrorKind::Configuration,
        "sampling.negatives.amount: expected a number of negatives per link, found " +
            std::to_string(options.amount)
    );
  }
  if (options.shape.num_sources < 1 || options.shape.num_destinations < 1)
    return fail(ErrorKind::Configuration, "sampling.negatives: there are no nodes to draw from");
  NegativeSampler sampler;
  sampler.shape_ = options.shape;
  sampler.amount_ = options.amount;
  sampler.avoided_ = options.avoided;
  GNN_ASSIGN_OR_RETURN(sampler.sources_, table_of(options.source_degrees, "source"));
  GNN_ASSIGN_OR_RETURN(sampler.destinations_, table_of(options.destination_degrees, "destination"));
  return sampler;
}

int64_t NegativeSampler::count_for(double amount, int64_t positives) {
  return static_cast<int64_t>(std::ceil(static_cast<double>(positives) * amount));
}

DrawnNegatives NegativeSampler::draw(const StreamPosition& position, int64_t positives) const {
  const Philox4x32::Key key = derive_key(position, StreamPurpose::TrainingNegatives);
  const int64_t count = count_for(positives);
  DrawnNegatives drawn;
  drawn.pairs.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    CounterRng source_rng(key, kSourceSide, static_cast<uint64_t>(i));
    CounterRng destination_rng(key, kDestinationSide, static_cast<uint64_t>(i));
    NodePair pair;
    bool is_link = true;
    for (int tries = 0; is_link && tries < kTries; ++tries) {
      pair.source = draw_end(sources_.get(), shape_.num_sources, source_rng);
      pair.destination = draw_end(destinations_.get(), shape_.num_destinations, destination_rng);
      if (shape_.domain == PairDomain::Ascending && pair.source > pair.destination)
        std::swap(pair.source, pair.destination);
      is_link = avoided_ != nullptr && avoided_->contains(pair);
    }
    drawn.links += is_link ? 1 : 0;
    drawn.pairs.push_back(pair);
  }
  return drawn;
}

std::vector<NodePair> draw_ranking_negatives(
    const PairSet& links, int64_t source, int64_t count, uint64_t seed, int64_t place
) {
  const int64_t num_free = links.num_free_of(source);
  std::vector<int64_t> ranks(static_cast<size_t>(count));
  if (count == num_free) {
    for (int64_t i = 0; i < count; ++i) ranks[static_cast<size_t>(i)] = i;
  } else {
    const Philox4x32::Key key = derive_key({.seed = seed}, StreamPurpose::RankingNegatives);
    const CounterRng rng(key, 0, static_cast<uint64_t>(place));
    NeighborDraw(count).distinct(rng, num_free, count, 0, ranks.data());
  }
  std::vector<NodePair> pairs;
  pairs.reserve(ranks.size());
  for (const int64_t rank : ranks) pairs.push_back(links.free_pair_of(source, rank));
  return pairs;
}

}  // namespace gnn::sampling::core
