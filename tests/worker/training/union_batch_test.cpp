// Ranks that weigh their gradients by batch size train what one process trains on the union of
// their batches: with all neighbours, and with draws that depend on the node alone (DGL's rule).

#include "tests/worker/comm/in_process_ranks.h"
#include "tests/worker/sampling/random_graph.h"
#include "worker/comm/ddp.h"
#include "worker/nn/models/graph_sage.h"
#include "worker/sampling/neighbor.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace gnn::training {
namespace {

constexpr int64_t kNodes = 600;
constexpr int64_t kFeatures = 8;
constexpr int64_t kClasses = 4;
constexpr int64_t kUnionSteps = 10;

struct Case {
  int64_t world = 2;
  sampling::SamplingRule rule = sampling::SamplingRule::AllSeen;
  std::vector<int64_t> fanout{};
  at::ScalarType dtype = at::kDouble;
  double tolerance = 0;
};

class UnionBatchTest : public ::testing::TestWithParam<Case> {
 protected:
  UnionBatchTest()
      : edges_(kNodes, kNodes, 4, 1),
        graph_(graph::CscGraph::create(
                   at::tensor(edges_.indptr, at::kLong),
                   at::tensor(edges_.indices, at::kLong).to(at::kInt),
                   kNodes
        )
                   .value()),
        sampler_(sampling::NeighborSampler::create(
                     {.fanout = GetParam().fanout, .rule = GetParam().rule}, graph_
        )
                     .value()) {
    torch::manual_seed(11);
    features_ = torch::randn({kNodes, kFeatures}, torch::kDouble).to(GetParam().dtype);
    labels_ = torch::randint(kClasses, {kNodes}, torch::kLong);
    seeds_ = torch::randperm(kNodes, torch::kLong);
  }

  std::shared_ptr<nn::GraphSageImpl> make_model(uint64_t seed) const {
    torch::manual_seed(seed);
    auto model = std::make_shared<nn::GraphSageImpl>(nn::GraphSageOptions{
        .in_channels = kFeatures,
        .hidden_channels = 16,
        .out_channels = kClasses,
        .layers = 2,
        .dropout = 0
    });
    model->to(GetParam().dtype);
    return model;
  }

  // Ranks' batches differ in size, by step too; together they are the seeds of a step.
  static int64_t size_of(int64_t step, int64_t rank) { return 3 + (2 * step + 5 * rank) % 11; }

  struct Range {
    int64_t first = 0;
    int64_t size = 0;
  };
  Range batch_of(int64_t step, int64_t rank) const {
    Range range;
    for (int64_t s = 0; s <= step; ++s) {
      for (int64_t r = 0; r < GetParam().world && (s < step || r < rank); ++r)
        range.first += size_of(s, r);
    }
    range.size = size_of(step, rank);
    return range;
  }
  Range union_of(int64_t step) const {
    Range range = batch_of(step, 0);
    const Range last = batch_of(step, GetParam().world - 1);
    range.size = last.first + last.size - range.first;
    return range;
  }

  at::Tensor loss_of(nn::NodeModel& model, int64_t step, const Range& range) const {
    const at::Tensor seeds = seeds_.narrow(0, range.first, range.size).contiguous();
    const sampling::core::StreamPosition position{
        .seed = 3, .epoch = 0, .batch = static_cast<uint64_t>(step)
    };
    const auto sampled = sampler_.sample(seeds, position).value();
    std::vector<graph::Block> blocks;
    for (const auto& layer : sampled.blocks) blocks.push_back(layer.front());
    const at::Tensor x = features_.index_select(0, sampled.node_ids.front());
    return torch::nn::functional::cross_entropy(
        model.forward(x, blocks), labels_.index_select(0, seeds)
    );
  }

  // One process on the unions.
  std::vector<at::Tensor> reference() const {
    const auto model = make_model(0);
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    for (int64_t step = 0; step < kUnionSteps; ++step) {
      optimizer.zero_grad();
      loss_of(*model, step, union_of(step)).backward();
      optimizer.step();
    }
    return model->parameters();
  }

  sampling::RandomGraph edges_;
  graph::CscGraph graph_;
  sampling::NeighborSampler sampler_;
  at::Tensor features_;
  at::Tensor labels_;
  at::Tensor seeds_;
};

TEST_P(UnionBatchTest, RanksTrainWhatOneProcessTrains) {
  const Case c = GetParam();
  const std::vector<at::Tensor> expected = reference();
  std::vector<std::shared_ptr<nn::GraphSageImpl>> models;
  for (int64_t rank = 0; rank < c.world; ++rank)
    models.push_back(make_model(static_cast<uint64_t>(rank)));
  comm::run_ranks(c.world, [&](const std::shared_ptr<comm::Communicator>& communicator) {
    const int64_t rank = communicator->rank();
    nn::GraphSageImpl& model = *models[static_cast<size_t>(rank)];
    auto ddp = comm::require(comm::DistributedDataParallel::create(
        comm::named_parameters_of(model),
        comm::named_buffers_of(model),
        communicator,
        {.average = comm::GradientAverage::BatchSize}
    ));
    torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    for (int64_t step = 0; step < kUnionSteps; ++step) {
      const Range mine = batch_of(step, rank);
      ddp.zero_grad();
      comm::require(ddp.start_step());
      comm::require(
          ddp.backward(loss_of(model, step, mine), {.batch_size = static_cast<double>(mine.size)})
      );
      optimizer.step();
      EXPECT_TRUE(comm::replicas_agree(model.parameters(), *communicator)) << "step " << step;
    }
    double largest = 0;
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < expected.size(); ++i) {
      const at::Tensor difference = (model.parameters()[i] - expected[i]).abs().max();
      largest = std::max(largest, difference.item<double>());
    }
    EXPECT_LE(largest, c.tolerance);
  });
}

std::vector<Case> cases() {
  using sampling::SamplingRule;
  std::vector<Case> all;
  for (const int64_t world : {2, 3, 4}) {
    all.push_back({world, SamplingRule::AllSeen, {4, 4}, at::kDouble, 1e-9});
    all.push_back({world, SamplingRule::NewNodes, {-1, -1}, at::kDouble, 1e-9});
    all.push_back({world, SamplingRule::AllSeen, {4, 4}, at::kFloat, 1e-5});
    all.push_back({world, SamplingRule::NewNodes, {-1, -1}, at::kFloat, 1e-5});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(
    Ranks,
    UnionBatchTest,
    ::testing::ValuesIn(cases()),
    [](const ::testing::TestParamInfo<Case>& param) {
      return std::to_string(param.param.world) +
             (param.param.fanout.front() < 0 ? "AllNeighbours" : "DglsRule") +
             (param.param.dtype == at::kDouble ? "Float64" : "Float32");
    }
);

}  // namespace
}  // namespace gnn::training
