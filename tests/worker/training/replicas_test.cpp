// Several ranks train through train(): a model with batch norms, whose buffers no gradient holds
// together, on shares of unequal length.

#include "tests/support/temporary_folder.h"
#include "tests/worker/comm/in_process_ranks.h"
#include "tests/worker/training/trainer_runs.h"
#include "worker/progress/console_sink.h"
#include "worker/training/trainer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gnn::training {
namespace {

using gnn::testing::TemporaryFolder;
using ::testing::HasSubstr;

class NormNet : public torch::nn::Module {
 public:
  NormNet() {
    first_ = register_module("first", torch::nn::Linear(4, 8));
    norm_ = register_module("norm", torch::nn::BatchNorm1d(8));
    second_ = register_module("second", torch::nn::Linear(8, 3));
    register_buffer("unused", torch::zeros({1}));
    to(at::kDouble);
  }
  at::Tensor forward(const at::Tensor& x) {
    return second_->forward(torch::relu(norm_->forward(first_->forward(x))));
  }

 private:
  torch::nn::Linear first_{nullptr};
  torch::nn::BatchNorm1d norm_{nullptr};
  torch::nn::Linear second_{nullptr};
};

// The numbers of the batches that each rank takes, in order.
using Shares = std::vector<std::vector<int64_t>>;

// Points in batches of three to eight; the label is the place of the largest of the first three
// coordinates.
class SharedWorkload final : public Workload {
 public:
  SharedWorkload(const Shares& shares, int64_t rank)
      : my_batches_(shares[static_cast<size_t>(rank)]) {
    torch::manual_seed(7);
    points_ = torch::randn({400, 4}, torch::kDouble);
    labels_ = points_.narrow(1, 0, 3).argmax(1);
    net_ = std::make_shared<NormNet>();
    for (const auto& share : shares) batches_.push_back(static_cast<int64_t>(share.size()));
  }

  torch::nn::Module& module() override { return *net_; }
  const std::vector<int64_t>& batches_per_rank() const override { return batches_; }
  Status start_epoch(int64_t, int64_t first_batch) override {
    next_ = static_cast<size_t>(first_batch);
    return {};
  }
  Result<std::optional<BatchSize>> next_batch() override {
    if (next_ == my_batches_.size()) return std::optional<BatchSize>();
    current_ = my_batches_[next_++];
    ++fetched_;
    if (on_batch) on_batch(fetched_);
    return BatchSize{.items = size_of(current_), .sampled_edges = 0, .input_nodes = 0};
  }
  Scores forward() override {
    const auto rows = [&](const at::Tensor& of) {
      return of.narrow(0, 6 * current_ % 392, size_of(current_));
    };
    Scores scores{net_->forward(rows(points_)), rows(labels_)};
    if (after_forward) after_forward(*net_);
    return scores;
  }
  at::Tensor loss(const Scores& scores) const override {
    return cross_entropy(scores, class_weights);
  }
  std::optional<double> loss_weight(const Scores& scores) const override {
    return weight_of(scores, class_weights);
  }
  at::Tensor count_correct(const Scores& scores) const override {
    return training::count_correct(scores);
  }
  bool has(Part part) const override { return part == Part::Validation; }
  Result<Evaluated> evaluate(Part, const EvaluationContext&) override {
    for (const at::Tensor& buffer : net_->buffers()) measured.push_back(buffer.clone());
    return progress::accuracy(
        count_correct({net_->forward(points_), labels_}).item<int64_t>(), 400
    );
  }

  std::function<void(int64_t)> on_batch;  // given how many were fetched so far
  std::function<void(NormNet&)> after_forward;
  std::vector<at::Tensor> measured;  // the buffers at every evaluation
  at::Tensor class_weights;

 private:
  static int64_t size_of(int64_t batch) { return 3 + 5 * batch % 6; }

  std::vector<int64_t> my_batches_;
  std::vector<int64_t> batches_;
  at::Tensor points_;
  at::Tensor labels_;
  std::shared_ptr<NormNet> net_;
  size_t next_ = 0;
  int64_t current_ = 0;
  int64_t fetched_ = 0;
};

// `counts[r]` batches for rank r, all different.
Shares shares_of(const std::vector<int64_t>& counts) {
  Shares shares;
  int64_t next = 0;
  for (const int64_t count : counts) {
    shares.emplace_back(static_cast<size_t>(count));
    std::iota(shares.back().begin(), shares.back().end(), next);
    next += count;
  }
  return shares;
}

// What each rank has at the end.
struct Ranks {
  std::vector<std::unique_ptr<SharedWorkload>> workloads;
  std::vector<Result<TrainingResult>> results;

