#include "worker/data/generate_bipartite.h"

#include "worker/data/counter_random.h"
#include "worker/data/link_dataset.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <utility>

// Compiled with -ffp-contract=off, as generate.cpp.
namespace gnn::data {
namespace {

// User Behavior Data from Taobao (Tianchi): its users, items and rows. Seven rows in ten thousand are
// outside of the week that is kept, too few to matter here.
constexpr PlantedLinks::Sizes kTaobao{.users = 987'994, .items = 4'162'024, .links = 100'150'807};
// Chosen for largest degrees of about 850 and 30,000 at scale 1, as the original has. It does not say
// how often users come back to an item, nor what its communities are.
constexpr double kUserHub = 0.222;
constexpr double kItemHub = 0.0055;

// The streams of random bits, apart from those of generate.cpp.
constexpr uint64_t kUserOrder = 32;
constexpr uint64_t kItemOrder = 33;
constexpr uint64_t kVisits = 34;
constexpr uint64_t kElsewhere = 35;
constexpr uint64_t kRepeated = 36;
constexpr uint64_t kDraws = 4;  // numbers that a visit takes from its stream

// The grid of logarithms on which auc_ceiling() counts pairs.
constexpr double kStep = 0.004;
constexpr double kLowest = -8.0;  // of a weight, and of a pair's likelihood
constexpr size_t kBins = 8192;

size_t bin_of(double logarithm) {
  const auto bin = static_cast<int64_t>(std::floor((logarithm - kLowest) / kStep));
  return static_cast<size_t>(std::clamp<int64_t>(bin, 0, static_cast<int64_t>(kBins) - 1));
}
double value_of(size_t bin) {
  return kLowest + (static_cast<double>(bin) + 0.5) * kStep;
}

}  // namespace

PlantedLinks::PlantedLinks(const Sizes& sizes, uint64_t seed)
    : sizes_(sizes),
      seed_(seed),
      users_{
          .communities = {sizes.users, kCommunities, CounterRandom(seed, kUserOrder)},
          .law = PowerLaw(kUserHub)
      },
      items_{
          .communities = {sizes.items, kCommunities, CounterRandom(seed, kItemOrder)},
          .law = PowerLaw(kItemHub)
      } {}

PlantedLinks::Visit PlantedLinks::visit(uint64_t index) const {
  const CounterRandom random(seed_, kVisits);
  const Communities& users = users_.communities;
  const Communities& items = items_.communities;
  const uint64_t at = index * kDraws;
  const int64_t home = users.at(random.bits(at));
  const int64_t user = users.place_in(home, users_.law, random.uniform(at + 1));
  const bool stays = random.uniform(at + 2) < kHomophily;
  const int64_t of = stays ? home : items.at(CounterRandom(seed_, kElsewhere).bits(index));
  const int64_t item = items.place_in(of, items_.law, random.uniform(at + 3));
  return {
      .user = users.order[static_cast<size_t>(user)], .item = items.order[static_cast<size_t>(item)]
  };
}

void PlantedLinks::for_each_chunk(const Chunk& chunk) const {
  constexpr int64_t kChunk = 4096;
  std::array<int64_t, kChunk> sources{};
  std::array<int64_t, kChunk> destinations{};
  const CounterRandom repeated(seed_, kRepeated);
  Visit current{};
  for (int64_t begin = 0; begin < sizes_.links; begin += kChunk) {
    const auto count = static_cast<size_t>(std::min(kChunk, sizes_.links - begin));
    for (size_t i = 0; i < count; ++i) {
      const uint64_t link = static_cast<uint64_t>(begin) + i;
      if (link == 0 || repeated.uniform(link) >= kRepeats) {
        current = visit(link);
      }
      sources[i] = current.user;
      destinations[i] = current.item;
    }
    chunk(std::span(sources).first(count), std::span(destinations).first(count));
  }
}

// How likely a pick within the community is this place, relative to a uniform one.
double PlantedLinks::Side::weight(int64_t community, int64_t place) const {
  const auto size = static_cast<double>(communities.size(community));
  const auto before =
      static_cast<double>(place - communities.starts[static_cast<size_t>(community)]);
  return size *
         (law.probability_before((before + 1.0) / size) - law.probability_before(before / size));
}

// What being in the same community does to a pair's likelihood.
double PlantedLinks::factor(int64_t community) const {
  const auto of_all =
      static_cast<double>(sizes_.items) / static_cast<double>(items_.communities.size(community));
  return kHomophily * of_all + (1.0 - kHomophily);
}

double PlantedLinks::likelihood(int64_t user, int64_t item) const {
  const auto place_of = [](const Side& side, int64_t node) {
    const auto found =
        std::find(side.communities.order.begin(), side.communities.order.end(), node);
    return found - side.communities.order.begin();
  };
  const int64_t user_place = place_of(users_, user);
  const int64_t item_place = place_of(items_, item);
  const int64_t home = users_.communities.of(user_place);
  const int64_t of = items_.communities.of(item_place);
  return users_.weight(home, user_place) * items_.weight(of, item_place) *
         (home == of ? factor(home) : 1.0 - kHomophily);
}

// By community: how many nodes have which logarithm of their weight, by bins.
std::vector<std::vector<double>> PlantedLinks::log_weights(const Side& side) const {
  std::vector<std::vector<double>> counts(kCommunities, std::vector<double>(kBins));
  for (int64_t community = 0; community < kCommunities; ++community) {
    const int64_t first = side.communities.starts[static_cast<size_t>(community)];
    for (int64_t i = 0; i < side.communities.size(community); ++i) {
      const double logarithm = std::log(side.weight(community, first + i));
      counts[static_cast<size_t>(community)][bin_of(logarithm)] += 1.0;
    }
  }
  return counts;
}

// How many pairs have which logarithm of their likelihood, by bins.
std::vector<double> PlantedLinks::pairs_by_likelihood() const {
  struct Filled {
    size_t bin;
    double count;
  };
  const auto filled = [](const std::vector<double>& counts) {
    std::vector<Filled> found;
    for (size_t bin = 0; bin < counts.size(); ++bin) {
      if (counts[bin] != 0.0) found.push_back({.bin = bin, .count = counts[bin]});
    }
    return found;
  };
  std::vector<double> pairs(kBins);
  // The logarithms of weights and factor add up.
  const auto add = [&](const std::vector<double>& users,
                       const std::vector<double>& items,
                       double multiplier,
                       double sign) {
    const std::vector<Filled> of_users = filled(users);
    const std::vector<Filled> of_items = filled(items);
    const double shift = std::log(multiplier);
    for (const Filled& user : of_users) {
      const double at_user = value_of(user.bin) + shift;
      for (const Filled& item : of_items) {
        pairs[bin_of(at_user + value_of(item.bin))] += sign * user.count * item.count;
      }
    }
  };
  const std::vector<std::vector<double>> users = log_weights(users_);
  const std::vector<std::vector<double>> items = log_weights(items_);
  std::vector<double> all_users(kBins);
  std::vector<double> all_items(kBins);
  for (size_t community = 0; community < users.size(); ++community) {
    add(users[community], items[community], factor(static_cast<int64_t>(community)), 1.0);
    add(users[community], items[community], 1.0 - kHomophily, -1.0);
    for (size_t bin = 0; bin < kBins; ++bin) {
      all_users[bin] += users[community][bin];
      all_items[bin] += items[community][bin];
    }
  }
  add(all_users, all_items, 1.0 - kHomophily, 1.0);
  return pairs;
}

// A pair x is a visit with probability p(x). Of v visits, each seen with probability k if its repeats
// are counted in, a pair that is none of the links is left with probability exp(-v p): the negatives.
// A held-out link is of an unseen pair with probability g exp(-v k p), where g stands for the repeats
// of its own visit. Seen pairs are links for sure. Of unseen ones the ratio of the two densities is
// p exp(v p (1 - k)) times a constant, which grows with p: ranking by p is best.
double PlantedLinks::auc_ceiling(double seen) const {
  const double unseen_repeats = 1.0 - kRepeats * (1.0 - seen);
  const double visits = static_cast<double>(sizes_.links) * (1.0 - kRepeats);
  const double seen_visits = visits * seen / unseen_repeats;
  const double alone = (1.0 - kRepeats) / unseen_repeats;
  const std::vector<double> pairs = pairs_by_likelihood();
  const double all_pairs = static_cast<double>(sizes_.users) * static_cast<double>(sizes_.items);
  double total = 0.0;
  for (size_t bin = 0; bin < pairs.size(); ++bin) {
    total += pairs[bin] * std::exp(value_of(bin)) / all_pairs;
  }
  double negatives = 0.0;
  double unseen = 0.0;
  double beaten = 0.0;
  for (size_t bin = 0; bin < pairs.size(); ++bin) {
    const double p = std::exp(value_of(bin)) / all_pairs / total;
    const double negative = pairs[bin] * std::exp(-visits * p);
    const double positive = alone * alone * pairs[bin] * p * std::exp(-seen_visits * p);
    beaten += positive * (negatives + 0.5 * negative);
    negatives += negative;
    unseen += positive;
  }
  return 1.0 - unseen + beaten / negatives;
}

Result<DatasetArrays> generate_bipartite(
    const GenerateOptions& options, ArrayStorage& storage, ProgressBar& progress
) {
  const auto scaled = [&](int64_t count) {
    return static_cast<int64_t>(std::llround(static_cast<double>(count) * options.scale));
  };
  const PlantedLinks::Sizes sizes{
      .users = scaled(kTaobao.users), .items = scaled(kTaobao.items), .links = scaled(kTaobao.links)
  };
  constexpr int64_t kFewest = 4 * PlantedLinks::kCommunities;
  if (sizes.users < kFewest) {
    return fail(
        ErrorKind::Configuration,
        "scale " + std::to_string(options.scale) + " leaves " + std::to_string(sizes.users) +
            " users, expected at least " + std::to_string(kFewest)
    );
  }
  if (options.flipped_labels != 0.0) {
    return fail(ErrorKind::Configuration, "flipped labels: links have none, expected 0");
  }
  if (options.feature_dtype != DType::Float32) {
    return fail(ErrorKind::Configuration, "feature type: links have no features, expected none");
  }
  // The orders of users and items.
  GNN_ASSIGN_OR_RETURN(
      const MemoryHold hold,
      storage.hold(
          int64_t{sizeof(int32_t)} * (sizes.users + sizes.items),
          std::to_string(sizes.users + sizes.items) + " generated nodes"
      )
  );
  const PlantedLinks links(sizes, options.seed);
  GNN_ASSIGN_OR_RETURN(
      DatasetArrays dataset,
      link_dataset(
          links,
          {.name = {.source = "user", .relation = "to", .destination = "item"},
           .num_sources = sizes.users,
           .num_destinations = sizes.items},
          storage,
          progress
      )
  );
  dataset.name = std::string(shape_name(options.shape)) + "-synthetic";
  dataset.origin.facts.emplace_back("links", std::to_string(sizes.links));
  // Of the links to test on, after a split that leaves a tenth for it.
  const auto ceiling = static_cast<int64_t>(std::llround(links.auc_ceiling(0.9) * 1000.0));
  dataset.origin.facts.emplace_back(
      "aucCeiling", "0." + std::string(ceiling < 100 ? "0" : "") + std::to_string(ceiling)
  );
  return dataset;
}

}  // namespace gnn::data
