#pragma once

#include "common/result.h"

#include <cstdint>
#include <span>
#include <vector>

namespace gnn::data {

/// numpy.random.RandomState(seed).permutation(n), bit for bit, as DGL's split_dataset uses it.
std::vector<int64_t> numpy_permutation(uint32_t seed, int64_t n);

struct SplitIdLists {
  std::vector<int64_t> train;
  std::vector<int64_t> validation;
  std::vector<int64_t> test;
};

struct Fractions {
  double train = 0;
  double validation = 0;
  double test = 0;
};
/// Permutes the items that have a label and cuts them at the fractions. Sizes are rounded down; if
/// the fractions sum to 1, the test part takes the remainder, as in DGL's split_dataset.
/// Errors: Configuration for a fraction outside [0, 1], a sum above 1 or an empty train part.
Result<SplitIdLists> random_split(
    std::span<const int64_t> labels, const Fractions& fractions, uint32_t seed
);

struct FoldOptions {
  int64_t folds = 10;
  int64_t fold = 0;
  double validation = 0;
};
/// Deals the items of each class to `folds` folds in an order drawn by `seed`. Fold `fold` is the
/// test part; of the others, the fraction `validation` of each class is the validation part and the
/// rest the train part.
/// Errors: Configuration for fewer than 2 folds, a fold outside [0, folds), fewer items than folds
/// or a fraction outside [0, 1).
Result<SplitIdLists> stratified_fold(
    std::span<const int64_t> labels, const FoldOptions& options, uint32_t seed
);

}  // namespace gnn::data
