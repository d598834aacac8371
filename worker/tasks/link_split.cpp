#include "worker/tasks/link_split.h"

#include "worker/sampling/core/negatives.h"
#include "worker/sampling/core/pair_set.h"
#include "worker/sampling/core/rng.h"
#include "worker/tasks/values.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gnn::tasks {
namespace {

using sampling::core::CounterRng;
using sampling::core::derive_key;
using sampling::core::NodePair;
using sampling::core::PairDomain;
using sampling::core::PairSet;
using sampling::core::StreamPurpose;

void check(const Links& links) {
  TORCH_CHECK(
      links.pairs.defined() && links.pairs.dim() == 2 && links.pairs.size(1) == 2 &&
          links.pairs.scalar_type() == at::kLong && links.pairs.is_contiguous() &&
          links.pairs.is_cpu(),
      "links must be a contiguous int64 [E, 2] on the CPU"
  );
}

NodePair pair_of(const Links& links, int64_t id) {
  const auto* const pairs = links.pairs.const_data_ptr<int64_t>();
  return {pairs[2 * id], pairs[2 * id + 1]};
}

// Torch's bits for this seed.
at::Tensor permuted(int64_t count, uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::randperm(count, generator, at::TensorOptions().dtype(at::kLong));
}

at::Tensor parts_of(const at::Tensor& order, const data::LinkSplitCounts& counts) {
  at::Tensor parts = at::empty({order.numel()}, at::kByte);
  auto* const part_of = parts.mutable_data_ptr<uint8_t>();
  const auto ids = values_of<int64_t>(order);
  const int64_t held_out = counts.train + counts.validation;
  for (int64_t i = 0; i < order.numel(); ++i) {
    const LinkPart part = i < counts.supervision ? LinkPart::TrainSupervision
                          : i < counts.train     ? LinkPart::TrainMessages
                          : i < held_out         ? LinkPart::Validation
                                                 : LinkPart::Test;
    part_of[ids[static_cast<size_t>(i)]] = static_cast<uint8_t>(part);
  }
  return parts;
}

at::Tensor tensor_of(std::span<const NodePair> pairs) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(pairs.size()), 2}, at::kLong);
  auto* out = tensor.mutable_data_ptr<int64_t>();
  for (const NodePair& pair : pairs) {
    *out++ = pair.source;
    *out++ = pair.destination;
  }
  return tensor;
}

Status draw_negatives(
    const Links& links, uint64_t seed, const data::LinkSplitCounts& counts, LinkSplit& split
) {
  const int64_t validation = counts.validation_negatives;
  const int64_t test = counts.test_negatives;
  const PairDomain domain = links.undirected  ? PairDomain::Ascending
                            : links.same_type ? PairDomain::NoLoops
                                              : PairDomain::All;
  GNN_ASSIGN_OR_RETURN(
      const PairSet taken,
      PairSet::create(
          {.num_sources = links.num_sources,
           .num_destinations = links.num_destinations,
           .domain = domain},
          values_of<int64_t>(links.pairs)
      )
  );
  if (validation + test > taken.num_free()) {
    return fail(
        ErrorKind::Data,
        "dataset.split.negativeRatio: needs " + std::to_string(validation + test) +
            " pairs of nodes without a link, but the graph has only " +
            std::to_string(taken.num_free()) + "; lower it, or validation and test"
    );
  }
  const auto drawn = taken.draw_free(
      validation + test,
      CounterRng(derive_key({.seed = seed}, StreamPurpose::HeldOutNegatives), 0, 0)
  );
  const std::span all(drawn);
  split.validation_negatives = tensor_of(all.first(static_cast<size_t>(validation)));
  split.test_negatives = tensor_of(all.subspan(static_cast<size_t>(validation)));
  return {};
}

// Without negatives.
LinkSplit cut_order(const at::Tensor& order, const data::LinkSplitCounts& counts) {
  LinkSplit split;
  split.order = order;
  split.parts = parts_of(order, counts);
  const int64_t held_out = counts.train + counts.validation;
  split.train_links = order.slice(0, 0, counts.train);
  split.train = counts.supervision > 0 ? order.slice(0, 0, counts.supervision) : split.train_links;
  split.validation = order.slice(0, counts.train, held_out);
  split.test = order.slice(0, held_out);
  return split;
}

