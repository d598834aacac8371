#include "worker/training/answers.h"

#include "tests/worker/comm/in_process_ranks.h"
#include "tests/worker/training/counting_sink.h"
#include "worker/graph/csc_graph.h"
#include "worker/nn/models/gcn.h"
#include "worker/training/evaluator.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <optional>
#include <vector>

namespace gnn::training {
namespace {

using ::testing::ElementsAre;

// Logits whose highest is that of each answer.
at::Tensor logits_of(const std::vector<int64_t>& answers) {
  return at::one_hot(at::tensor(answers, at::kLong), 3).to(at::kFloat);
}

TEST(AnswersByClass, OfSampledBatchesAddUpOverRanksWithoutScoresThatAreNoNumbers) {
  comm::run_ranks(2, [](const std::shared_ptr<comm::Communicator>& communicator) {
    const bool first = communicator->rank() == 0;
    const StopToken stop;
    CountingSink sink;
    std::optional<report::AnswerCounts> found;
    const EvaluationContext context{
        .stop = stop,
        .progress = sink,
        .answers =
            {.classes = 3, .take = [&](const report::AnswerCounts& answers) { found = answers; }}
    };
    int batches = first ? 2 : 1;
    const auto next = [&]() -> Result<std::optional<Scores>> {
      if (batches-- == 0) return std::optional<Scores>();
      const at::Tensor logits = logits_of({0, 2, 1, 0});
      logits[3][1] = std::nan("");  // no answer, and not the first class
      return Scores{.logits = logits, .labels = at::tensor({0, 2, 2, 0}, at::kLong)};
    };
    const Evaluated evaluated =
        comm::require(evaluate_batches(next, first ? 2 : 1, *communicator, context));
    EXPECT_EQ(*evaluated, progress::accuracy(6, 12));
    ASSERT_TRUE(found.has_value());
    EXPECT_THAT(found->counts, ElementsAre(3, 0, 0, 0, 0, 0, 0, 3, 3));
  });
}

// A model that answers with a node's own features: no edges but loops.
TEST(AnswersByClass, OfAnExactPassAreThoseOfThePartThatIsAsked) {
  comm::run_ranks(2, [](const std::shared_ptr<comm::Communicator>& communicator) {
    const at::NoGradGuard no_grad;
    nn::GcnImpl model({.in_channels = 3, .hidden_channels = 3, .out_channels = 3, .layers = 1});
    for (const at::Tensor& parameter : model.parameters()) {
      if (parameter.dim() == 2)
        parameter.copy_(at::eye(3));
      else
        parameter.zero_();
    }
    model.eval();
    const WholeGraph whole{
        .graph =
            graph::CscGraph::create(at::zeros({7}, at::kLong), at::empty({0}, at::kInt), 6).value(),
        .features = logits_of({0, 1, 2, 0, 1, 1}),
        .labels = at::tensor({0, 1, 2, 1, 1, 2}, at::kLong),
    };
    const StopToken stop;
    CountingSink sink;
    std::vector<report::AnswerCounts> found;
    EvaluationContext context{
        .stop = stop,
        .progress = sink,
        .answers =
            {.classes = 3,
             .part = 1,
             .take = [&](const report::AnswerCounts& answers) { found.push_back(answers); }}
    };
    const std::vector<at::Tensor> parts = {at::arange(3), at::arange(2, 6)};
    const EvaluatedParts evaluated = comm::require(
        evaluate_layer_wise(model, whole, parts, communicator, context, {.chunk = {.nodes = 2}})
    );
    EXPECT_EQ((*evaluated)[1], progress::accuracy(2, 4));
    ASSERT_EQ(found.size(), 1U);
    EXPECT_THAT(found[0].counts, ElementsAre(0, 0, 0, 1, 1, 0, 0, 1, 1));
    context.answers.part.reset();  // the test set is not among the parts
    comm::require(evaluate_layer_wise(model, whole, parts, communicator, context, {}));
    EXPECT_EQ(found.size(), 1U);
  });
}

}  // namespace
}  // namespace gnn::training
