#include "worker/tasks/link_workload.h"

#include "tests/worker/tasks/link_datasets.h"
#include "worker/progress/console_sink.h"
#include "worker/tasks/models.h"
#include "worker/training/trainer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gnn::tasks {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kWidth = 8;

struct Options {
  api::Sampling sampling{.fanout = {3, 2}};
  api::Training training = {};
  double disjoint_train = 0;
};

Options defaults() {
  Options options;
  options.training.batch_size = 32;
  options.training.epochs = 12;
  options.training.seed = 5;
  options.training.optimizer.learning_rate = api::Decimal{"0.02"};
  return options;
}

// Users and items of two tastes, with a BipartiteSAGE and embeddings.
Result<std::unique_ptr<LinkWorkload>> make_workload(const Options& options) {
  graph::Dataset dataset = two_tastes(80, 40, 6);
  LinkSplit split =
      split_links(
          links_of(dataset),
          {.validation = 0.1, .test = 0.2, .disjoint_train = options.disjoint_train, .seed = 5}
      )
          .value();
  SilentProgressBar silent;
  GNN_RETURN_IF_ERROR(
      add_co_occurrence(dataset, {.node = "item", .through = "user"}, split, 1, silent)
  );
  torch::manual_seed(5);
  api::Model model;
  model.type = api::ModelType::BipartiteSAGE;
  model.bipartite_sage = api::BipartiteSage{.hidden_channels = kWidth, .out_channels = kWidth};
  GNN_ASSIGN_OR_RETURN(
      const auto made,
      make_link_model(model, {.dataset = dataset, .link = 0, .widths = {kWidth, kWidth}})
  );
  const auto communicator = comm::make_single_communicator();
  LinkInputs inputs{.embeddings = std::nullopt, .tables = {0, 1}};
  GNN_ASSIGN_OR_RETURN(
      inputs.embeddings,
      embedding::Embeddings::create(
          {.tables =
               {{.name = "user", .rows = 80, .width = kWidth},
                {.name = "item", .rows = 40, .width = kWidth}},
           .optimizer = options.training.optimizer,
           .seed = 5},
          *communicator
      )
  );
  return LinkWorkload::create(
      {.dataset = std::move(dataset), .split = std::move(split)},
      made,
      std::move(inputs),
      {communicator},
      {.sampling = options.sampling, .training = options.training, .split_seed = 5}
  );
}

training::TrainingResult train(const Options& options) {
  const auto workload = make_workload(options).value();
  progress::NullSink sink;
  StopToken stop;
  training::TrainerContext context{
      .communicator = comm::make_single_communicator(), .progress = sink, .stop = stop
  };
  return training::train(*workload, context, {.training = options.training}).value();
}

TEST(LinkWorkload, TrainsToTellTheLinksOfTwoTastes) {
  const training::TrainingResult result = train(defaults());
  const progress::Measure first = *result.epochs.front().validation;
  const progress::Measure last = *result.epochs.back().test;
  EXPECT_EQ(last.metric, "auc");
  EXPECT_EQ(last.count, 2 * 96) << "the test links and as many negatives";
  EXPECT_GT(last.value, 0.75) << "half of the negatives cross the tastes, none of the links does";
  EXPECT_GT(last.value, first.value);
  EXPECT_LT(result.epochs.back().average_loss, result.epochs.front().average_loss);
}

TEST(LinkWorkload, MeasuresWhatIsAskedFor) {
  Options options = defaults();
  options.training.epochs = 1;
  options.training.evaluation.metric = api::Metric::MRR;
  options.training.evaluation.negatives = 7;
  const progress::Measure ranked = *train(options).epochs.back().test;
  EXPECT_EQ(ranked.metric, "mrr");
  EXPECT_EQ(ranked.count, 96);
  EXPECT_GE(ranked.value, 1.0 / 8);
  EXPECT_LE(ranked.value, 1);
  options.training.evaluation = {};
  options.training.evaluation.metric = api::Metric::Hits;
  options.training.evaluation.hits_k = 5;
  const progress::Measure hits = *train(options).epochs.back().test;
  EXPECT_EQ(hits.metric, "hits@5");
  EXPECT_TRUE(hits.value >= 0 && hits.value <= 1);
}

TEST(LinkWorkload, GivesTheSameBitsWithAnyNumberOfLoadingThreads) {
  Options options = defaults();
  options.training.epochs = 2;
  options.sampling.exclude_seed_edges = true;
  options.sampling.negatives =
      api::Negatives{.weights = api::NegativeWeights::Degree, .strict = true};
  options.sampling.num_threads = 0;
  const training::TrainingResult alone = train(options);
  options.sampling.num_threads = 3;
  EXPECT_EQ(train(options).report.parameters_hash, alone.report.parameters_hash);
}

TEST(LinkWorkload, CountsPositivesAndNegativesAsItems) {
  Options options = defaults();
  options.sampling.negatives = api::Negatives{.amount = api::Decimal{"2.5"}};
  const auto workload = make_workload(options).value();
  ASSERT_TRUE(workload->start_epoch(0, 0));
  const auto size = workload->next_batch().value();
  EXPECT_EQ(size->items, 32 + 80);
  const training::Scores scores = workload->forward();
  EXPECT_EQ(scores.labels.sum().item<float>(), 32);
  EXPECT_EQ(
      workload->count_correct({at::tensor({1.0, -1.0, 0.0}), at::tensor({1.0, 0.0, 1.0})}), 2
  );
  EXPECT_NEAR(
      workload->loss({at::tensor({0.0, 0.0}), at::tensor({1.0, 0.0})}).item<double>(),
      std::log(2.0),
      1e-6
  );
}

// A model with a parameter that no score depends on.
class IdleModel final : public nn::LinkModel {
 public:
  IdleModel() {
    used_ = register_module("used", torch::nn::Linear(kWidth, 1));
    idle_ = register_module("idle", torch::nn::Linear(kWidth, 1));
  }
  at::Tensor forward(const nn::TypedInputs& x, const nn::TypedBlocks&, const nn::LinkRows& links)
      override {
    return used_(x[0].index_select(0, links.source_rows)).view({-1});
  }
  [[nodiscard]] int64_t num_layers() const override { return 1; }
  [[nodiscard]] std::vector<int64_t> reads() const override { return {1}; }

 private:
  torch::nn::Linear used_{nullptr};
  torch::nn::Linear idle_{nullptr};
};

TEST(LinkWorkload, NamesAParameterWithoutGradientBeforeTraining) {
  graph::Dataset dataset = two_tastes(80, 40, 6);
  LinkSplit split = split_links(links_of(dataset), {.test = 0.2, .seed = 5}).value();
  const Options options = defaults();
  const auto communicator = comm::make_single_communicator();
  LinkInputs inputs{.embeddings = std::nullopt, .tables = {0, -1}};
  inputs.embeddings = embedding::Embeddings::create(
                          {.tables = {{.name = "user", .rows = 80, .width = kWidth}},
                           .optimizer = options.training.optimizer},
                          *communicator
  )
                          .value();
  const auto refused = LinkWorkload::create(
      {.dataset = std::move(dataset), .split = std::move(split)},
      std::make_shared<IdleModel>(),
      std::move(inputs),
      {communicator},
      {.sampling = {.fanout = {2}}, .training = options.training}
  );
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(refused.error().message, HasSubstr("idle.weight"));
}

}  // namespace
}  // namespace gnn::tasks
