// Ranks train tables of rows through train(): on shares of unequal length, stopped and resumed.

#include "tests/support/temporary_folder.h"
#include "tests/worker/comm/in_process_ranks.h"
#include "tests/worker/training/linear_net.h"
#include "tests/worker/training/trainer_runs.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/embedding/embeddings.h"
#include "worker/progress/console_sink.h"
#include "worker/training/learning_rate.h"
#include "worker/training/parameters_hash.h"
#include "worker/training/trainer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gnn::training {
namespace {

using gnn::testing::TemporaryFolder;
using ::testing::HasSubstr;

constexpr int64_t kRows = 40;

struct RowOptions {
  api::EmbeddingUpdate update = api::EmbeddingUpdate::Dense;
  std::vector<int64_t> batches_per_rank = {3};
};

// Each batch reads some rows of a table, and learns what their ids leave when divided by 3.
class RowWorkload final : public Workload {
 public:
  RowWorkload(const RowOptions& options, comm::Communicator& communicator)
      : batches_(options.batches_per_rank), rank_(communicator.rank()) {
    net_ = std::make_shared<LinearNet>();
    embedding::EmbeddingOptions tables;
    tables.tables = {{"node", kRows, 4}};
    tables.update = options.update;
    tables.seed = 3;
    tables.dtype = at::kDouble;
    embeddings_ = comm::require(embedding::Embeddings::create(tables, communicator));
  }

  ~RowWorkload() override {
    if (on_destroy) on_destroy(*embeddings_);
  }

  torch::nn::Module& module() override { return *net_; }
  embedding::Embeddings* embeddings() override { return &*embeddings_; }
  const std::vector<int64_t>& batches_per_rank() const override { return batches_; }
  Status start_epoch(int64_t, int64_t first_batch) override {
    next_ = first_batch;
    return {};
  }
  Result<std::optional<BatchSize>> next_batch() override {
    if (next_ == batches_[static_cast<size_t>(rank_)]) return std::optional<BatchSize>();
    const int64_t first = (7 * rank_ + 5 * next_++) % (kRows - 10);
    ids_ = at::arange(first, first + 10, 3, at::kLong);
    ++fetched_;
    if (on_batch) on_batch(fetched_);
    return BatchSize{.items = ids_.numel(), .sampled_edges = 0, .input_nodes = 0};
  }
  Scores forward() override {
    return {net_->forward(embeddings_->read(0, ids_)) * scale, ids_ % 3};
  }
  at::Tensor loss(const Scores& scores) const override { return cross_entropy(scores); }
  at::Tensor count_correct(const Scores& scores) const override {
    return training::count_correct(scores);
  }
  bool has(Part part) const override { return part == Part::Validation; }
  Result<Evaluated> evaluate(Part, const EvaluationContext&) override {
    const at::Tensor all = at::arange(kRows, at::kLong);
    return progress::accuracy(
        count_correct({net_->forward(embeddings_->read(0, all)), all % 3}).item<int64_t>(), kRows
    );
  }

  std::function<void(int64_t)> on_batch;  // given how many were fetched so far
  std::function<void(embedding::Embeddings&)> on_destroy;
  double scale = 1;

