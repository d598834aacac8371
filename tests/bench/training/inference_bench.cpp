// Predictions of all nodes of a generated graph by one rank, written and synced, beside the exact evaluation of the same nodes: the
// shorter of several times of either, in turn. Prints one JSON object.
#include "common/stop_token.h"
#include "tests/bench/training/generated_model.h"
#include "tests/support/must.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/training/counting_sink.h"
#include "worker/training/evaluator.h"
#include "worker/training/predictions.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace gnn {
namespace {

using testing::must;

struct Arguments : bench::GeneratedModel {
  std::vector<std::string> outputs{"Classes"};
  int times = 2;
};

std::vector<api::Output> outputs_of(const Arguments& arguments) {
  std::vector<api::Output> outputs;
  for (const std::string& name : arguments.outputs)
    outputs.push_back(
        name == "Scores"       ? api::Output::Scores
        : name == "Embeddings" ? api::Output::Embeddings
                               : api::Output::Classes
    );
  return outputs;
}

int64_t bytes_in(const std::string& folder) {
  int64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    bytes += static_cast<int64_t>(entry.file_size());
  return bytes;
}

nlohmann::json measure(const Arguments& arguments) {
  const at::NoGradGuard no_grad;
  const graph::Dataset data = bench::generate(arguments);
  const auto model = bench::make_model(arguments, data);
  const training::WholeGraph whole{
      .graph = data.graph(), .features = data.features().rows(), .labels = data.target().labels
  };
  const std::vector<at::Tensor> all = {at::arange(data.target().num_nodes)};
  const auto alone = comm::make_single_communicator();
  const StopToken stop;
  training::CountingSink sink;
  const training::EvaluationContext context{.stop = stop, .progress = sink};
  const testing::TemporaryFolder folder;

  const auto evaluate = [&] {
    if (!must(training::evaluate_layer_wise(*model, whole, all, alone, context, {})))
      throw std::runtime_error("the evaluation stopped");
  };
  // All that an inference job does once it has its data and its model.
  const auto infer = [&] {
    auto predictions = must(training::Predictions::open(
        {.path = folder.path("out"), .outputs = outputs_of(arguments)},
        alone,
        std::make_shared<checkpoint::PosixFileOps>()
    ));
    must(predictions.choose_nodes(data.target().num_nodes));
    const std::vector<at::Tensor> parts = {data.split.validation, data.split.test};
    if (!must(predictions.write({.model = *model, .parts = parts}, whole, {alone}, context, {})))
      throw std::runtime_error("the inference stopped");
  };
  double exact = std::numeric_limits<double>::infinity();
  double inference = exact;
  for (int time = 0; time < arguments.times; ++time) {
    exact = std::min(exact, bench::seconds_of(evaluate));
    inference = std::min(inference, bench::seconds_of(infer));
  }
  return {
      {"nodes", data.target().num_nodes},
      {"edges", data.graph().num_edges()},
      {"model", arguments.model},
      {"threads", at::get_num_threads()},
      {"outputs", arguments.outputs},
      {"written_bytes", bytes_in(folder.path("out"))},
      {"exact_pass_seconds", exact},
      {"inference_seconds", inference},
      {"inference_over_exact_pass", inference / exact},
  };
}

}  // namespace
}  // namespace gnn

int main(int argc, char** argv) {
  gnn::Arguments arguments;
  CLI::App app("Predictions of all nodes beside the exact evaluation of them");
  gnn::bench::add_options(app, arguments);
  app.add_option("--outputs", arguments.outputs)
      ->delimiter(',')
      ->check(CLI::IsMember({"Classes", "Scores", "Embeddings"}));
  app.add_option("--times", arguments.times)->check(CLI::PositiveNumber);
  return gnn::bench::run(app, argc, argv, arguments, [&] { return gnn::measure(arguments); });
}
