#include "common/api/defaults.h"

namespace gnn::api {
namespace {

void apply_link_defaults(GnnJobSpec& spec) {
  Split& split = spec.dataset.split;
  if (split.type == SplitType::RandomLink) {
    if (!split.negative_ratio && spec.training.evaluation.metric != Metric::MRR) {
      split.negative_ratio = Decimal{"1"};
    }
    if (!split.disjoint_train) split.disjoint_train = Decimal{"0"};
  }
  if (spec.sampling && !spec.sampling->negatives) spec.sampling->negatives.emplace();
  if (spec.model.type == ModelType::BipartiteSAGE) {
    if (!spec.training.embeddings) spec.training.embeddings.emplace();
  } else if (spec.model.graph_sage) {
    if (!spec.model.decoder) spec.model.decoder.emplace();
    Decoder& decoder = *spec.model.decoder;
    if (decoder.type == DecoderType::MLP && !decoder.hidden_channels) {
      decoder.hidden_channels = spec.model.graph_sage->hidden_channels;
    }
  }
}

void apply_partition_defaults(const GnnJobSpec& spec, DataPartition& partition) {
  const std::optional<Placement>& placement = spec.placement;
  if (!partition.parts && placement) partition.parts = placement->partitions;
  if (!partition.fanout && spec.sampling) partition.fanout = spec.sampling->fanout;
  if (!partition.batch_size) partition.batch_size = spec.training.batch_size;
  if (!partition.hot_rows) {
    partition.hot_rows = Decimal{"0.2"};
    const bool caches_hot_rows =
        placement && placement->cache && placement->cache->policy == CachePolicy::Hotness;
    if (caches_hot_rows && placement->cache->rows.value() > partition.hot_rows->value()) {
      partition.hot_rows = placement->cache->rows;
    }
  }
}

}  // namespace

void apply_defaults(GnnJobSpec& spec) {
  switch (spec.model.type) {
    case ModelType::GraphSAGE:
      if (!spec.model.graph_sage) spec.model.graph_sage.emplace();
      break;
    case ModelType::GCN:
      if (!spec.model.gcn) spec.model.gcn.emplace();
      break;
    case ModelType::GIN:
      if (!spec.model.gin) spec.model.gin.emplace();
      break;
    case ModelType::BipartiteSAGE:
      if (!spec.model.bipartite_sage) spec.model.bipartite_sage.emplace();
      break;
  }
  Training& training = spec.training;
  if (!training.sharding) {
    training.sharding = spec.placement                                    ? Sharding::Owner
                        : spec.task.type == TaskType::GraphClassification ? Sharding::Interleave
                                                                          : Sharding::Slice;
  }
  if (spec.placement && spec.placement->features == PlacementMode::Partitioned &&
      !spec.placement->cache)
    spec.placement->cache.emplace();
  Split& split = spec.dataset.split;
  if (split.type != SplitType::Provided && !split.seed) split.seed = training.seed;
  if (!training.evaluation.parts) training.evaluation.parts = std::vector{Part::Validation};
  if (training.evaluation.mode == EvaluationMode::Sampled && !training.evaluation.fanout &&
      spec.sampling) {
    training.evaluation.fanout = spec.sampling->fanout;
  }
  if (!training.evaluation.metric) {
    training.evaluation.metric =
        spec.task.type == TaskType::LinkPrediction ? Metric::AUC : Metric::Accuracy;
  }
  if (spec.task.type == TaskType::LinkPrediction) apply_link_defaults(spec);
  if (spec.prepare && spec.prepare->partition) {
    apply_partition_defaults(spec, *spec.prepare->partition);
  }
}

}  // namespace gnn::api
