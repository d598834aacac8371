// Exact evaluation of a generated graph by one rank: its time beside that of its own kernels, and
// its memory beside one matrix of all nodes by the hidden width. Prints one JSON object.
#include "common/stop_token.h"
#include "tests/bench/training/generated_model.h"
#include "tests/support/must.h"
#include "tests/worker/training/counting_sink.h"
#include "worker/comm/node_memory.h"
#include "worker/nn/functional/aggregate.h"
#include "worker/nn/functional/csr.h"
#include "worker/progress/progress_sink.h"
#include "worker/training/evaluator.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <torch/types.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <vector>

namespace gnn {
namespace {

using testing::must;

// Seconds of all cores that this process has used.
double cpu_seconds() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct KernelSeconds {
  double products = 0;
  double sums = 0;
  double summed_bytes = 0;
};

// The products and the sums of all layers, without anything between them: the sums of a layer in
// one call, the products on the same rows again and again.
KernelSeconds time_kernels(nn::NodeModel& model, const graph::Dataset& data) {
  const int64_t num_nodes = data.target().num_nodes;
  const at::Tensor nodes = at::arange(num_nodes);
  nn::InEdges edges = training::in_edges_of(data.graph(), nodes);
  edges.norm = nn::gcn_norm(nn::in_degrees_without_loops(edges.matrix, nodes), at::kFloat);
  const training::ChunkLimits limits;
  const int64_t rows = std::min(limits.nodes, num_nodes);
  const double chunks = static_cast<double>(num_nodes) / static_cast<double>(rows);
  KernelSeconds seconds;
  int64_t width = data.features().width();
  for (int64_t layer = 0; layer < model.num_layers(); ++layer) {
    nn::MessagePassing& conv = model.conv(layer);
    const at::Tensor x = torch::randn({rows, width});
    const int64_t message_width = conv.message(x).size(1);
    const at::Tensor aggregated = torch::randn({rows, message_width});
    constexpr int kTimes = 5;
    seconds.products += chunks / kTimes * bench::seconds_of([&] {
                          for (int i = 0; i < kTimes; ++i) {
                            static_cast<void>(conv.message(x));
                            static_cast<void>(conv.update(conv.root(x), aggregated));
                          }
                        });
    at::Tensor messages = comm::empty_on_large_pages({num_nodes, message_width}, at::kFloat);
    messages.normal_();
    seconds.sums += bench::seconds_of([&] { static_cast<void>(conv.aggregate(messages, edges)); });
    seconds.summed_bytes += static_cast<double>(data.graph().num_edges() * message_width) *
                            static_cast<double>(messages.element_size());
    width = conv.out_channels();
  }
  return seconds;
}

// A line of /proc/self/status in bytes.
int64_t memory_of_process(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1)) * 1024;
  }
  return 0;
}

nlohmann::json measure(const bench::GeneratedModel& arguments) {
  const at::NoGradGuard no_grad;
  const graph::Dataset data = bench::generate(arguments);
  const auto model = bench::make_model(arguments, data);
  const training::WholeGraph whole{
      .graph = data.graph(), .features = data.features().rows(), .labels = data.target().labels
  };
  const std::vector<at::Tensor> parts = {data.split.validation, data.split.test};
  const auto communicator = comm::make_single_communicator();
  const StopToken stop;
  training::CountingSink sink;

  std::ofstream("/proc/self/clear_refs") << "5";  // the peak counts from here on
  const int64_t before = memory_of_process("VmRSS");
  const double cpu_before = cpu_seconds();
  const double pass = bench::seconds_of([&] {
    const auto counts = must(training::evaluate_layer_wise(
        *model, whole, parts, communicator, {.stop = stop, .progress = sink}, {}
    ));
    if (!counts) throw std::runtime_error("the evaluation stopped");
  });
  const double pass_cpu = cpu_seconds() - cpu_before;
  const int64_t peak = memory_of_process("VmHWM") - before;
  const KernelSeconds kernels = time_kernels(*model, data);
  const double limit = kernels.products + kernels.sums;
  const double matrix = static_cast<double>(data.target().num_nodes * arguments.hidden) *
                        static_cast<double>(sizeof(float));
  return {
      {"nodes", data.target().num_nodes},
      {"edges", data.graph().num_edges()},
      {"model", arguments.model},
      {"threads", at::get_num_threads()},
      {"marks", sink.marks},
      {"pass_seconds", pass},
      {"products_seconds", kernels.products},
      {"sums_seconds", kernels.sums},
      {"kernels_over_pass", limit / pass},
      {"summed_gigabytes_per_second", kernels.summed_bytes / kernels.sums / 1e9},
      {"pass_cpu_seconds", pass_cpu},
      {"peak_bytes", peak},
      {"peak_over_hidden_matrix", static_cast<double>(peak) / matrix},
  };
}

}  // namespace
}  // namespace gnn

int main(int argc, char** argv) {
  gnn::bench::GeneratedModel arguments;
  CLI::App app("Exact evaluation beside the time of its kernels");
  gnn::bench::add_options(app, arguments);
  return gnn::bench::run(app, argc, argv, arguments, [&] { return gnn::measure(arguments); });
}
