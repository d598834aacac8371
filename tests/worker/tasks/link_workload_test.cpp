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
#include <set>
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
      add_co_occurrence(dataset, {.node = "item", .through = "user"}, split, {}, silent)
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
      workload->count_correct({at::tensor({1.0, -1.0, 0.0}), at::tensor({1.0, 0.0, 1.0})})
          .item<int64_t>(),
      2
  );
  EXPECT_NEAR(
      workload->loss({at::tensor({0.0, 0.0}), at::tensor({1.0, 0.0})}).item<double>(),
      std::log(2.0),
      1e-6
  );
}

TEST(LinkWorkload, RefusesAFanoutOfAnEdgeTypeThatTheModelDoesNotRead) {
  Options options = defaults();
  const auto add = [&](const char* source, const char* relation, const char* destination) {
    options.sampling.fanout_by_edge_type.push_back(
        {.edge_type = {.source = source, .relation = relation, .destination = destination},
         .fanout = {1, 1}}
    );
  };
  add("item", "rev_to", "user");
  ASSERT_TRUE(make_workload(options));
  for (const char* relation : {"to", "too"}) {
    add("user", relation, "item");
    const auto refused = make_workload(options);
    ASSERT_FALSE(refused) << relation;
    EXPECT_EQ(refused.error().kind, ErrorKind::Configuration);
    EXPECT_EQ(
        refused.error().message,
        "spec.sampling.fanoutByEdgeType[1]: expected an edge type that the model reads, "
        "(item, rev_to, user), (item, to, item), found (user, " +
            std::string(relation) + ", item)"
    );
    options.sampling.fanout_by_edge_type.pop_back();
  }
}

// Notes how many messages each batch has over the reverse of the links.
class NotingModel final : public nn::LinkModel {
 public:
  NotingModel() { score_ = register_module("score", torch::nn::Linear(kWidth, 1)); }
  at::Tensor forward(
      const nn::TypedInputs& x, const nn::TypedBlocks& blocks, const nn::LinkRows& links
  ) override {
    messages.insert(blocks[0][1].indices.numel());
    // The items' only feature is their id.
    if (x[1].defined()) items = x[1].view({-1}).index_select(0, links.destination_rows);
    return score_(x[0].index_select(0, links.source_rows)).view({-1});
  }
  [[nodiscard]] int64_t num_layers() const override { return 1; }
  [[nodiscard]] std::vector<int64_t> reads() const override { return {1}; }

  std::set<int64_t> messages;
  at::Tensor items;  // of the last batch's links

 private:
  torch::nn::Linear score_{nullptr};
};

// A user with 20 links to the even ones of 40 items; 4 links are for validation and 4 for the test.
struct OneUser {
  std::shared_ptr<NotingModel> model = std::make_shared<NotingModel>();
  std::set<int64_t> training_items;
  std::unique_ptr<LinkWorkload> workload;
};

OneUser one_user(const Options& options) {
  OneUser made;
  std::vector<LinkEnds> links;
  for (int64_t item = 0; item < 40; item += 2) links.emplace_back(0, item);
  graph::Dataset dataset = bipartite_dataset(links, 1, 40);
  dataset.node_types[1].features =
      graph::FeatureStore::create(at::arange(40, at::kFloat).view({40, 1})).value();
  LinkSplit split = split_links(
                        links_of(dataset),
                        {.validation = 0.2,
                         .test = 0.2,
                         .disjoint_train = options.disjoint_train,
                         .negative_ratio = 1,
                         .seed = 5}
  )
                        .value();
  for (int64_t i = 0; i < split.train.numel(); ++i)
    made.training_items.insert(2 * split.train[i].item<int64_t>());
  const auto communicator = comm::make_single_communicator();
  LinkInputs inputs{.embeddings = std::nullopt, .tables = {0, -1}};
  inputs.embeddings = embedding::Embeddings::create(
                          {.tables = {{.name = "user", .rows = 1, .width = kWidth}}}, *communicator
  )
                          .value();
  made.workload = LinkWorkload::create(
                      {.dataset = std::move(dataset), .split = std::move(split)},
                      made.model,
                      std::move(inputs),
                      {communicator},
                      {.sampling = options.sampling, .training = options.training}
  )
                      .value();
  return made;
}

// What the batches of each part see.
struct Messages {
  std::set<int64_t> training;
  std::set<int64_t> validation;
  std::set<int64_t> test;
};

Messages messages_with(const Options& options) {
  const OneUser user = one_user(options);
  std::set<int64_t>& noted = user.model->messages;
  const at::NoGradGuard no_grad;
  const StopToken stop;
  progress::NullSink sink;
  Messages found;
  noted.clear();
  EXPECT_TRUE(user.workload->start_epoch(0, 0));
  while (user.workload->next_batch().value()) (void)user.workload->forward();
  found.training = std::exchange(noted, {});
  EXPECT_TRUE(user.workload->evaluate(api::Part::Validation, {.stop = stop, .progress = sink}));
  found.validation = std::exchange(noted, {});
  EXPECT_TRUE(user.workload->evaluate(api::Part::Test, {.stop = stop, .progress = sink}));
  found.test = std::exchange(noted, {});
  return found;
}

