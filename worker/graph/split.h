#pragma once

#include "common/result.h"

#include <cstdint>
#include <span>
#include <vector>

namespace gnn::graph {

/// numpy.random.RandomState(seed).permutation(n), bit for bit: what DGL's split_dataset uses.
std::vector<int64_t> numpy_permutation(uint32_t seed, int64_t n);

struct SplitIdLists {
  std::vector<int64_t> train;
  std::vector<int64_t> validation;
  std::vector<int64_t> test;
};

/// Permutes the items that have a label and cuts them at the fractions, sizes rounded down;
/// fractions that sum to 1 leave the remainder to the test part, as DGL's split_dataset does.
/// Errors: Configuration for fractions outside [0, 1] or summing to more than 1, or no item to
/// train on.
struct Fractions {
  double train = 0;
  double validation = 0;
  double test = 0;
};
Result<SplitIdLists> random_split(
    std::span<const int64_t> labels, const Fractions& fractions, uint32_t seed
);

/// Deals the items of each class to `folds` folds in an order drawn by `seed`; fold `fold` is the
/// test part, the fraction `validation` of the others, class by class, the validation part, and the
/// rest trains. Errors: Configuration for fewer than 2 folds, a fold outside [0, folds), fewer
/// items than folds, a fraction outside [0, 1).
struct FoldOptions {
  int64_t folds = 10;
  int64_t fold = 0;
  double validation = 0;
};
Result<SplitIdLists> stratified_fold(
    std::span<const int64_t> labels, const FoldOptions& options, uint32_t seed
);

}  // namespace gnn::graph
