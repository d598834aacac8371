#include "worker/training/layer_wise.h"

#include "tests/worker/comm/in_process_ranks.h"
#include "tests/worker/training/counting_sink.h"
#include "tests/worker/training/whole_graphs.h"
#include "worker/nn/models/gcn.h"
#include "worker/nn/models/graph_sage.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/Allocator.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace gnn::training {
namespace {

// The logits of every `step`th node by each model, from the ranks that `run_ranks` runs.
using RunRanks = std::function<void(const std::function<void(const comm::RankGroups&)>&)>;
std::vector<at::Tensor> logits_by(
    const RunRanks& run_ranks, const Models& models, const WholeGraph& whole, int64_t step = 1
) {
  std::vector<at::Tensor> logits;
  for (size_t i = 0; i < models.size(); ++i) {
    logits.push_back(at::full({whole.graph.num_destinations(), kOutChannels}, -1, at::kDouble));
  }
  run_ranks([&](const comm::RankGroups& groups) {
    const at::NoGradGuard no_grad;
    const StopToken stop;
    CountingSink progress;
    for (size_t i = 0; i < models.size(); ++i) {
      LayerWiseInference inference(
          *models[i], whole, groups, {.stop = stop, .progress = progress}, small_chunks()
      );
      // Each rank gets rows of its own: no two write to one place.
      const auto take = [&](const at::Tensor& nodes, const at::Tensor& rows) {
        logits[i].index_copy_(0, nodes, rows);
      };
      const at::Tensor nodes = at::arange(0, whole.graph.num_destinations(), step);
      EXPECT_TRUE(comm::require(inference.run(nodes, take)));
    }
  });
  return logits;
}

std::vector<at::Tensor> logits_on_ranks(
    const Models& models, const WholeGraph& whole, int64_t world, int64_t step = 1
) {
  const RunRanks run_ranks = [&](const auto& body) { comm::run_ranks(world, body); };
  return logits_by(run_ranks, models, whole, step);
}

void expect_what_one_forward_gives(const GraphAndBlock& graph, int64_t world) {
  const at::NoGradGuard no_grad;
  const Models models = make_models();
  const std::vector<at::Tensor> logits = logits_on_ranks(models, graph.whole, world);
  for (size_t i = 0; i < models.size(); ++i) {
    EXPECT_TRUE(torch::allclose(logits[i], graph.forward(*models[i]), 1e-12, 1e-12))
        << "model " << i << " on " << world << " ranks";
  }
}

TEST(LayerWiseInference, GivesWhatOneForwardOverTheWholeGraphGives) {
  const GraphAndBlock graph(61);
  for (const int64_t world : {1, 2, 3, 4}) expect_what_one_forward_gives(graph, world);
}

TEST(LayerWiseInference, GivesTheSameWithRanksThatHaveNoNodes) {
  expect_what_one_forward_gives(GraphAndBlock(2), 4);
}

TEST(LayerWiseInference, ConvertsFeaturesToTheModelsType) {
  expect_what_one_forward_gives(GraphAndBlock(61, at::kHalf), 2);
}

TEST(LayerWiseInference, ComputesTheNodesItIsAskedForAlone) {
  const GraphAndBlock graph(61);
  const at::NoGradGuard no_grad;
  const Models models = make_models();
  const std::vector<at::Tensor> logits = logits_on_ranks(models, graph.whole, 2, 3);
  const at::Tensor asked = at::arange(61).remainder(3).eq(0).unsqueeze(1);
  for (size_t i = 0; i < models.size(); ++i) {
    const at::Tensor expected = at::where(asked, graph.forward(*models[i]), -1.0);
    EXPECT_TRUE(torch::allclose(logits[i], expected, 1e-12, 1e-12)) << "model " << i;
  }
}

TEST(LayerWiseInference, GivesTheSameBitsWhereRanksOfANodeShareMemory) {
  const GraphAndBlock graph(61, at::kHalf);
  const at::NoGradGuard no_grad;
  const Models models = make_models();
  const std::vector<at::Tensor> expected = logits_on_ranks(models, graph.whole, 4);
  for (const auto& [nodes, processes] : {std::pair<int64_t, int64_t>{1, 4}, {2, 2}}) {
    const RunRanks run_ranks = [&, n = nodes, p = processes](const auto& body) {
      comm::run_ranks_of_nodes(n, p, body);
    };
    const std::vector<at::Tensor> logits = logits_by(run_ranks, models, graph.whole);
    for (size_t i = 0; i < models.size(); ++i)
      EXPECT_TRUE(torch::equal(logits[i], expected[i])) << i << " on " << nodes << " nodes";
  }
}

TEST(LayerWiseInference, DealsTheLastLayersNodesToAllRanksWhereverTheyAre) {
  constexpr int64_t kNodes = 400;
  const GraphAndBlock graph(kNodes);
  const at::NoGradGuard no_grad;
  for (const auto& model : make_models()) {
    const at::Tensor expected = graph.forward(*model);
    // All of them belong to one rank.
    const at::Tensor nodes = at::arange(10, 50);
    std::vector<int64_t> taken(4);
    comm::run_ranks(4, [&](const std::shared_ptr<comm::Communicator>& communicator) {
      const at::NoGradGuard no_grad_here;
      const StopToken stop;
      CountingSink progress;
      LayerWiseInference inference(
          *model, graph.whole, communicator, {.stop = stop, .progress = progress}, small_chunks()
      );
      const auto take = [&](const at::Tensor& some, const at::Tensor& logits) {
        taken[static_cast<size_t>(communicator->rank())] += some.numel();
        EXPECT_TRUE(torch::allclose(logits, expected.index_select(0, some), 1e-12, 1e-12));
      };
      EXPECT_TRUE(comm::require(inference.run(nodes, take)));
    });
    EXPECT_THAT(taken, ::testing::Each(::testing::AllOf(::testing::Ge(8), ::testing::Le(12))));
    EXPECT_EQ(std::accumulate(taken.begin(), taken.end(), int64_t{0}), nodes.numel());
  }
}

// Keeps how far an evaluation is said to be.
class EvaluationSink final : public CountingSink {
 public:
  void on_evaluation(const progress::EvaluationProgress& evaluation) override {
    EXPECT_GE(evaluation.done, last.done);
    last = evaluation;
  }

