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

struct Counts {
  int64_t train = 0;
  int64_t supervision = 0;  // of the training links, if they pass no messages
  int64_t validation = 0;
  int64_t test = 0;
};

// int(share * count) as Python computes it.
int64_t share_of(double share, int64_t count) {
  return static_cast<int64_t>(share * static_cast<double>(count));
}

Result<Counts> count_parts(const LinkSplitOptions& options, int64_t links) {
  Counts counts;
  counts.validation = share_of(options.validation, links);
  counts.test = share_of(options.test, links);
  counts.train = links - counts.validation - counts.test;
  if (counts.train <= 0) {
    return fail(
        ErrorKind::Configuration,
        "dataset.split: validation and test leave none of " + std::to_string(links) +
            " links to train on"
    );
  }
  counts.supervision = share_of(options.disjoint_train, counts.train);
  if (counts.supervision >= counts.train) {
    return fail(
        ErrorKind::Configuration,
        "dataset.split.disjointTrain: leaves none of " + std::to_string(counts.train) +
            " training links to pass messages"
    );
  }
  return counts;
}

// Torch's bits for this seed.
at::Tensor permuted(int64_t count, uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::randperm(count, generator, at::TensorOptions().dtype(at::kLong));
}

at::Tensor parts_of(const at::Tensor& order, const Counts& counts) {
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

// No measure tells links from negatives that are not there.
Status check_negatives(double ratio, int64_t links, const char* part) {
  if (!(ratio > 0) || links == 0 || share_of(ratio, links) > 0) return {};
  return fail(
      ErrorKind::Configuration,
      "dataset.split.negativeRatio: leaves no negative for the " + std::to_string(links) + " " +
          part + " links; raise it"
  );
}

Status draw_negatives(const Links& links, const LinkSplitOptions& options, LinkSplit& split) {
  const int64_t validation = share_of(options.negative_ratio, split.validation.numel());
  const int64_t test = share_of(options.negative_ratio, split.test.numel());
  GNN_RETURN_IF_ERROR(
      check_negatives(options.negative_ratio, split.validation.numel(), "validation")
  );
  GNN_RETURN_IF_ERROR(check_negatives(options.negative_ratio, split.test.numel(), "test"));
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
      CounterRng(derive_key({.seed = options.seed}, StreamPurpose::HeldOutNegatives), 0, 0)
  );
  const std::span all(drawn);
  split.validation_negatives = tensor_of(all.first(static_cast<size_t>(validation)));
  split.test_negatives = tensor_of(all.subspan(static_cast<size_t>(validation)));
  return {};
}

}  // namespace

Result<LinkSplit> split_links(const Links& links, const LinkSplitOptions& options) {
  check(links);
  const at::Tensor order = permuted(links.pairs.size(0), options.seed);
  GNN_ASSIGN_OR_RETURN(const Counts counts, count_parts(options, order.numel()));
  LinkSplit split;
  split.parts = parts_of(order, counts);
  const int64_t held_out = counts.train + counts.validation;
  split.train_links = order.slice(0, 0, counts.train);
  split.train = counts.supervision > 0 ? order.slice(0, 0, counts.supervision) : split.train_links;
  split.validation = order.slice(0, counts.train, held_out);
  split.test = order.slice(0, held_out);
  GNN_RETURN_IF_ERROR(draw_negatives(links, options, split));
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
