#include "worker/data/split.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <utility>

namespace gnn::data {
namespace {

// Items with a label, in the order of numpy's permutation of all of them.
std::vector<int64_t> shuffled_labelled(std::span<const int64_t> labels, uint32_t seed) {
  std::vector<int64_t> labelled;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= 0) {
      labelled.push_back(static_cast<int64_t>(i));
    }
  }
  std::vector<int64_t> shuffled;
  for (const int64_t place : numpy_permutation(seed, static_cast<int64_t>(labelled.size()))) {
    shuffled.push_back(labelled[static_cast<size_t>(place)]);
  }
  return shuffled;
}

}  // namespace

std::vector<int64_t> numpy_permutation(uint32_t seed, int64_t n) {
  // RandomState(seed) seeds MT19937 as std::mt19937 does; shuffle() draws bounded numbers by
  // masking and rejecting, from the last element down (numpy/random/mtrand.pyx,
  // legacy-distributions.c).
  std::mt19937 engine(seed);
  const auto next64 = [&engine] {
    const uint64_t high = engine();  // random_interval() takes the high word first
    return (high << 32U) | engine();
  };
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = n - 1; i > 0; --i) {
    const auto largest = static_cast<uint64_t>(i);
    uint64_t mask = largest;
    for (const unsigned shift : {1U, 2U, 4U, 8U, 16U, 32U}) {
      mask |= mask >> shift;
    }
    uint64_t drawn = 0;
    do {
      drawn = (largest <= UINT32_MAX ? uint64_t{engine()} : next64()) & mask;
    } while (drawn > largest);
    std::swap(order[static_cast<size_t>(i)], order[drawn]);
  }
  return order;
}

Result<SplitIdLists> random_split(
    std::span<const int64_t> labels, const Fractions& fractions, uint32_t seed
) {
  const double sum = fractions.train + fractions.validation + fractions.test;
  const auto valid = [](double fraction) { return fraction >= 0.0 && fraction <= 1.0; };
  if (!valid(fractions.train) || !valid(fractions.validation) || !valid(fractions.test) ||
      sum > 1.0 + 1e-9) {
    return fail(
        ErrorKind::Configuration,
        "split: expected fractions in [0, 1] that sum to at most 1, found " +
            std::to_string(fractions.train) + ", " + std::to_string(fractions.validation) + ", " +
            std::to_string(fractions.test)
    );
  }
  const std::vector<int64_t> order = shuffled_labelled(labels, seed);
  const auto total = static_cast<int64_t>(order.size());
  // The small term makes up for rounding, as in 0.29 * 100 = 28.999….
  const auto share = [total](double fraction) {
    return static_cast<int64_t>(fraction * static_cast<double>(total) + 1e-6);
  };
  const int64_t train = share(fractions.train);
  const int64_t validation = share(fractions.validation);
  const int64_t test = sum > 1.0 - 1e-9 ? total - train - validation : share(fractions.test);
  if (train < 1) {
    return fail(
        ErrorKind::Configuration,
        "split: no item is left to train on, of " + std::to_string(total) + " with a label"
    );
  }
  const auto cut = [&order](int64_t begin, int64_t size) {
    return std::vector<int64_t>(order.begin() + begin, order.begin() + begin + size);
  };
  return SplitIdLists{
      .train = cut(0, train),
      .validation = cut(train, validation),
      .test = cut(train + validation, test)
  };
}

Result<SplitIdLists> stratified_fold(
    std::span<const int64_t> labels, const FoldOptions& options, uint32_t seed
) {
  const auto [folds, fold, validation] = options;
  if (folds < 2 || fold < 0 || fold >= folds) {
    return fail(
        ErrorKind::Configuration,
        "split: expected a fold of at least 2, found fold " + std::to_string(fold) + " of " +
            std::to_string(folds)
    );
  }
  if (!(validation >= 0.0 && validation < 1.0)) {
    return fail(
        ErrorKind::Configuration,
        "split: expected a fraction in [0, 1) to validate, found " + std::to_string(validation)
    );
  }
  std::vector<int64_t> order = shuffled_labelled(labels, seed);
  if (static_cast<int64_t>(order.size()) < folds) {
    return fail(
        ErrorKind::Configuration,
        "split: " + std::to_string(order.size()) + " items can't be dealt to " +
            std::to_string(folds) + " folds"
    );
  }
  // Each class is dealt starting at the fold after the previous class's last, so that the sizes of
  // folds differ by at most one.
  std::stable_sort(order.begin(), order.end(), [labels](int64_t a, int64_t b) {
    return labels[static_cast<size_t>(a)] < labels[static_cast<size_t>(b)];
  });
  SplitIdLists lists;
  // Every (1 / validation)-th item outside the test fold validates: as even by class as the folds.
  double due = 0.0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (static_cast<int64_t>(i) % folds == fold) {
      lists.test.push_back(order[i]);
      continue;
    }
    due += validation;
    const bool validates = due >= 1.0 - 1e-9;
    if (validates) due -= 1.0;
    (validates ? lists.validation : lists.train).push_back(order[i]);
  }
  return lists;
}

}  // namespace gnn::data
