// Test accuracy of GraphSAGE on a generated graph of ogbn-arxiv's shape, a tenth of its labels drawn
// again, trained in Float32 and in BFloat16 from the same seeds and evaluated exactly. Prints both for
// each seed, and the difference of their means; fails if BFloat16 loses more than is allowed.
#include "common/progress_bar.h"
#include "common/stop_token.h"
#include "tests/support/must.h"
#include "tests/worker/training/batch_workload.h"
#include "worker/comm/ddp.h"
#include "worker/graph/load.h"
#include "worker/loader/feature_fetcher.h"
#include "worker/loader/node_loader.h"
#include "worker/loader/tensor_memory.h"
#include "worker/nn/models/graph_sage.h"
#include "worker/progress/console_sink.h"
#include "worker/training/evaluator.h"
#include "worker/training/step_runner.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <CLI/CLI.hpp>
#include <torch/utils.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <string>

namespace gnn::bench {
namespace {

using testing::must;

struct Arguments {
  std::string scale = "0.2";
  int64_t seeds = 3;
  int64_t epochs = 5;
  int64_t hidden = 256;
  int threads = 2;
  double most_loss = 0.003;
};

graph::Dataset generate(const Arguments& arguments) {
  api::Dataset spec;
  spec.format = api::DatasetFormat::Synthetic;
  spec.synthetic = api::Synthetic{
      .shape = api::SyntheticShape::Arxiv,
      .scale = api::Decimal{arguments.scale},
      .flipped_labels = api::Decimal{"0.1"}
  };
  SilentProgressBar silent;
  return must(graph::load_dataset(spec, {}, silent));
}

std::unique_ptr<loader::BatchSource<loader::MiniBatch>> batches_of(
    const graph::Dataset& data, int64_t seed, loader::RowType rows
) {
  loader::NodeLoaderOptions options;
  options.sampling.fanout = {10, 10, 10};
  options.sampling.rule = sampling::SamplingRule::AllSeen;
  options.items.batch_size = 1024;
  options.items.shuffle = true;
  options.items.seed = static_cast<uint64_t>(seed);
  const auto fetcher =
      std::make_shared<loader::LocalFeatureFetcher>(must(loader::LocalFeatureFetcher::create(
          data.features().rows(), loader::HostMemory::Pageable, rows
      )));
  return must(loader::NodeLoader::create(
      options, data.graph(), data.split.train, fetcher, data.target().labels
  ));
}

double exact_accuracy(nn::NodeModel& model, const graph::Dataset& data) {
  const at::NoGradGuard no_grad;
  const StopToken stop;
  progress::NullSink sink;
  model.eval();
  const auto measures = must(training::evaluate_layer_wise(
      model,
      {.graph = data.graph(), .features = data.features().rows(), .labels = data.target().labels},
      {data.split.test},
      comm::make_single_communicator(),
      {.stop = stop, .progress = sink},
      {}
  ));
  return measures.value().front().value;
}

double train(const Arguments& arguments, const graph::Dataset& data, int64_t seed, bool rounds) {
  torch::manual_seed(static_cast<uint64_t>(seed));
  const auto model = std::make_shared<nn::GraphSageImpl>(nn::GraphSageOptions{
      .in_channels = data.features().width(),
      .hidden_channels = arguments.hidden,
      .out_channels = data.num_classes,
      .layers = 3
  });
  const auto rows = rounds ? loader::RowType::BFloat16 : loader::RowType::AsStored;
  training::BatchWorkload workload(
      batches_of(data, seed, rows), model, rounds ? at::kBFloat16 : at::kFloat
  );
  api::Training training;
  training.seed = seed;
  training.optimizer.learning_rate = api::Decimal{"0.01"};
  const auto communicator = comm::make_single_communicator();
  const StopToken stop;
  progress::NullSink sink;
  auto runner = must(training::StepRunner::create(
      workload,
      {.training = training, .communicator = communicator, .stop = stop, .progress = sink},
      must(comm::DistributedDataParallel::create(
          comm::named_parameters_of(*model), comm::named_buffers_of(*model), communicator
      ))
  ));
  model->train();
  for (int64_t epoch = 0; epoch < arguments.epochs; ++epoch) {
    progress::EpochSums sums;
    progress::StepReport report;
    must(runner.start_epoch({.epoch = epoch}));
    for (int64_t step = 0; step < runner.steps_per_epoch(); ++step)
      static_cast<void>(must(runner.run({.epoch = epoch, .step = step}, sums, report)));
  }
  return exact_accuracy(*model, data);
}

bool measure(const Arguments& arguments) {
  at::set_num_threads(arguments.threads);
  loader::keep_tensor_memory();
  const graph::Dataset data = generate(arguments);
  double in_float = 0;
  double in_bfloat16 = 0;
  for (int64_t seed = 0; seed < arguments.seeds; ++seed) {
    const double first = train(arguments, data, seed, false);
    const double second = train(arguments, data, seed, true);
    std::printf("seed %ld: Float32 %.4f, BFloat16 %.4f\n", static_cast<long>(seed), first, second);
    std::fflush(stdout);
    in_float += first / static_cast<double>(arguments.seeds);
    in_bfloat16 += second / static_cast<double>(arguments.seeds);
  }
  std::printf(
      "mean: Float32 %.4f, BFloat16 %.4f, difference %.4f\n",
      in_float,
      in_bfloat16,
      in_bfloat16 - in_float
  );
  return in_float - in_bfloat16 <= arguments.most_loss;
}

}  // namespace
}  // namespace gnn::bench

int main(int argc, char** argv) {
  gnn::bench::Arguments arguments;
  CLI::App app("Test accuracy in Float32 and BFloat16");
  app.add_option("--scale", arguments.scale, "factor on the nodes of ogbn-arxiv's shape");
  app.add_option("--seeds", arguments.seeds)->check(CLI::PositiveNumber);
  app.add_option("--epochs", arguments.epochs)->check(CLI::PositiveNumber);
  app.add_option("--hidden", arguments.hidden)->check(CLI::PositiveNumber);
  app.add_option("--threads", arguments.threads)->check(CLI::PositiveNumber);
  app.add_option("--most-loss", arguments.most_loss, "of accuracy in BFloat16");
  CLI11_PARSE(app, argc, argv);
  try {
    return gnn::bench::measure(arguments) ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "gnn-precision-accuracy-bench: " << error.what() << '\n';
    return 2;
  }
}
