// Ranks train on links through train(): a model and embeddings, on shares of unequal length.

#include "tests/worker/comm/in_process_ranks.h"
#include "tests/worker/tasks/link_datasets.h"
#include "worker/progress/console_sink.h"
#include "worker/tasks/link_workload.h"
#include "worker/tasks/models.h"
#include "worker/training/optimizer.h"
#include "worker/training/trainer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace gnn::tasks {
namespace {

constexpr int64_t kChannels = 4;
constexpr int64_t kBuyers = 40;
constexpr int64_t kWares = 24;

struct Case {
  int64_t world = 1;
  int64_t batch_size = 1;
  int64_t accumulation = 1;
  api::UnevenInputs uneven = api::UnevenInputs::Shadow;
};

LinkWorkloadOptions options_of(const Case& of) {
  LinkWorkloadOptions options{.sampling = {.fanout = {3, 2}}, .training = {}, .split_seed = 5};
  options.sampling.exclude_seed_edges = true;
  options.sampling.negatives = api::Negatives{.amount = api::Decimal{"1.5"}, .strict = true};
  options.training.epochs = 2;
  options.training.seed = 5;
  options.training.batch_size = of.batch_size;
  options.training.gradient_accumulation = of.accumulation;
  options.training.uneven_inputs = of.uneven;
  options.training.weigh_by_batch_size = true;
  options.training.optimizer.learning_rate = api::Decimal{"0.02"};
  return options;
}

struct Parts {
  SplitDataset data;
  std::shared_ptr<nn::LinkModel> model;
};

// 160 links, 112 of them to train on.
Parts make_parts() {
  graph::Dataset dataset = two_tastes(kBuyers, kWares, 4);
  LinkSplit split =
      split_links(links_of(dataset), {.validation = 0.1, .test = 0.2, .seed = 5}).value();
  SilentProgressBar silent;
  const Status added =
      add_co_occurrence(dataset, {.node = "item", .through = "user"}, split, {}, silent);
  EXPECT_TRUE(added) << added.error().message;
  torch::manual_seed(5);
  api::Model model;
  model.type = api::ModelType::BipartiteSAGE;
  model.bipartite_sage =
      api::BipartiteSage{.hidden_channels = kChannels, .out_channels = kChannels};
  auto made = make_link_model(
                  model, {.dataset = dataset, .link = 0, .widths = {kChannels, kChannels}}
  ).value();
  made->to(at::kDouble);
  return {{std::move(dataset), std::move(split)}, std::move(made)};
}

// Collective.
std::unique_ptr<LinkWorkload> make_workload(
    Parts parts,
    const LinkWorkloadOptions& options,
    const std::shared_ptr<comm::Communicator>& communicator
) {
  LinkInputs inputs{.embeddings = std::nullopt, .tables = {0, 1}};
  inputs.embeddings = comm::require(embedding::Embeddings::create(
      {.tables =
           {{.name = "user", .rows = kBuyers, .width = kChannels},
            {.name = "item", .rows = kWares, .width = kChannels}},
       .optimizer = options.training.optimizer,
       .seed = 5,
       .dtype = at::kDouble},
      *communicator
  ));
  return comm::require(LinkWorkload::create(
      std::move(parts.data), parts.model, std::move(inputs), {communicator}, options
  ));
}

std::vector<at::Tensor> values_of(LinkWorkload& workload) {
  std::vector<at::Tensor> values;
  for (const at::Tensor& parameter : workload.module().parameters())
    values.push_back(parameter.detach());
  for (size_t table = 0; table < 2; ++table) values.push_back(workload.embeddings()->values(table));
  return values;
}

// One process that takes the batches of all ranks, step by step, by plain backward: the gradient is
// the mean over the items of a step.
std::vector<at::Tensor> accumulate_alone(const Case& of, const std::vector<int64_t>& per_rank) {
  const auto single = comm::make_single_communicator();
  const LinkWorkloadOptions options = options_of({.batch_size = of.batch_size});
  const auto workload = make_workload(make_parts(), options, single);
  workload->module().train();
  const auto adam =
      training::make_optimizer(options.training.optimizer, workload->module().parameters());
  const int64_t most = std::ranges::max(per_rank);
  for (int64_t epoch = 0; epoch < options.training.epochs; ++epoch) {
    for (int64_t step = 0; step * of.accumulation < most; ++step) {
      adam->zero_grad();
      double items = 0;
      int64_t first_of_rank = 0;
      for (const int64_t batches : per_rank) {
        const int64_t begin = step * of.accumulation;
        for (int64_t batch = begin; batch < std::min(begin + of.accumulation, batches); ++batch) {
          comm::require(workload->start_epoch(epoch, first_of_rank + batch));
          const auto size = static_cast<double>(comm::require(workload->next_batch())->items);
          (workload->loss(workload->forward()) * size).backward();
          items += size;
        }
        first_of_rank += batches;
      }
      for (const at::Tensor& parameter : workload->module().parameters())
        parameter.mutable_grad().div_(items);
      adam->step();
      comm::require(workload->embeddings()->apply(
          *single,
          {.factor = 1 / items, .learning_rate = options.training.optimizer.learning_rate.value()}
      ));
    }
  }
  return values_of(*workload);
}

void expect_those_of_one_process(const Case& of) {
  std::vector<Parts> parts;
  for (int64_t rank = 0; rank < of.world; ++rank) parts.push_back(make_parts());
  std::vector<std::vector<at::Tensor>> found(parts.size());
  std::vector<std::vector<int64_t>> batches(parts.size());
  comm::run_ranks(of.world, [&](const std::shared_ptr<comm::Communicator>& communicator) {
    const auto rank = static_cast<size_t>(communicator->rank());
    const LinkWorkloadOptions options = options_of(of);
    const auto workload = make_workload(std::move(parts[rank]), options, communicator);
    progress::NullSink sink;
    StopToken stop;
    training::TrainerContext context{.communicator = communicator, .progress = sink, .stop = stop};
    comm::require(training::train(*workload, context, {.training = options.training}));
    found[rank] = values_of(*workload);
    batches[rank] = workload->batches_per_rank();
  });
  const std::vector<at::Tensor> alone = accumulate_alone(of, batches[0]);
  for (const std::vector<at::Tensor>& of_rank : found) {
    ASSERT_EQ(of_rank.size(), alone.size());
    for (size_t i = 0; i < alone.size(); ++i)
      EXPECT_LE((of_rank[i] - alone[i]).abs().max().item<double>(), 1e-9) << "tensor " << i;
  }
}

// The last rank has the last of the 112 links, so that the ranks' batches, one after the other, are
// those of one process: the last batch is smaller, or else the last of three ranks has one less.
TEST(LinkRanks, AreOneProcessThatAccumulatesTheSameBatches) {
  using Deal = std::pair<int64_t, int64_t>;  // ranks, links of a batch
  for (const auto& [world, links] : {Deal{1, 15}, {2, 15}, {3, 13}, {3, 14}, {4, 15}}) {
    for (const int64_t accumulation : {1, 3}) {
      SCOPED_TRACE(
          std::to_string(world) + " ranks, batches of " + std::to_string(links) + ", " +
          std::to_string(accumulation) + " in a step"
      );
      expect_those_of_one_process(
          {.world = world, .batch_size = links, .accumulation = accumulation}
      );
    }
  }
}

TEST(LinkRanks, WithoutABatchOfTheirOwnHaveTheModelOfTheOthers) {
  for (const auto uneven : {api::UnevenInputs::Shadow, api::UnevenInputs::Join})
    expect_those_of_one_process({.world = 3, .batch_size = 60, .uneven = uneven});
}

}  // namespace
}  // namespace gnn::tasks
