// A training step of GraphSAGE in Float32 and in BFloat16, by turns on the same batches of a graph of
// ogbn-products' shape: the training loop's own steps on batches that are there, their dense products
// alone, and the bound that follows for products of twice the speed. Prints one JSON object.
#include "common/stopwatch.h"
#include "tests/bench/sampling/bench_graph.h"
#include "tests/bench/training/resident_batches.h"
#include "tests/bench/training/step_products.h"
#include "tests/support/must.h"
#include "tests/worker/training/batch_workload.h"
#include "worker/comm/ddp.h"
#include "worker/loader/feature_fetcher.h"
#include "worker/loader/node_loader.h"
#include "worker/loader/tensor_memory.h"
#include "worker/nn/cpu/bfloat16_products.h"
#include "worker/nn/models/graph_sage.h"
#include "worker/progress/console_sink.h"
#include "worker/training/step_runner.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace gnn::bench {
namespace {

using loader::MiniBatch;
using testing::must;

constexpr int64_t kClasses = 47;
constexpr int64_t kHidden = 256;
constexpr int64_t kBatch = 1024;
// The generator's features run to 999, from which no training goes on.
constexpr double kSmallFeatures = 1e-3;

struct Arguments {
  int threads = 2;
  int64_t batches = 6;
  int64_t rounds = 4;
};

struct Graph {
  std::shared_ptr<BenchGraph> shape;
  graph::CscGraph graph;
  at::Tensor features;
  at::Tensor labels;
};

Graph products_shape() {
  const auto shape = std::make_shared<BenchGraph>(make_products_shape());
  const auto keep = [shape](void*) {};
  const auto width = static_cast<int64_t>(shape->row_bytes / sizeof(float));
  // const_cast: at::from_blob takes no constant; indptr and indices are only read.
  const at::Tensor indptr = at::from_blob(
      const_cast<int64_t*>(shape->relation.indptr), {shape->num_nodes + 1}, keep, at::kLong
  );
  const at::Tensor indices = at::from_blob(
      const_cast<int32_t*>(shape->relation.indices32), {shape->num_edges}, keep, at::kInt
  );
  const at::Tensor features = at::from_blob(
      const_cast<std::byte*>(shape->features), {shape->num_nodes, width}, keep, at::kFloat
  );
  features.mul_(kSmallFeatures);
  return {
      .shape = shape,
      .graph = must(graph::CscGraph::create_unchecked(indptr, indices, shape->num_nodes)),
      .features = features,
      .labels = at::arange(shape->num_nodes, at::kLong) % kClasses,
  };
}

std::shared_ptr<loader::LocalFeatureFetcher> fetcher(
    const at::Tensor& rows, loader::RowType type = loader::RowType::AsStored
) {
  return std::make_shared<loader::LocalFeatureFetcher>(
      must(loader::LocalFeatureFetcher::create(rows, loader::HostMemory::Pageable, type))
  );
}

std::vector<MiniBatch> sample(const Graph& graph, int64_t count) {
  loader::NodeLoaderOptions options;
  options.sampling.fanout = {15, 10, 5};
  options.items.batch_size = kBatch;
  options.num_threads = 0;
  options.items.shuffle = true;
  const at::Tensor ids = at::arange(0, graph.graph.num_destinations(), 12, at::kLong);
  const auto loader = must(
      loader::NodeLoader::create(options, graph.graph, ids, fetcher(graph.features), graph.labels)
  );
  must(loader->start_epoch(0));
  std::vector<MiniBatch> batches;
  for (int64_t i = 0; i < count; ++i) {
    batches.push_back(std::move(*must(loader->next())));
    batches.back().x = batches.back().x.clone();  // not the loader's memory
  }
  return batches;
}

// The steps of a training in one precision, as the trainer runs them.
class Steps {
 public:
  Steps(std::vector<MiniBatch> batches, int64_t steps, at::ScalarType inputs)
      : workload_(
            std::make_unique<bench::ResidentBatches>(as(std::move(batches), inputs), steps),
            make_model(),
            inputs
        ),
        communicator_(comm::make_single_communicator()),
        runner_(must(training::StepRunner::create(
            workload_,
            {.training = training_, .communicator = communicator_, .stop = stop_, .progress = sink_
            },
            must(comm::DistributedDataParallel::create(
                comm::named_parameters_of(workload_.module()),
                comm::named_buffers_of(workload_.module()),
                communicator_
            ))
        ))) {
    workload_.module().train();
    must(runner_.start_epoch({}));
  }

  // Seconds of the next step.
  double run() {
    const auto start = std::chrono::steady_clock::now();
    if (!must(runner_.run({.epoch = 0, .step = step_++}, sums_, report_)))
      throw std::runtime_error("the epoch has too few steps");
    return seconds_since(start);
  }

  [[nodiscard]] double mean_loss() const { return sums_.average_loss(); }

