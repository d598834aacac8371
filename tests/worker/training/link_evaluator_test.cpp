#include "worker/training/link_evaluator.h"

#include "tests/worker/comm/in_process_ranks.h"
#include "tests/worker/training/counting_sink.h"
#include "worker/training/measures.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gnn::training {
namespace {

constexpr int64_t kOwnNegatives = 4;

api::Evaluation evaluation_by(
    api::Metric metric, std::optional<int64_t> hits_k = {}, std::optional<int64_t> negatives = {}
) {
  api::Evaluation evaluation;
  evaluation.metric = metric;
  evaluation.hits_k = hits_k;
  evaluation.negatives = negatives;
  return evaluation;
}

const std::vector<api::Evaluation> kEvaluations = {
    evaluation_by(api::Metric::AUC),
    evaluation_by(api::Metric::AveragePrecision),
    evaluation_by(api::Metric::Hits, 10),
    evaluation_by(api::Metric::MRR, {}, kOwnNegatives),
};

// Batches of links of different sizes, one of them without a positive; many scores are equal.
std::vector<LinkScores> batches_of(const api::Evaluation& evaluation, int64_t count) {
  const bool own = evaluation.metric == api::Metric::MRR;
  std::vector<LinkScores> batches;
  for (int64_t batch = 0; batch < count; ++batch) {
    const auto scores = [&](int64_t first, std::vector<int64_t> shape) {
      int64_t numel = 1;
      for (const int64_t size : shape) numel *= size;
      const auto values = at::arange(first, first + numel).mul(37 + batch).remainder(23);
      return values.to(at::kFloat).reshape(shape);
    };
    const int64_t positives = batch == 2 ? 0 : 3 + batch;
    batches.push_back({
        .positive = scores(7, {positives}) + 3,
        .negative = own ? scores(0, {positives, kOwnNegatives}) : scores(0, {2 * batch + 1}),
    });
  }
  return batches;
}

NextLinkScores one_by_one(std::vector<LinkScores> batches) {
  return [batches = std::move(batches),
          next = size_t{0}]() mutable -> Result<std::optional<LinkScores>> {
    if (next == batches.size()) return std::optional<LinkScores>();
    return batches[next++];
  };
}

struct OneRank {
  StopToken stop;
  CountingSink progress;

  Result<Evaluated> evaluate(
      const std::vector<LinkScores>& batches,
      const api::Evaluation& evaluation,
      comm::Communicator& communicator,
      std::optional<int64_t> max_batches = {}
  ) {
    return evaluate_links(
        one_by_one(batches),
        std::ssize(batches),
        evaluation,
        communicator,
        {.stop = stop, .progress = progress, .max_batches = max_batches}
    );
  }
};

Evaluated alone_on_links(
    const std::vector<LinkScores>& batches, const api::Evaluation& evaluation
) {
  return OneRank().evaluate(batches, evaluation, *comm::make_single_communicator()).value();
}

TEST(EvaluateLinks, MeasuresAllBatchesTogether) {
  for (const api::Evaluation& evaluation : kEvaluations) {
    const auto batches = batches_of(evaluation, 5);
    std::vector<float> positive;
    std::vector<float> negative;
    const auto append = [](std::vector<float>& to, const at::Tensor& scores) {
      const auto* begin = scores.const_data_ptr<float>();
      to.insert(to.end(), begin, begin + scores.numel());
    };
    for (const LinkScores& batch : batches) {
      append(positive, batch.positive);
      append(negative, batch.negative);
    }
    RankCounts ranks(kOwnNegatives);
    const auto expected = [&]() -> double {
      if (evaluation.metric == api::Metric::AUC) return auc(positive, negative);
      if (evaluation.metric == api::Metric::AveragePrecision)
        return average_precision(positive, negative);
      if (evaluation.metric == api::Metric::Hits) return hits_at_k(positive, negative, 10);
      ranks.add(positive, negative);
      return ranks.mean_reciprocal_rank();
    }();
    const Evaluated found = alone_on_links(batches, evaluation);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->metric, link_metric_name(evaluation));
    EXPECT_EQ(found->value, expected) << found->metric;
    EXPECT_GT(found->value, 0) << found->metric;
    EXPECT_LT(found->value, 1) << found->metric;
  }
}

TEST(EvaluateLinks, NamesTheMetricAndCountsScoresOrPositives) {
  const std::vector<std::string> names = {"auc", "average_precision", "hits@10", "mrr"};
  const std::vector<int64_t> counts = {13 + 16, 13 + 16, 13, 13};
  for (size_t i = 0; i < kEvaluations.size(); ++i) {
    const Evaluated found = alone_on_links(batches_of(kEvaluations[i], 4), kEvaluations[i]);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->metric, names[i]);
    EXPECT_EQ(found->count, counts[i]);
  }
}