  progress::EvaluationProgress last;
};

TEST(LayerWiseInference, TellsHowManyEdgesItHasSummedOver) {
  const GraphAndBlock graph(61);
  const at::NoGradGuard no_grad;
  const Models models = make_models();
  const StopToken stop;
  EvaluationSink progress;
  const auto communicator = comm::make_single_communicator();
  LayerWiseInference inference(
      *models[0], graph.whole, communicator, {.stop = stop, .progress = progress}, small_chunks()
  );
  const auto nothing = [](const at::Tensor&, const at::Tensor&) {};
  ASSERT_TRUE(inference.run(at::arange(3), nothing).value());
  EXPECT_EQ(progress.last.unit, progress::EvaluationUnit::Edges);
  // Nodes 1 and 2 have two in-edges each.
  EXPECT_EQ(progress.last.total, 2 * graph.whole.graph.num_edges() + 4);
  EXPECT_EQ(progress.last.done, progress.last.total);
}

// Follows the bytes of this thread's tensors on the CPU.
struct TensorBytes final : public c10::MemoryReportingInfoBase {
  void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override {
    live += size;
    peak = std::max(peak, live);
  }
  bool memoryProfilingEnabled() const override { return true; }

  int64_t live = 0;
  int64_t peak = 0;
};

TEST(LayerWiseInference, HoldsAtMostTwoMatricesOfTheWidestLayer) {
  constexpr int64_t kNodes = 4000;
  constexpr int64_t kHidden = 128;
  const WholeGraph whole{
      .graph = graph::CscGraph::create(
                   at::arange(kNodes + 1), at::arange(kNodes).to(at::kInt).flip(0), kNodes
      )
                   .value(),
      .features = torch::zeros({kNodes, kHidden}).to(at::kHalf),
      .labels = {}
  };
  const Models models = {
      std::make_shared<nn::GraphSageImpl>(nn::GraphSageOptions{
          .in_channels = kHidden, .hidden_channels = kHidden, .out_channels = kOutChannels
      }),
      std::make_shared<nn::GcnImpl>(nn::GcnOptions{
          .in_channels = kHidden,
          .hidden_channels = kHidden,
          .out_channels = kOutChannels,
          .layers = 3
      }),
  };
  const at::NoGradGuard no_grad;
  const StopToken stop;
  CountingSink progress;
  const auto communicator = comm::make_single_communicator();
  const at::Tensor nodes = at::arange(kNodes);
  for (const auto& model : models) {
    model->eval();
    LayerWiseInference inference(
        *model,
        whole,
        communicator,
        {.stop = stop, .progress = progress},
        {.chunk = {.nodes = 32, .edges = 1000}}
    );
    const auto bytes = std::make_shared<TensorBytes>();
    {
      const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, bytes);
      const auto nothing = [](const at::Tensor&, const at::Tensor&) {};
      EXPECT_TRUE(inference.run(nodes, nothing).value());
    }
    const auto matrix = static_cast<double>(kNodes * kHidden * 4);
    EXPECT_LT(static_cast<double>(bytes->peak), 2.1 * matrix);
    EXPECT_GT(static_cast<double>(bytes->peak), matrix) << "the bytes were not followed";
  }
}

