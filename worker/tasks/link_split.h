#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/data/link_split.h"
#include "worker/graph/dataset.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace gnn::tasks {

/// The parts of links, in the order in which graph::order_by_part() is to put them: the messages of
/// a part's evaluation are the edges of the parts before it.
enum class LinkPart : uint8_t {
  TrainMessages = 0,     ///< messages always; trained on too unless the split is disjoint
  TrainSupervision = 1,  ///< of a disjoint split: trained on, and no messages in training
  Validation = 2,
  Test = 3,
};
inline constexpr int64_t kNumLinkParts = 4;

/// All links of one edge type.
struct Links {
  /// int64 [E, 2]: source and destination by edge id, contiguous, on the CPU; of undirected links
  /// the smaller node first.
  at::Tensor pairs;
  int64_t num_sources = 0;
  int64_t num_destinations = 0;
  bool same_type = false;  ///< sources and destinations are nodes of one type
  /// Each edge has its reverse, with the same id: a link is both.
  bool undirected = false;
};

using data::LinkSplitOptions;

struct LinkSplit {
  at::Tensor order;        ///< int64 [E], edge ids: to train on, of validation, of test
  at::Tensor parts;        ///< uint8 [E], by edge id: a LinkPart
  at::Tensor train;        ///< int64 [T], edge ids: the links to train on
  at::Tensor train_links;  ///< int64 [T'], edge ids: those and, if it is disjoint, the messages
  at::Tensor validation;   ///< int64 [V], edge ids
  at::Tensor test;         ///< int64 [S], edge ids
  at::Tensor validation_negatives;  ///< int64 [V', 2]
  at::Tensor test_negatives;        ///< int64 [S', 2]
};

/// The edge ids of the links of `part`, and what stands against those of validation and test.
[[nodiscard]] inline const at::Tensor& ids_of(const LinkSplit& split, api::Part part) {
  switch (part) {
    case api::Part::Train:
      return split.train;
    case api::Part::Validation:
      return split.validation;
    case api::Part::Test:
      break;
  }
  return split.test;
}
[[nodiscard]] inline const at::Tensor& negatives_of(const LinkSplit& split, api::Part part) {
  return part == api::Part::Validation ? split.validation_negatives : split.test_negatives;
}

/// Splits as PyG's RandomLinkSplit does, with the links of the same seed in PyTorch: one
/// torch.randperm(E), cut in the order train | validation | test, by counts int(share * E) as Python
/// computes them. Of the training links the first int(disjoint_train * T) pass no messages.
/// Negatives are free in all parts, distinct, and drawn by this project's own generator: V' =
/// int(V * negative_ratio) for the validation first, then the test's. Between nodes of one type no
/// loop is a negative. Undirected links have negatives with source < destination, as with PyG's
/// is_undirected=True.
/// Errors: Configuration naming the field if no link is left to train on, no message, or no negative
/// for a part with links, unless negative_ratio is 0; Data naming
/// the first bad link, and naming dataset.split.negativeRatio if there are too few free pairs.
[[nodiscard]] Result<LinkSplit> split_links(const Links& links, const LinkSplitOptions& options);

/// Whether so many links can be split by these options, as far as their numbers tell.
/// Errors: the first of those above.
[[nodiscard]] Status check_link_split(int64_t links, const LinkSplitOptions& options);

/// Bytes of memory that split_links() takes, its result included.
[[nodiscard]] int64_t split_links_bytes(const Links& links, const LinkSplitOptions& options);

/// A split that was made by its options and kept with a data set, which has been checked.
[[nodiscard]] LinkSplit split_as_stored(const graph::LinkSplitData& stored);

struct RankingOptions {
  at::Tensor ids;     ///< int64 [R], edge ids of the links to rank, contiguous, on the CPU
  int64_t count = 1;  ///< negatives of each, at least 1
  uint64_t seed = 0;
};

/// Negatives to rank links against: distinct destinations that no link of any part joins with the
/// link's source. A link's negatives depend on its edge id and the seed, not on the other links.
/// Shapes: int64 [R, count, 2]; of an undirected pair the smaller node comes first.
/// Errors: Data naming training.evaluation.negatives and the source that has fewer free pairs.
[[nodiscard]] Result<at::Tensor> ranking_negatives(
    const Links& links, const RankingOptions& options
);

}  // namespace gnn::tasks