// Ranks with 5, 1 and 0 of the batches.
TEST(EvaluateLinks, GivesEveryRankTheBitsOfOneProcess) {
  for (const api::Evaluation& evaluation : kEvaluations) {
    const auto all = batches_of(evaluation, 6);
    const Evaluated expected = alone_on_links(all, evaluation);
    ASSERT_TRUE(expected.has_value());
    const std::vector<std::vector<LinkScores>> shares = {
        {all.begin() + 1, all.end()}, {all[0]}, {}
    };
    comm::run_ranks(3, [&](const std::shared_ptr<comm::Communicator>& communicator) {
      const auto share = shares[static_cast<size_t>(communicator->rank())];
      const Evaluated found = comm::require(OneRank().evaluate(share, evaluation, *communicator));
      ASSERT_TRUE(found.has_value());
      EXPECT_EQ(*found, *expected)
          << link_metric_name(evaluation) << " on rank " << communicator->rank();
    });
  }
}

TEST(EvaluateLinks, HasNoMeasureOfNothing) {
  for (const api::Evaluation& evaluation : kEvaluations) {
    comm::run_ranks(2, [&](const std::shared_ptr<comm::Communicator>& communicator) {
      const Evaluated found = comm::require(OneRank().evaluate({}, evaluation, *communicator));
      ASSERT_TRUE(found.has_value());
      EXPECT_TRUE(std::isnan(found->value));
      EXPECT_EQ(found->count, 0);
    });
  }
}

TEST(EvaluateLinks, EndsOnAllRanksIfOneIsAskedToStop) {
  for (const api::Evaluation& evaluation : kEvaluations) {
    const auto batches = batches_of(evaluation, 3);
    comm::run_ranks(2, [&](const std::shared_ptr<comm::Communicator>& communicator) {
      OneRank rank;
      if (communicator->rank() == 1) rank.stop.request();
      EXPECT_FALSE(comm::require(rank.evaluate(batches, evaluation, *communicator)).has_value());
      EXPECT_EQ(rank.progress.marks, communicator->rank() == 1 ? 0 : 3);
    });
  }
}

TEST(EvaluateLinks, EndsAfterTheMostBatches) {
  const api::Evaluation& evaluation = kEvaluations.front();
  const auto batches = batches_of(evaluation, 5);
  OneRank rank;
  const auto single = comm::make_single_communicator();
  const Evaluated found = rank.evaluate(batches, evaluation, *single, 2).value();
  EXPECT_EQ(found, alone_on_links({batches[0], batches[1]}, evaluation));
  EXPECT_EQ(rank.progress.marks, 2);
}

TEST(EvaluateLinks, RefusesAScoreThatIsNaNOnAllRanks) {
  for (const api::Evaluation& evaluation : kEvaluations) {
    comm::run_ranks(2, [&](const std::shared_ptr<comm::Communicator>& communicator) {
      std::vector<LinkScores> mine = batches_of(evaluation, 2);
      if (communicator->rank() == 1) mine[1].positive[0] = std::nanf("");
      const auto found = OneRank().evaluate(mine, evaluation, *communicator);
      ASSERT_FALSE(found.has_value());
      EXPECT_EQ(found.error().kind, ErrorKind::Configuration);
      EXPECT_TRUE(found.error().message.starts_with("1 of the ")) << found.error().message;
    });
  }
}

TEST(EvaluateLinks, TakesInfiniteScores) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<LinkScores> batches = {
      {.positive = at::tensor({infinity, 1.0F}), .negative = at::tensor({-infinity, 1.0F})}
  };
  EXPECT_EQ(alone_on_links(batches, kEvaluations.front())->value, 0.875);
}

TEST(EvaluateLinks, RefusesNegativesThatArePositivesOfNobody) {
  const std::vector<LinkScores> batches = {
      {.positive = at::zeros({3}), .negative = at::zeros({3, kOwnNegatives - 1})}
  };
  EXPECT_THROW(static_cast<void>(alone_on_links(batches, kEvaluations.back())), c10::Error);
  EXPECT_THROW(static_cast<void>(alone_on_links(batches, kEvaluations.front())), c10::Error);
}

TEST(SplitByLabel, KeepsTheOrder) {
  const LinkScores split =
      split_by_label(at::tensor({1.0F, 2.0F, 3.0F, 4.0F}), at::tensor({0.0F, 1.0F, 1.0F, 0.0F}));
  EXPECT_TRUE(at::equal(split.positive, at::tensor({2.0F, 3.0F})));
  EXPECT_TRUE(at::equal(split.negative, at::tensor({1.0F, 4.0F})));
  EXPECT_THROW(static_cast<void>(split_by_label(at::zeros({2}), at::zeros({3}))), c10::Error);
}

}  // namespace
}  // namespace gnn::training
