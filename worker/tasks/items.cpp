#include "worker/tasks/items.h"

#include "common/hash.h"
#include "worker/tasks/values.h"

#include <algorithm>
#include <memory>

namespace gnn::tasks {

sampling::core::ItemSamplerOptions train_item_options(
    const api::Training& training, api::Sharding sharding, const Ranks& ranks
) {
  sampling::core::ItemSamplerOptions options{
      .batch_size = training.batch_size,
      .world_size = ranks.count,
      .shuffle = training.shuffle,
      .drop_last = training.drop_last,
      .seed = static_cast<uint64_t>(training.seed),
  };
  if (sharding == api::Sharding::Interleave) {
    options.split =
        sampling::core::SplitRule::PaddedStride;  // even by construction: nothing to drop
  } else {
    options.drop_uneven_inputs = training.uneven_inputs == api::UnevenInputs::Drop;
  }
  return options;
}

sampling::core::ItemSamplerOptions evaluation_item_options(
    const api::Training& training, api::Part part, const Ranks& ranks
) {
  return {
      .batch_size = training.batch_size,
      .world_size = ranks.count,
      // Not the draws that the model was trained on; the same ones in each evaluation, so that its
      // numbers differ by the model alone.
      .seed = splitmix64(static_cast<uint64_t>(training.seed), static_cast<uint64_t>(part)),
  };
}

Result<sampling::core::ItemSamplerOptions> deal(
    sampling::core::ItemSamplerOptions options,
    api::Sharding sharding,
    const graph::Dataset& dataset,
    const ItemNodes& nodes,
    int64_t ranks_per_node
) {
  options.num_items = nodes.ids.numel();
  if (sharding != api::Sharding::Owner) return options;
  if (!dataset.partitions) {
    return fail(
        ErrorKind::Configuration,
        "spec.training.sharding: Owner expects data that gnn-worker data partition has written, "
        "found " +
            dataset.name + " without partitions"
    );
  }
  const at::Tensor ids = nodes.ids.contiguous();
  options.split = sampling::core::SplitRule::Owner;
  options.parts = std::make_shared<const sampling::core::ItemParts>(sampling::core::items_by_part(
      values_of<int64_t>(ids),
      dataset.partitions->book.offsets[static_cast<size_t>(nodes.node_type)]
  ));
  options.ranks_per_node = ranks_per_node;
  return options;
}

const at::Tensor& items_of(const graph::DataSplit& split, api::Part part) {
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

Result<std::vector<int64_t>> batches_of_ranks(const sampling::core::ItemSamplerOptions& options) {
  GNN_ASSIGN_OR_RETURN(const auto sampler, sampling::core::ItemSampler::create(options));
  std::vector<int64_t> batches;
  batches.reserve(static_cast<size_t>(options.world_size));
  for (int64_t rank = 0; rank < options.world_size; ++rank)
    batches.push_back(sampler.share_of(rank).num_batches);
  return batches;
}

Status check_training_batches(
    const std::vector<int64_t>& batches,
    const std::string& dataset,
    const sampling::core::ItemSamplerOptions& options
) {
  if (options.num_items > 0 && options.batch_size > options.num_items) {
    return fail(
        ErrorKind::Configuration,
        "spec.training.batchSize: expected at most the " + std::to_string(options.num_items) +
            " training items of " + dataset + ", found " + std::to_string(options.batch_size)
    );
  }
  if (std::ranges::max(batches) > 0) return {};
  std::string message = dataset + ": no training batch; " + std::to_string(options.num_items) +
                        " training items for batches of " + std::to_string(options.batch_size);
  if (options.drop_last) message += ", and spec.training.dropLast drops batches that are not full";
  return fail(ErrorKind::Data, std::move(message));
}

}  // namespace gnn::tasks