 private:
  std::vector<int64_t> batches_;
  int64_t rank_;
  std::shared_ptr<LinearNet> net_;
  std::optional<embedding::Embeddings> embeddings_;
  at::Tensor ids_;
  int64_t next_ = 0;
  int64_t fetched_ = 0;
};

using PrepareRows = std::function<void(int64_t rank, RowWorkload& workload, StopToken& stop)>;

// What the ranks have at the end.
std::vector<Result<TrainingResult>> train_rows(
    const RowOptions& rows, const TrainerOptions& options, const PrepareRows& prepare = nullptr
) {
  const size_t world = rows.batches_per_rank.size();
  std::vector<Result<TrainingResult>> results;
  for (size_t rank = 0; rank < world; ++rank)
    results.emplace_back(fail(ErrorKind::Internal, "did not end"));
  const auto body = [&](const std::shared_ptr<comm::Communicator>& communicator) {
    const int64_t rank = communicator->rank();
    RowWorkload workload(rows, *communicator);
    StopToken stop;
    if (prepare) prepare(rank, workload, stop);
    progress::NullSink sink;
    TrainerContext context{
        .communicator = communicator, .device = c10::kCPU, .progress = sink, .stop = stop
    };
    results[static_cast<size_t>(rank)] = train(workload, context, options);
  };
  if (world == 1) {
    body(comm::make_single_communicator());
  } else {
    comm::run_ranks(static_cast<int64_t>(world), body);
  }
  return results;
}

std::string hash_at_end(const std::vector<Result<TrainingResult>>& results) {
  std::string hash;
  for (const auto& result : results) {
    EXPECT_TRUE(result) << result.error().message;
    if (!result) return "failed";
    if (hash.empty()) hash = result->report.parameters_hash;
    EXPECT_EQ(result->report.parameters_hash, hash) << "ranks differ";
  }
  return hash;
}

TEST(TrainedRows, LowerTheLossWithTheSameBitsOnAllRanks) {
  for (const auto update : {api::EmbeddingUpdate::Dense, api::EmbeddingUpdate::Lazy}) {
    const RowOptions rows{.update = update, .batches_per_rank = {3, 1, 2}};
    const auto results = train_rows(rows, options_for(40));
    hash_at_end(results);
    const auto& epochs = results[0]->epochs;
    EXPECT_LT(epochs.back().average_loss, epochs.front().average_loss / 2);
  }
}

TEST(TrainedRows, ResumeWithTheSameBitsWhereverTheyStopped) {
  for (const auto update : {api::EmbeddingUpdate::Dense, api::EmbeddingUpdate::Lazy}) {
    const RowOptions rows{.update = update, .batches_per_rank = {2, 4}};
    const std::string whole = hash_at_end(train_rows(rows, options_for(4)));
    for (const int64_t stop_at : {1, 3, 4, 7, 10}) {
      SCOPED_TRACE(stop_at);
      const TemporaryFolder folder;
      TrainerOptions options = options_for(4);
      options.checkpoint = checkpoints_in(folder);
      const auto ask = [&](int64_t rank, RowWorkload& workload, StopToken& stop) {
        if (rank != 1) return;
        workload.on_batch = [&](int64_t fetched) {
          if (fetched == stop_at) stop.request();
        };
      };
      EXPECT_NE(hash_at_end(train_rows(rows, options, ask)), whole);
      EXPECT_EQ(hash_at_end(train_rows(rows, options)), whole);
    }
  }
}

// Keeps what a rank says of its steps.
class StepsSink final : public progress::NullSink {
 public:
  void on_step(const progress::StepReport& report) override { steps.push_back(report); }
  std::vector<progress::StepReport> steps;
};

// One step of one rank, by plain backward on the whole table.
TEST(TrainedRows, CountInTheNormOfTheGradientsAndAreClippedWithThem) {
  const auto single = comm::make_single_communicator();
  const RowOptions rows{.batches_per_rank = {1}};
  RowWorkload reference(rows, *single);
  ASSERT_TRUE(reference.start_epoch(0, 0) && reference.next_batch());
  const at::Tensor table = reference.embeddings()->values(0).requires_grad_(true);
  const at::Tensor ids = at::arange(0, 10, 3, at::kLong);
  auto& net = dynamic_cast<LinearNet&>(reference.module());
  cross_entropy({net.forward(table.index_select(0, ids)), ids % 3}).backward();
  double squares = table.grad().square().sum().item<double>();
  for (const at::Tensor& parameter : net.parameters())
    squares += parameter.grad().square().sum().item<double>();

  TrainerOptions options = options_for(1);
  options.training.optimizer.max_gradient_norm = api::Decimal{"0.1"};
  RowWorkload workload(rows, *single);
  StepsSink sink;
  const StopToken stop;
  TrainerContext context{
      .communicator = single, .device = c10::kCPU, .progress = sink, .stop = stop
  };
  ASSERT_TRUE(train(workload, context, options));
  ASSERT_EQ(sink.steps.size(), 1U);
  const double norm = std::sqrt(squares);
  ASSERT_GT(norm, 0.2) << "there is something to clip";
  EXPECT_NEAR(*sink.steps[0].gradient_norm, norm, 1e-12);
  // Adam's first moment after a step is a tenth of the gradient.
  const at::Tensor moments = workload.embeddings()->state().at(0).tensor.select(1, 1);
  EXPECT_TRUE(at::allclose(moments, 0.1 * table.grad() * (0.1 / norm), 1e-5, 1e-12));
}

// The schedule's rates are what rows that rest are caught up by.
TEST(TrainedRows, FollowTheScheduleAndResumeWithTheSameBits) {
  const RowOptions rows{.batches_per_rank = {2, 4}};
  TrainerOptions options = options_for(4);
  options.training.optimizer.schedule = api::LearningRateSchedule{
      .type = api::ScheduleType::Cosine, .interval = api::ScheduleInterval::Step
  };
  options.training.optimizer.schedule->warmup = api::Warmup{.length = 3};
  std::vector<double> rates;
  const std::string whole =
      hash_at_end(train_rows(rows, options, [&](int64_t rank, RowWorkload& workload, StopToken&) {
        if (rank != 0) return;
        workload.on_destroy = [&rates](embedding::Embeddings& embeddings) {
          const at::Tensor found = embeddings.state().back().tensor;
          rates.assign(found.data_ptr<double>(), found.data_ptr<double>() + found.numel());
        };
      }));
  const LearningRate expected = comm::require(LearningRate::create(options.training, 4));
  ASSERT_EQ(rates.size(), 16U);
  for (int64_t step = 0; step < 16; ++step)
    EXPECT_EQ(rates[static_cast<size_t>(step)], expected.at({.epoch = step / 4, .step = step % 4}));

  for (const int64_t stop_at : {2, 5, 11}) {
    SCOPED_TRACE(stop_at);
    const TemporaryFolder folder;
    options.checkpoint = checkpoints_in(folder);
    const auto ask = [&](int64_t rank, RowWorkload& workload, StopToken& stop) {
      if (rank != 1) return;
      workload.on_batch = [&](int64_t fetched) {
        if (fetched == stop_at) stop.request();
      };
    };
    EXPECT_NE(hash_at_end(train_rows(rows, options, ask)), whole);
    EXPECT_EQ(hash_at_end(train_rows(rows, options)), whole);
  }
}

TEST(TrainedRows, ForgetAStepOfSeveralBatchesThatIsGivenUp) {
  const RowOptions rows{.batches_per_rank = {9, 8}};
  TrainerOptions options = options_for(2);
  options.training.gradient_accumulation = 3;
  const std::string whole = hash_at_end(train_rows(rows, options));
  const TemporaryFolder folder;
  options.checkpoint = checkpoints_in(folder);
  const auto stopped =
      train_rows(rows, options, [](int64_t rank, RowWorkload& workload, StopToken& stop) {
        if (rank != 1) return;
        workload.on_batch = [&stop](int64_t fetched) {
          if (fetched == 5) stop.request();
        };
      });
  hash_at_end(stopped);
  EXPECT_EQ(stopped[0]->report.global_steps, 1);
  EXPECT_EQ(hash_at_end(train_rows(rows, options)), whole);
}

TEST(TrainedRows, AreThoseOfOneRankWhereTheOtherOnlyShadows) {
  const auto loss_of = [](const std::vector<int64_t>& batches) {
    TrainerOptions options = options_for(6);
    options.training.weigh_by_batch_size = true;
    options.training.gradient_accumulation = 2;
    const auto results = train_rows({.batches_per_rank = batches}, options);
    hash_at_end(results);
    return results[0]->epochs.back().average_loss;
  };
  EXPECT_NEAR(loss_of({4}), loss_of({4, 0}), 1e-12);
}

TEST(TrainedRows, OfALossThatIsNotANumberLeaveThatToTheLoss) {
  const auto results = train_rows(
      {.batches_per_rank = {2, 2}},
      options_for(1),
      [](int64_t rank, RowWorkload& workload, StopToken&) {
        if (rank == 0) workload.scale = std::numeric_limits<double>::quiet_NaN();
      }
  );
  for (const auto& result : results) {
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error().message, HasSubstr("the loss is nan"));
  }
}

TEST(TrainedRows, OfACheckpointNeedAJobThatHasThem) {
  const TemporaryFolder folder;
  TrainerOptions options = options_for(1);
  options.checkpoint = checkpoints_in(folder);
  hash_at_end(train_rows({}, options));
  options.training.epochs = 2;
  const auto other = train_rows({.update = api::EmbeddingUpdate::Lazy}, options);
  ASSERT_FALSE(other[0]);
  EXPECT_EQ(other[0].error().kind, ErrorKind::Configuration);
  EXPECT_THAT(other[0].error().message, HasSubstr("embeddings/"));
}

TEST(TrainedRows, ArePartOfTheParametersHash) {
  const auto single = comm::make_single_communicator();
  const std::vector<at::Tensor> none;
  RowWorkload workload({}, *single);
  embedding::Embeddings& embeddings = *workload.embeddings();
  const std::string before = hash_of(none, embeddings);
  EXPECT_EQ(before, hash_of({embeddings.values(0)}));
  embeddings.read(0, at::zeros({1}, at::kLong)).sum().backward();
  comm::require(embeddings.apply(*single, {.learning_rate = 0.1}));
  EXPECT_NE(hash_of(none, embeddings), before);
}

}  // namespace
}  // namespace gnn::training
