#pragma once

#include "common/result.h"
#include "worker/data/array.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace gnn::data {

struct DatasetArrays;

/// How the links of a data set are split at random.
struct LinkSplitOptions {
  double validation = 0;      ///< share of the links
  double test = 0;            ///< likewise
  double disjoint_train = 0;  ///< share of the training links that pass no messages in training
  double negative_ratio = 1;  ///< negatives per link of validation and test
  uint64_t seed = 0;

  friend bool operator==(const LinkSplitOptions&, const LinkSplitOptions&) = default;
};

/// Whether a value may be one of the shares of a split.
inline bool is_share(double value) {
  return value >= 0 && value <= 1;
}

/// The most negatives per link, as of spec.dataset.split.negativeRatio.
inline constexpr double kMostNegativesOfLink = 1000;
inline bool is_negative_ratio(double value) {
  return value >= 0 && value <= kMostNegativesOfLink;
}

/// "seed=3, validation=0.1, …": equal texts for equal options alone.
std::string describe(const LinkSplitOptions& options);
/// How the options that a data set is made with end if its links are split with it.
std::string text_of_split(const LinkSplitOptions& options);

/// Where a permutation of so many links is cut, and how many negatives there are.
struct LinkSplitCounts {
  int64_t train = 0;
  int64_t supervision = 0;  ///< of the training links, those that pass no messages if some don't
  int64_t validation = 0;
  int64_t test = 0;
  int64_t validation_negatives = 0;
  int64_t test_negatives = 0;
};

/// int(share * count) as Python computes it.
inline int64_t share_of(double share, int64_t count) {
  return static_cast<int64_t>(share * static_cast<double>(count));
}

/// `train` is not positive where validation and test leave none.
LinkSplitCounts count_links(const LinkSplitOptions& options, int64_t links);

/// A split that is kept with the partitions of a data set. It was made before nodes were renumbered, so
/// that it does not depend on how they are dealt to parts: links by their ids, which partitioning keeps,
/// and pairs of the same nodes as negatives, under their new ids.
struct StoredLinkSplit {
  LinkSplitOptions options;
  /// int64 [E]: ids of the links, to train on, then of validation, then of test.
  Array order{};
  Array validation_negatives{};  ///< int64 [V, 2]: source and destination
  Array test_negatives{};        ///< int64 [S, 2]
};

inline constexpr const char* kLinkOrderName = "links.split.order";
inline constexpr const char* kValidationNegativesName = "links.split.negatives.validation";
inline constexpr const char* kTestNegativesName = "links.split.negatives.test";

/// Checks that a data set has links for its stored split, if it has one, and that there are as many
/// elements as its options say.
/// Errors: Data.
Status check_link_split_form(const DatasetArrays& dataset, std::string_view where);

/// Checks the elements of a stored split whose form is right: each link once, ends of negatives in
/// range.
/// Errors: Data.
Status check_link_split(const DatasetArrays& dataset, std::string_view where);

}  // namespace gnn::data