// No measure tells links from negatives that are not there.
Status check_negatives(double ratio, int64_t links, int64_t negatives, const char* part) {
  if (!(ratio > 0) || links == 0 || negatives > 0) return {};
  return fail(
      ErrorKind::Configuration,
      "dataset.split.negativeRatio: leaves no negative for the " + std::to_string(links) + " " +
          part + " links; raise it"
  );
}

}  // namespace

Status check_link_split(int64_t links, const LinkSplitOptions& options) {
  const data::LinkSplitCounts counts = data::count_links(options, links);
  if (counts.train <= 0) {
    return fail(
        ErrorKind::Configuration,
        "dataset.split: validation and test leave none of " + std::to_string(links) +
            " links to train on"
    );
  }
  if (counts.supervision >= counts.train) {
    return fail(
        ErrorKind::Configuration,
        "dataset.split.disjointTrain: leaves none of " + std::to_string(counts.train) +
            " training links to pass messages"
    );
  }
  const double ratio = options.negative_ratio;
  GNN_RETURN_IF_ERROR(
      check_negatives(ratio, counts.validation, counts.validation_negatives, "validation")
  );
  return check_negatives(ratio, counts.test, counts.test_negatives, "test");
}

Result<LinkSplit> split_links(const Links& links, const LinkSplitOptions& options) {
  check(links);
  const at::Tensor order = permuted(links.pairs.size(0), options.seed);
  GNN_RETURN_IF_ERROR(check_link_split(order.numel(), options));
  const data::LinkSplitCounts counts = data::count_links(options, order.numel());
  LinkSplit split = cut_order(order, counts);
  GNN_RETURN_IF_ERROR(draw_negatives(links, options.seed, counts, split));
  return split;
}

int64_t split_links_bytes(const Links& links, const LinkSplitOptions& options) {
  // By PairSet a link takes 8 bytes and a source 32; drawing takes at most 64 for each pair.
  constexpr int64_t kBytesPerLink = 8 + sizeof(int64_t) + 1;
  constexpr int64_t kBytesPerSource = 32;
  constexpr int64_t kBytesPerNegative = 64 + 2 * sizeof(int64_t);
  const int64_t count = links.pairs.size(0);
  const data::LinkSplitCounts counts = data::count_links(options, count);
  return count * kBytesPerLink + links.num_sources * kBytesPerSource +
         (counts.validation_negatives + counts.test_negatives) * kBytesPerNegative;
}

LinkSplit split_as_stored(const graph::LinkSplitData& stored) {
  LinkSplit split =
      cut_order(stored.order, data::count_links(stored.options, stored.order.numel()));
  split.validation_negatives = stored.validation_negatives;
  split.test_negatives = stored.test_negatives;
  return split;
}

Result<at::Tensor> ranking_negatives(const Links& links, const RankingOptions& options) {
  check(links);
  const at::Tensor taken_pairs =
      links.undirected ? at::cat({links.pairs, links.pairs.flip({1})}) : links.pairs;
  GNN_ASSIGN_OR_RETURN(
      const PairSet taken,
      PairSet::create(
          {.num_sources = links.num_sources,
           .num_destinations = links.num_destinations,
           .domain = links.same_type ? PairDomain::NoLoops : PairDomain::All},
          values_of<int64_t>(taken_pairs)
      )
  );
  const auto ids = values_of<int64_t>(options.ids);
  at::Tensor negatives = at::empty({options.ids.numel(), options.count, 2}, at::kLong);
  auto* out = negatives.mutable_data_ptr<int64_t>();
  for (const int64_t id : ids) {
    const int64_t source = pair_of(links, id).source;
    if (taken.num_free_of(source) < options.count) {
      return fail(
          ErrorKind::Data,
          "training.evaluation.negatives: needs " + std::to_string(options.count) +
              " destinations without a link from node " + std::to_string(source) +
              ", but there are only " + std::to_string(taken.num_free_of(source))
      );
    }
    for (NodePair pair : draw_ranking_negatives(taken, source, options.count, options.seed, id)) {
      if (links.undirected && pair.source > pair.destination)
        std::swap(pair.source, pair.destination);
      *out++ = pair.source;
      *out++ = pair.destination;
    }
  }
  return negatives;
}

}  // namespace gnn::tasks