  const TrainingResult& first() const { return results.front().value(); }
};

using Prepare = std::function<void(int64_t rank, SharedWorkload& workload, StopToken& stop)>;

Ranks train_ranks(
    const Shares& shares, const TrainerOptions& options, const Prepare& prepare = nullptr
) {
  const auto world = static_cast<int64_t>(shares.size());
  Ranks ranks;
  std::vector<std::unique_ptr<StopToken>> stops;
  for (int64_t rank = 0; rank < world; ++rank) {
    ranks.workloads.push_back(std::make_unique<SharedWorkload>(shares, rank));
    ranks.results.emplace_back(fail(ErrorKind::Internal, "did not end"));
    stops.push_back(std::make_unique<StopToken>());
    if (prepare) prepare(rank, *ranks.workloads.back(), *stops.back());
  }
  comm::run_ranks(world, [&](const std::shared_ptr<comm::Communicator>& communicator) {
    const auto rank = static_cast<size_t>(communicator->rank());
    progress::NullSink sink;
    TrainerContext context{
        .communicator = communicator, .device = c10::kCPU, .progress = sink, .stop = *stops[rank]
    };
    ranks.results[rank] = train(*ranks.workloads[rank], context, options);
  });
  return ranks;
}

// Both runs report the same, to the last bit.
void expect_same(const TrainingResult& expected, const TrainingResult& found) {
  EXPECT_EQ(found.report.parameters_hash, expected.report.parameters_hash);
  ASSERT_EQ(found.epochs.size(), expected.epochs.size());
  for (size_t i = 0; i < found.epochs.size(); ++i) {
    EXPECT_EQ(found.epochs[i].average_loss, expected.epochs[i].average_loss);
    EXPECT_EQ(found.epochs[i].train, expected.epochs[i].train);
    EXPECT_EQ(found.epochs[i].validation, expected.epochs[i].validation);
  }
}

TEST(Replicas, AreMeasuredAsOneModelInEveryEvaluation) {
  const Ranks ranks = train_ranks(shares_of({3, 3, 2}), options_for(2));
  const std::vector<at::Tensor>& expected = ranks.workloads[0]->measured;
  ASSERT_EQ(expected.size(), 8U);
  for (size_t rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(ranks.results[rank]) << ranks.results[rank].error().message;
    EXPECT_TRUE(same_bits(ranks.workloads[rank]->measured, expected)) << "rank " << rank;
    EXPECT_EQ(ranks.results[rank]->report.parameters_hash, ranks.first().report.parameters_hash);
  }
}

TEST(Replicas, ResumeWithTheBuffersOfTheRankThatHasTheNextBatch) {
  // Rank 0 has its only batch in the first step: from then on the buffers are rank 1's.
  const Shares shares = shares_of({1, 4, 3});
  const Ranks whole = train_ranks(shares, options_for(3));
  ASSERT_TRUE(whole.results[0]) << whole.results[0].error().message;
  for (const int64_t stop_at : {1, 2, 3, 4, 6}) {
    SCOPED_TRACE(stop_at);
    const TemporaryFolder folder;
    TrainerOptions options = options_for(3);
    options.checkpoint = checkpoints_in(folder);
    const Ranks stopped =
        train_ranks(shares, options, [&](int64_t rank, SharedWorkload& workload, StopToken& stop) {
          if (rank != 1) return;
          workload.on_batch = [stop_at, &stop](int64_t fetched) {
            if (fetched == stop_at) stop.request();
          };
        });
    ASSERT_TRUE(stopped.results[0]) << stopped.results[0].error().message;
    EXPECT_EQ(stopped.first().report.global_steps, stop_at);
    const Ranks resumed = train_ranks(shares, options);
    ASSERT_TRUE(resumed.results[0]) << resumed.results[0].error().message;
    expect_same(whole.first(), resumed.first());
  }
}

TEST(Replicas, GiveUpAStepOfSeveralBatchesToStopAndResumeWithTheSameBits) {
  const Shares shares = shares_of({9, 8});
  TrainerOptions options = options_for(2);
  options.training.gradient_accumulation = 3;
  const Ranks whole = train_ranks(shares, options);
  ASSERT_TRUE(whole.results[0]) << whole.results[0].error().message;

  // The request comes with the second of the three batches of step 1.
  const TemporaryFolder folder;
  options.checkpoint = checkpoints_in(folder);
  const Ranks stopped =
      train_ranks(shares, options, [](int64_t rank, SharedWorkload& workload, StopToken& stop) {
        if (rank != 1) return;
        workload.on_batch = [&stop](int64_t fetched) {
          if (fetched == 5) stop.request();
        };
      });
  for (const Result<TrainingResult>& result : stopped.results) {
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_TRUE(result->stopped);
    EXPECT_EQ(result->report.global_steps, 1);
  }
  const Ranks resumed = train_ranks(shares, options);
  ASSERT_TRUE(resumed.results[0]) << resumed.results[0].error().message;
  expect_same(whole.first(), resumed.first());
}

constexpr int64_t kBatchesOfAStep = 3;  // per rank

// The batches of each step, by rank.
std::vector<Shares> deal_steps(int64_t world, bool uneven) {
  std::vector<Shares> steps(10, Shares(static_cast<size_t>(world)));
  int64_t batch = 0;
  for (Shares& step : steps) {
    for (int64_t rank = 0; rank < world; ++rank) {
      const int64_t lacking = uneven && &step == &steps.back() ? rank : 0;
      for (int64_t i = lacking; i < kBatchesOfAStep; ++i)
        step[static_cast<size_t>(rank)].push_back(batch++);
    }
  }
  return steps;
}

Shares shares_of_steps(const std::vector<Shares>& steps) {
  Shares shares(steps[0].size());
  for (const Shares& step : steps)
    for (size_t rank = 0; rank < step.size(); ++rank)
      shares[rank].insert(shares[rank].end(), step[rank].begin(), step[rank].end());
  return shares;
}

struct AloneOptions {
  bool weigh = true;
  std::optional<double> max_norm = {};
  at::Tensor class_weights = {};
};

// What one process has at the end of an epoch.
struct Alone {
  std::unique_ptr<SharedWorkload> workload;
  double average_loss = 0;
};

// One process that takes all batches of a step by plain backward: the gradient is the mean over the
// items, by their weights, or else over the batches.
Alone accumulate_alone(
    const std::vector<Shares>& steps, double learning_rate, const AloneOptions& options
) {
  Shares all(1);
  for (const Shares& step : steps)
    for (const auto& of_rank : step) all[0].insert(all[0].end(), of_rank.begin(), of_rank.end());
  auto workload = std::make_unique<SharedWorkload>(all, 0);
  workload->class_weights = options.class_weights;
  workload->module().train();
  double loss_sum = 0;
  double weight_sum = 0;
  torch::optim::SGD sgd(workload->module().parameters(), torch::optim::SGDOptions(learning_rate));
  EXPECT_TRUE(workload->start_epoch(0, 0));
  for (const Shares& step : steps) {
    sgd.zero_grad();
    double weights = 0;
    for (const auto& of_rank : step) {
      for (size_t i = 0; i < of_rank.size(); ++i) {
        const int64_t items = workload->next_batch()->value().items;
        const Scores scores = workload->forward();
        const double of_items = workload->loss_weight(scores).value_or(static_cast<double>(items));
        const double weight = options.weigh ? of_items : 1;
        const at::Tensor loss = workload->loss(scores);
        (loss * weight).backward();
        weights += weight;
        loss_sum += loss.item<double>() * of_items;
        weight_sum += of_items;
      }
    }
    const std::vector<at::Tensor> parameters = sgd.parameters();
    for (const at::Tensor& parameter : parameters) parameter.mutable_grad().div_(weights);
    if (options.max_norm) torch::nn::utils::clip_grad_norm_(parameters, *options.max_norm);
    sgd.step();
  }
  return {.workload = std::move(workload), .average_loss = loss_sum / weight_sum};
}

void expect_equal_parameters(Workload& found, Workload& expected) {
  const std::vector<at::Tensor> ours = found.module().parameters();
  const std::vector<at::Tensor> theirs = expected.module().parameters();
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_LE((ours[i] - theirs[i]).abs().max().item<double>(), 1e-9);
}

// Weighed by their sizes, the batches of the last step may differ in number: rank r lacks r of them,
// and the fourth rank has none. Otherwise only equal numbers give the mean over all batches.
TEST(Replicas, AccumulateToTheParametersOfOneProcessOnTheSameBatches) {
  for (const int64_t world : {1, 2, 3, 4}) {
    for (const bool weigh : {true, false}) {
      SCOPED_TRACE(std::to_string(world) + (weigh ? " ranks, weighed" : " ranks"));
      const std::vector<Shares> steps = deal_steps(world, /*uneven=*/weigh);
      TrainerOptions options = options_for(1);
      options.training.weigh_by_batch_size = weigh;
      options.training.optimizer.type = api::OptimizerType::SGD;
      options.training.optimizer.learning_rate.text = "0.05";
      options.training.gradient_accumulation = kBatchesOfAStep;
      const Ranks ranks = train_ranks(shares_of_steps(steps), options);
      ASSERT_TRUE(ranks.results[0]) << ranks.results[0].error().message;
      EXPECT_EQ(ranks.first().report.global_steps, std::ssize(steps));
      const Alone alone = accumulate_alone(steps, 0.05, {.weigh = weigh});
      for (const auto& workload : ranks.workloads)
        expect_equal_parameters(*workload, *alone.workload);
    }
  }
}

TrainerOptions one_weighed_epoch() {
  TrainerOptions options = options_for(1);
  options.training.weigh_by_batch_size = true;
  options.training.optimizer.type = api::OptimizerType::SGD;
  options.training.optimizer.learning_rate.text = "0.5";
  options.training.gradient_accumulation = kBatchesOfAStep;
  return options;
}

// After accumulation and reduction, with the bits of one rank on all.
TEST(Replicas, ClipTheGradientsOfOneProcessOnTheSameBatches) {
  for (const int64_t world : {1, 3}) {
    SCOPED_TRACE(world);
    const std::vector<Shares> steps = deal_steps(world, /*uneven=*/true);
    TrainerOptions options = one_weighed_epoch();
    options.training.optimizer.max_gradient_norm = api::Decimal{"0.2"};
    const Ranks ranks = train_ranks(shares_of_steps(steps), options);
    ASSERT_TRUE(ranks.results[0]) << ranks.results[0].error().message;
    const Alone alone = accumulate_alone(steps, 0.5, {.max_norm = 0.2});
    for (size_t rank = 0; rank < ranks.workloads.size(); ++rank) {
      expect_equal_parameters(*ranks.workloads[rank], *alone.workload);
      EXPECT_EQ(ranks.results[rank]->report.parameters_hash, ranks.first().report.parameters_hash);
    }
    const Alone unclipped = accumulate_alone(steps, 0.5, {});
    EXPECT_NE(alone.average_loss, unclipped.average_loss);
  }
}

TEST(Replicas, WeighClassesAsOneProcessOnTheSameBatches) {
  const at::Tensor weights = at::tensor({0.2, 1.0, 5.0}, at::kDouble);
  for (const int64_t world : {1, 3}) {
    SCOPED_TRACE(world);
    const std::vector<Shares> steps = deal_steps(world, /*uneven=*/true);
    const Ranks ranks = train_ranks(
        shares_of_steps(steps),
        one_weighed_epoch(),
        [&](int64_t, SharedWorkload& workload, StopToken&) { workload.class_weights = weights; }
    );
    ASSERT_TRUE(ranks.results[0]) << ranks.results[0].error().message;
    const Alone alone = accumulate_alone(steps, 0.5, {.class_weights = weights});
    for (const auto& workload : ranks.workloads)
      expect_equal_parameters(*workload, *alone.workload);
    EXPECT_NEAR(ranks.first().epochs[0].average_loss, alone.average_loss, 1e-7);
  }
}

TEST(Replicas, FailTogetherWhenABufferOfOneRankIsInfinite) {
  const TemporaryFolder folder;
  TrainerOptions options = options_for(1);
  options.checkpoint = checkpoints_in(folder);
  const Ranks ranks = train_ranks(
      shares_of({2, 2}),
      options,
      [](int64_t rank, SharedWorkload& workload, StopToken&) {
        if (rank != 1) return;
        workload.after_forward = [](NormNet& net) {
          const at::NoGradGuard no_grad;
          net.named_buffers()["unused"].fill_(std::numeric_limits<double>::infinity());
        };
      }
  );
  for (const Result<TrainingResult>& result : ranks.results) {
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().kind, ErrorKind::Configuration);
  }
  EXPECT_THAT(ranks.results[1].error().message, HasSubstr("unused holds a NaN or an infinity"));
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder.path()))
    EXPECT_NE(file.path().extension(), ".manifest");
}

}  // namespace
}  // namespace gnn::training
