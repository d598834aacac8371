#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/data/array.h"
#include "worker/data/communities.h"
#include "worker/data/csc_builder.h"
#include "worker/data/dataset_arrays.h"
#include "worker/data/generate.h"

#include <cstdint>
#include <vector>

namespace gnn::data {

/// The planted links of a generated bipartite graph, in the order of their ids. Users and items
/// belong to communities, which they share.
/// - A visit is a user, picked by a power law, and an item: with probability kHomophily of the user's
///   community, else of any, in both cases by a power law.
/// - A link is a new visit with probability 1 - kRepeats, else the one before once more, so that
///   users come back to items.
class PlantedLinks final : public EdgeSource {
 public:
  static constexpr double kRepeats = 0.25;
  static constexpr int64_t kCommunities = 64;

  struct Sizes {
    int64_t users;
    int64_t items;
    int64_t links;
  };
  /// Users and items: at least one for each community.
  PlantedLinks(const Sizes& sizes, uint64_t seed);

  [[nodiscard]] int64_t num_edges() const override { return sizes_.links; }
  void for_each_chunk(const Chunk& chunk) const override;

  /// How likely a visit is this pair, relative to a pair picked uniformly: the best score for links.
  [[nodiscard]] double likelihood(int64_t user, int64_t item) const;

  /// The best AUC that any scorer can reach on links that were held out at random, against pairs
  /// that are no link: it knows how likely each pair is, and which pairs are among the share `seen`
  /// of the links that it was shown, in [0, 1]. Within 0.001 of the expected value.
  [[nodiscard]] double auc_ceiling(double seen) const;

 private:
  struct Visit {
    int64_t user;
    int64_t item;
  };
  struct Side {
    Communities communities;
    PowerLaw law;
    [[nodiscard]] double weight(int64_t community, int64_t place) const;
  };
  [[nodiscard]] Visit visit(uint64_t index) const;
  [[nodiscard]] double factor(int64_t community) const;
  [[nodiscard]] std::vector<std::vector<double>> log_weights(const Side& side) const;
  [[nodiscard]] std::vector<double> pairs_by_likelihood() const;

  Sizes sizes_;
  uint64_t seed_;
  Side users_;
  Side items_;
};

/// generate() for Shape::Taobao.
Result<DatasetArrays> generate_bipartite(
    const GenerateOptions& options, ArrayStorage& storage, ProgressBar& progress
);

}  // namespace gnn::data