Options all_neighbours() {
  Options options = defaults();
  options.sampling.fanout = {-1};
  options.training.batch_size = 4;
  return options;
}

// How many of the items of drawn negatives are those of training links, of held-out ones and of none.
struct DrawnItems {
  int64_t training = 0;
  int64_t held_out = 0;
  int64_t free = 0;
};

DrawnItems negatives_with(const api::Negatives& negatives) {
  Options options = all_neighbours();
  options.sampling.negatives = negatives;
  const OneUser user = one_user(options);
  const at::NoGradGuard no_grad;
  DrawnItems drawn;
  EXPECT_TRUE(user.workload->start_epoch(0, 0));
  while (user.workload->next_batch().value()) {
    const at::Tensor labels = user.workload->forward().labels;
    for (int64_t i = 0; i < labels.numel(); ++i) {
      const auto item = user.model->items[i].item<int64_t>();
      if (labels[i].item<float>() > 0) {
        EXPECT_TRUE(user.training_items.contains(item)) << item;
        continue;
      }
      int64_t& count = user.training_items.contains(item) ? drawn.training
                       : item % 2 == 0                    ? drawn.held_out
                                                          : drawn.free;
      ++count;
    }
  }
  return drawn;
}

TEST(LinkWorkload, DrawsNegativesThatAreTrainingLinksAnewIfTheyAreStrict) {
  const api::Decimal amount{"10"};
  const DrawnItems any = negatives_with({.amount = amount});
  EXPECT_TRUE(any.training > 0 && any.held_out > 0 && any.free > 0);
  const DrawnItems strict = negatives_with({.amount = amount, .strict = true});
  EXPECT_EQ(strict.training, 0);
  EXPECT_GT(strict.held_out, 0) << "training knows nothing of held-out links";
}

TEST(LinkWorkload, WeighsNegativesByTrainingLinksAlone) {
  const DrawnItems drawn =
      negatives_with({.amount = api::Decimal{"10"}, .weights = api::NegativeWeights::Degree});
  EXPECT_EQ(drawn.training, 120);
}

TEST(LinkWorkload, SendsNoMessagesAlongLinksOfItsPartOrALaterOne) {
  Options options = all_neighbours();
  const Messages whole = messages_with(options);
  EXPECT_EQ(whole.training, std::set<int64_t>{12});
  EXPECT_EQ(whole.validation, std::set<int64_t>{12});
  EXPECT_EQ(whole.test, std::set<int64_t>{16});
  options.disjoint_train = 0.5;
  const Messages disjoint = messages_with(options);
  EXPECT_EQ(disjoint.training, std::set<int64_t>{6});
  EXPECT_EQ(disjoint.validation, std::set<int64_t>{12});
}

TEST(LinkWorkload, SendsNoMessagesAlongABatchsOwnLinksIfItIsAskedTo) {
  Options options = all_neighbours();
  options.sampling.exclude_seed_edges = true;
  const Messages found = messages_with(options);
  EXPECT_EQ(found.training, std::set<int64_t>{12 - 4});
  EXPECT_EQ(found.validation, std::set<int64_t>{12}) << "they are no messages anyway";
}

TEST(LinkWorkload, TakesTheFanoutOfAnEdgeTypeAndOfEvaluation) {
  Options options = all_neighbours();
  options.training.evaluation.fanout = std::vector<int64_t>{3};
  const Messages evaluated = messages_with(options);
  EXPECT_EQ(evaluated.training, std::set<int64_t>{12});
  EXPECT_EQ(evaluated.test, std::set<int64_t>{3});
  options.sampling.fanout_by_edge_type = {
      {.edge_type = {.source = "item", .relation = "rev_to", .destination = "user"}, .fanout = {2}}
  };
  EXPECT_EQ(messages_with(options).training, std::set<int64_t>{2});
}

// The links come first, the negatives last: a part of them in this order would be links alone.
TEST(LinkWorkload, MeasuresLinksAndNegativesWhereItMeasuresAPart) {
  Options options = defaults();
  options.training.epochs = 1;
  options.training.evaluation.max_batches = 1;
  for (const auto metric : {api::Metric::AUC, api::Metric::AveragePrecision, api::Metric::Hits}) {
    options.training.evaluation.metric = metric;
    if (metric == api::Metric::Hits) options.training.evaluation.hits_k = 2;
    const progress::Measure measure = *train(options).epochs.back().validation;
    EXPECT_TRUE(measure.value > 0 && measure.value < 1) << measure.metric << ' ' << measure.value;
    EXPECT_TRUE(metric == api::Metric::Hits ? measure.count < 32 : measure.count == 32);
  }
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
