// Our side of the comparison with the baselines: same graph, seeds and work as the scripts beside
// this file, same line of JSON.
#include "common/result.h"
#include "common/stopwatch.h"
#include "tests/bench/training/step_products.h"
#include "tests/support/must.h"
#include "tests/support/npy.h"
#include "worker/graph/csc_graph.h"
#include "worker/loader/node_loader.h"
#include "worker/loader/tensor_memory.h"
#include "worker/nn/models/graph_sage.h"

#include <ATen/ATen.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <torch/nn/functional/loss.h>
#include <torch/optim/adam.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <time.h>
#include <vector>

namespace gnn {
namespace {

using Clock = std::chrono::steady_clock;
using testing::must;

constexpr int64_t kHidden = 256;
constexpr int64_t kWarmUp = 2;

struct Arguments {
  std::string graph;
  std::string mode;
  std::string fanout;
  std::string rule = "new-nodes";
  int64_t batch_size = 1024;
  int64_t batches = 0;
  int threads = 1;
  int64_t sampler_threads = 0;
};

std::vector<int64_t> parse_fanout(const std::string& text) {
  std::vector<int64_t> fanout;
  for (const std::string& part : CLI::detail::split(text, ',')) fanout.push_back(std::stoll(part));
  return fanout;
}

struct Counts {
  int64_t batches = 0;
  int64_t edges = 0;
  int64_t input_nodes = 0;
  double seconds = 0;
  double cpu_seconds = 0;
};

// The CPU time of all threads of this process.
double process_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

nlohmann::json run(const Arguments& arguments) {
  at::set_num_threads(arguments.threads);
  loader::keep_tensor_memory();  // as gnn-worker does
  torch::manual_seed(0);
  const auto load = [&](const std::string& name) {
    return testing::read_npy(arguments.graph + "/" + name + ".npy");
  };
  const at::Tensor indptr = load("indptr");
  const auto graph = must(graph::CscGraph::create(indptr, load("indices"), indptr.numel() - 1));
  const bool gathers = arguments.mode != "sample";
  const bool trains = arguments.mode == "train";
  const at::Tensor labels = load("labels");
  const at::Tensor features = gathers ? load("features") : at::Tensor();
  std::shared_ptr<loader::FeatureFetcher> fetcher;
  if (gathers) {
    fetcher = std::make_shared<loader::LocalFeatureFetcher>(
        must(loader::LocalFeatureFetcher::create(features))
    );
  }
  loader::NodeLoaderOptions options;
  options.sampling.fanout = parse_fanout(arguments.fanout);
  options.sampling.rule = arguments.rule == "all-seen" ? sampling::SamplingRule::AllSeen
                                                       : sampling::SamplingRule::NewNodes;
  options.items.batch_size = arguments.batch_size;
  options.num_threads = arguments.sampler_threads;
  const auto loader =
      must(loader::NodeLoader::create(options, graph, load("seeds"), fetcher, labels));

  const int64_t in = gathers ? features.size(1) : 1;
  const int64_t classes = labels.max().item<int64_t>() + 1;
  nn::GraphSage model(nn::GraphSageOptions{
      .in_channels = in, .hidden_channels = kHidden, .out_channels = classes, .layers = 3
  });
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01));
  std::vector<bench::StepSizes> steps;
  const auto train = [&](const loader::MiniBatch& batch) {
    std::vector<graph::Block> blocks;
    for (const auto& layer : batch.subgraph.blocks) blocks.push_back(layer.front());
    steps.push_back(bench::sizes_of(batch.subgraph));
    const at::Tensor loss =
        torch::nn::functional::cross_entropy(model->forward(batch.x, blocks), batch.y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    return loss.item<double>();
  };

  Counts counts;
  Clock::time_point start;
  double cpu_start = 0;
  if (const auto status = loader->start_epoch(0); !status) {
    throw std::runtime_error(status.error().message);
  }
  for (int64_t index = 0; index < arguments.batches + kWarmUp; ++index) {
    if (index == kWarmUp) {
      counts = {};
      start = Clock::now();
      cpu_start = process_cpu_seconds();
      steps.clear();
    }
    auto batch = must(loader->next());
    if (!batch) break;
    if (trains) train(*batch);
    ++counts.batches;
    counts.edges += [&] {
      int64_t edges = 0;
      for (const int64_t hop : batch->subgraph.edges_per_hop.front()) edges += hop;
      return edges;
    }();
    counts.input_nodes += batch->subgraph.node_ids.front().numel();
  }
  counts.seconds = seconds_since(start);
  counts.cpu_seconds = process_cpu_seconds() - cpu_start;

  nlohmann::json result = {
      {"baseline", "gnn-operator"},
      {"mode", arguments.mode},
      {"rule", arguments.rule},
      {"threads", arguments.threads},
      {"batches", counts.batches},
      {"edges", counts.edges},
      {"input_nodes", counts.input_nodes},
      {"seconds", counts.seconds},
      {"cpu_seconds", counts.cpu_seconds},
  };
  if (trains) {
    int64_t max_rows = 0;
    for (const bench::StepSizes& step : steps)
      max_rows = std::max(max_rows, step.front().num_sources);
    using By = bench::StepProducts::By;
    const bench::StepProducts products({in, kHidden, kHidden, classes}, max_rows, at::kFloat);
    for (const By by : {By::LibTorch, By::Worker}) {
      products.run(steps.front(), by);
      const auto begin = Clock::now();
      for (const bench::StepSizes& step : steps) products.run(step, by);
      result[by == By::LibTorch ? "libtorch_products_seconds" : "products_seconds"] =
          seconds_since(begin);
    }
  }
  return result;
}

}  // namespace
}  // namespace gnn

int main(int argc, char** argv) {
  gnn::Arguments arguments;
  CLI::App app("Samples, gathers and trains like the baselines' scripts");
  app.add_option("--graph", arguments.graph)->required();
  app.add_option("--mode", arguments.mode)
      ->required()
      ->check(CLI::IsMember({"sample", "gather", "train"}));
  app.add_option("--fanout", arguments.fanout, "hop next to the seeds first")->required();
  app.add_option("--rule", arguments.rule)->check(CLI::IsMember({"new-nodes", "all-seen"}));
  app.add_option("--batch-size", arguments.batch_size);
  app.add_option("--batches", arguments.batches)->required();
  app.add_option("--threads", arguments.threads);
  app.add_option("--sampler-threads", arguments.sampler_threads, "0: sample between the steps");
  CLI11_PARSE(app, argc, argv);
  try {
    std::printf("%s\n", gnn::run(arguments).dump().c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gnn-baseline-bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
