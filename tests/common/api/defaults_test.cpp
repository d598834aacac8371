#include "common/api/defaults.h"

#include "common/api/validation.h"
#include "tests/common/api/sample_job.h"

#include <gtest/gtest.h>

namespace gnn::api {
namespace {

TEST(Defaults, FillWhatDependsOnOtherFields) {
  GnnJobSpec nodes = sample_job().spec;
  nodes.model.graph_sage.reset();
  apply_defaults(nodes);
  EXPECT_EQ(nodes.model.graph_sage, GraphSage{});
  EXPECT_EQ(nodes.training.sharding, Sharding::Slice);
  EXPECT_EQ(nodes.training.evaluation.fanout, nodes.sampling->fanout);
  EXPECT_EQ(nodes.training.evaluation.parts, std::vector<Part>{Part::Validation});
  EXPECT_FALSE(nodes.dataset.split.seed);

  GnnJobSpec graphs = sample_graph_job().spec;
  graphs.training.seed = 7;
  apply_defaults(graphs);
  EXPECT_EQ(graphs.training.sharding, Sharding::Interleave);
  EXPECT_EQ(graphs.dataset.split.seed, 7);
  EXPECT_FALSE(graphs.training.evaluation.fanout);
}

TEST(Defaults, APlacementShardsByOwnerAndCachesRemoteRows) {
  GnnJob job = sample_partitioned_job();
  apply_defaults(job.spec);
  EXPECT_EQ(job.spec.training.sharding, Sharding::Owner);
  EXPECT_EQ(job.spec.placement->cache, FeatureCache{});
  EXPECT_TRUE(check(job));

  GnnJob whole = sample_partitioned_job();
  whole.spec.placement = Placement{.partitions = 2};
  apply_defaults(whole.spec);
  EXPECT_EQ(whole.spec.training.sharding, Sharding::Owner);
  EXPECT_FALSE(whole.spec.placement->cache) << "there are no remote rows";
  EXPECT_TRUE(check(whole));

  GnnJob made = sample_prepare_partitions_job();
  made.spec.training.batch_size = 77;
  GnnJob large = made;
  large.spec.placement->cache = FeatureCache{.rows = Decimal{"0.5"}};
  apply_defaults(made.spec);
  const DataPartition& partition = *made.spec.prepare->partition;
  EXPECT_EQ(partition.parts, 2);
  EXPECT_EQ(partition.fanout, made.spec.sampling->fanout);
  EXPECT_EQ(partition.batch_size, 77);
  EXPECT_EQ(partition.hot_rows, Decimal{"0.2"});
  EXPECT_TRUE(check(made));
  apply_defaults(large.spec);
  EXPECT_EQ(large.spec.prepare->partition->hot_rows, Decimal{"0.5"}) << "as the cache holds";
  GnnJob by_degree = sample_prepare_partitions_job();
  by_degree.spec.placement->cache =
      FeatureCache{.rows = Decimal{"0.5"}, .policy = CachePolicy::Degree};
  apply_defaults(by_degree.spec);
  EXPECT_EQ(by_degree.spec.prepare->partition->hot_rows, Decimal{"0.2"}) << "it counts its own";
}

TEST(Defaults, FillWhatLinkPredictionLeavesOut) {
  GnnJob job = sample_link_job();
  job.spec.training.seed = 7;
  apply_defaults(job.spec);
  EXPECT_EQ(job.spec.training.sharding, Sharding::Slice);
  EXPECT_EQ(job.spec.training.evaluation.fanout, job.spec.sampling->fanout);
  EXPECT_EQ(job.spec.training.evaluation.metric, Metric::AUC);
  EXPECT_EQ(job.spec.training.embeddings, Embeddings{});
  EXPECT_EQ(job.spec.dataset.split.seed, 7);
  EXPECT_EQ(job.spec.dataset.split.negative_ratio, Decimal{"1"});
  EXPECT_EQ(job.spec.dataset.split.disjoint_train, Decimal{"0"});
  EXPECT_EQ(job.spec.sampling->negatives, Negatives{});
  EXPECT_FALSE(job.spec.model.decoder);
  EXPECT_TRUE(check(job)) << "what is filled in is valid";
}

TEST(Defaults, ADecoderIsAsWideAsItsEncoder) {
  GnnJob job = sample_plain_link_job();
  apply_defaults(job.spec);
  EXPECT_EQ(job.spec.model.decoder, Decoder{});
  EXPECT_FALSE(job.spec.training.embeddings);
  EXPECT_TRUE(check(job));
  job.spec.model.decoder->type = DecoderType::MLP;
  apply_defaults(job.spec);
  EXPECT_EQ(job.spec.model.decoder->hidden_channels, job.spec.model.graph_sage->hidden_channels);
  EXPECT_TRUE(check(job));
}

TEST(Defaults, ReciprocalRanksHaveNegativesOfTheirOwn) {
  GnnJob job = sample_link_job();
  job.spec.training.evaluation.metric = Metric::MRR;
  job.spec.training.evaluation.negatives = 100;
  apply_defaults(job.spec);
  EXPECT_FALSE(job.spec.dataset.split.negative_ratio);
  EXPECT_TRUE(check(job));
}

TEST(Defaults, GiveOtherTasksNoFieldsOfLinkPrediction) {
  GnnJob job = sample_job();
  apply_defaults(job.spec);
  GnnJobSpec expected = sample_job().spec;
  expected.training.sharding = Sharding::Slice;
  expected.training.evaluation.fanout = expected.sampling->fanout;
  expected.training.evaluation.parts = std::vector{Part::Validation};
  expected.training.evaluation.metric = Metric::Accuracy;
  EXPECT_EQ(job.spec, expected);
}

TEST(Defaults, KeepWhatIsSetAndChangeNothingTwice) {
  GnnJobSpec spec = sample_graph_job().spec;
  spec.training.sharding = Sharding::Slice;
  spec.dataset.split.seed = 3;
  apply_defaults(spec);
  EXPECT_EQ(spec.training.sharding, Sharding::Slice);
  EXPECT_EQ(spec.dataset.split.seed, 3);
  GnnJobSpec again = spec;
  apply_defaults(again);
  EXPECT_EQ(again, spec);
}

TEST(Defaults, LayerWiseEvaluationHasNoFanout) {
  GnnJobSpec spec = sample_job().spec;
  spec.training.evaluation.mode = EvaluationMode::LayerWise;
  apply_defaults(spec);
  EXPECT_FALSE(spec.training.evaluation.fanout);
}

}  // namespace
}  // namespace gnn::api
