#include "common/api/defaults.h"

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