 private:
  // As the loader gives them in a job of that precision.
  static std::vector<MiniBatch> as(std::vector<MiniBatch> batches, at::ScalarType type) {
    for (MiniBatch& batch : batches) batch.x = batch.x.to(type);
    return batches;
  }
  static std::shared_ptr<nn::NodeModel> make_model() {
    torch::manual_seed(1);
    return std::make_shared<nn::GraphSageImpl>(nn::GraphSageOptions{
        .in_channels = 100, .hidden_channels = kHidden, .out_channels = kClasses, .layers = 3
    });
  }

  api::Training training_;
  training::BatchWorkload workload_;
  std::shared_ptr<comm::Communicator> communicator_;
  StopToken stop_;
  progress::NullSink sink_;
  progress::EpochSums sums_;
  progress::StepReport report_;
  training::StepRunner runner_;
  int64_t step_ = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <class Work>
double seconds_of(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return seconds_since(start);
}

// Of one round over all batches, in milliseconds a batch.
using Round = std::map<std::string, double>;

Round run_round(
    const Graph& graph,
    const std::vector<MiniBatch>& batches,
    std::map<at::ScalarType, Steps*> steps,
    const std::map<at::ScalarType, StepProducts>& products
) {
  Round round;
  const auto per_batch = 1e3 / static_cast<double>(batches.size());
  const auto rows = fetcher(graph.features);
  const auto rounded = fetcher(graph.features, loader::RowType::BFloat16);
  for (const MiniBatch& batch : batches) {
    const StepSizes sizes = sizes_of(batch.subgraph);
    for (const auto& [type, name] :
         {std::pair(at::kFloat, "float32"), std::pair(at::kBFloat16, "bfloat16")}) {
      const std::string key = name;
      round[key + "_step_ms"] += per_batch * steps.at(type)->run();
      round[key + "_products_ms"] += per_batch * seconds_of([&, of = type] {
                                       products.at(of).run(sizes, StepProducts::By::Worker);
                                     });
      const auto& source = type == at::kFloat ? rows : rounded;
      round[key + "_gather_ms"] +=
          per_batch * seconds_of([&] {
            static_cast<void>(must(source->fetch(batch.subgraph.node_ids.front())));
          });
    }
  }
  const double share = round["float32_products_ms"] / round["float32_step_ms"];
  const double faster = round["float32_products_ms"] / round["bfloat16_products_ms"];
  round["ratio"] = round["float32_step_ms"] / round["bfloat16_step_ms"];
  round["ratio_with_gather"] = (round["float32_step_ms"] + round["float32_gather_ms"]) /
                               (round["bfloat16_step_ms"] + round["bfloat16_gather_ms"]);
  round["float32_products_share"] = share;
  round["products_ratio"] = faster;
  round["bound_if_only_products_double"] = 1 / (1 - share / 2);
  round["bound_if_only_products_gain_as_here"] = 1 / (1 - share + share / faster);
  return round;
}

nlohmann::json measure(const Arguments& arguments) {
  at::set_num_threads(arguments.threads);
  loader::keep_tensor_memory();  // as gnn-worker does
  torch::manual_seed(0);
  const Graph graph = products_shape();
  const std::vector<MiniBatch> batches = sample(graph, arguments.batches);
  int64_t max_rows = 0;
  for (const MiniBatch& batch : batches) max_rows = std::max(max_rows, batch.x.size(0));
  const int64_t steps = arguments.batches * (arguments.rounds + 1);
  Steps in_float(batches, steps, at::kFloat);
  Steps in_bfloat16(batches, steps, at::kBFloat16);
  const std::vector<int64_t> widths = {100, kHidden, kHidden, kClasses};
  std::map<at::ScalarType, StepProducts> products;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    products.emplace(type, StepProducts(widths, max_rows, type));

  std::map<std::string, std::vector<double>> values;
  for (int64_t round = 0; round <= arguments.rounds; ++round) {
    const Round found = run_round(
        graph, batches, {{at::kFloat, &in_float}, {at::kBFloat16, &in_bfloat16}}, products
    );
    if (round == 0) continue;  // warms up
    for (const auto& [name, value] : found) values[name].push_back(value);
  }
  nlohmann::json result = {
      {"threads", arguments.threads},
      {"bfloat16_kernels", nn::cpu::has_bfloat16_products()},
      {"rows_of_a_batch", max_rows},
      {"float32_loss", in_float.mean_loss()},
      {"bfloat16_loss", in_bfloat16.mean_loss()},
  };
  for (const auto& [name, of_rounds] : values) result[name] = median(of_rounds);
  result["ratios"] = values["ratio"];
  return result;
}

}  // namespace
}  // namespace gnn::bench

int main(int argc, char** argv) {
  gnn::bench::Arguments arguments;
  CLI::App app("A training step in Float32 and BFloat16 on the same batches");
  app.add_option("--threads", arguments.threads)->check(CLI::PositiveNumber);
  app.add_option("--batches", arguments.batches)->check(CLI::PositiveNumber);
  app.add_option("--rounds", arguments.rounds, "medians of so many")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    std::cout << gnn::bench::measure(arguments).dump(2) << '\n';
  } catch (const std::exception& error) {
    std::cerr << "gnn-precision-bench: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