TEST(LayerWiseInference, HoldsNoMatrixOfItsOwnWhereRanksOfANodeShareThem) {
  constexpr int64_t kNodes = 4000;
  constexpr int64_t kWidth = 64;
  const WholeGraph whole{
      .graph = graph::CscGraph::create(
                   at::arange(kNodes + 1), at::arange(kNodes).to(at::kInt).flip(0), kNodes
      )
                   .value(),
      .features = torch::zeros({kNodes, kWidth}).to(at::kHalf),
      .labels = {}
  };
  const auto model = std::make_shared<nn::GraphSageImpl>(nn::GraphSageOptions{
      .in_channels = kWidth, .hidden_channels = kWidth, .out_channels = kOutChannels, .layers = 3
  });
  model->eval();
  comm::run_ranks_of_nodes(1, 4, [&](const comm::RankGroups& groups) {
    const at::NoGradGuard no_grad;
    const StopToken stop;
    CountingSink progress;
    LayerWiseInference inference(
        *model,
        whole,
        groups,
        {.stop = stop, .progress = progress},
        {.chunk = {.nodes = 32, .edges = 1000}}
    );
    const auto bytes = std::make_shared<TensorBytes>();
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, bytes);
    const auto nothing = [](const at::Tensor&, const at::Tensor&) {};
    EXPECT_TRUE(comm::require(inference.run(at::arange(kNodes), nothing)));
    EXPECT_LT(static_cast<double>(bytes->peak), 0.2 * static_cast<double>(kNodes * kWidth * 4));
  });
}

TEST(LayerWiseInference, StopsBetweenChunks) {
  const GraphAndBlock graph(61);
  const at::NoGradGuard no_grad;
  const auto communicator = comm::make_single_communicator();
  for (const auto& model : make_models()) {
    for (const int64_t last : {1, 2, 10}) {
      StopToken stop;
      StopAtMark progress(stop, last);
      LayerWiseInference inference(
          *model, graph.whole, communicator, {.stop = stop, .progress = progress}, small_chunks()
      );
      const auto done = inference.run(at::arange(61), [](const at::Tensor&, const at::Tensor&) {});
      EXPECT_FALSE(done.value());
      EXPECT_EQ(progress.marks, last);
    }
  }
}

TEST(LayerWiseInference, StopsOnAllRanksWhenOneIsAskedToOnTheWay) {
  const GraphAndBlock graph(61);
  const Models models = make_models();
  comm::run_ranks(3, [&](const std::shared_ptr<comm::Communicator>& communicator) {
    const at::NoGradGuard no_grad;
    StopToken stop;
    StopAtMark progress(stop, communicator->rank() == 1 ? 3 : -1);
    LayerWiseInference inference(
        *models[0], graph.whole, communicator, {.stop = stop, .progress = progress}, small_chunks()
    );
    const auto nothing = [](const at::Tensor&, const at::Tensor&) {};
    EXPECT_FALSE(comm::require(inference.run(at::arange(61), nothing)));
  });
}

}  // namespace
}  // namespace gnn::training
