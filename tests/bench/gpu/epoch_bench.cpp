// An epoch of GraphSAGE on graphs of ogbn-products' shape and of a tenth of ogbn-papers100M's, with the
// training loop's own steps: batches from the loader, against batches that lie on the device already.

#include "common/progress_bar.h"
#include "common/stopwatch.h"
#include "tests/bench/gpu/device_activity.h"
#include "tests/bench/gpu/figures.h"
#include "tests/bench/sampling/bench_graph.h"
#include "tests/bench/training/resident_batches.h"
#include "tests/support/must.h"
#include "tests/worker/training/batch_workload.h"
#include "worker/agent/limits.h"
#include "worker/comm/ddp.h"
#include "worker/graph/dataset.h"
#include "worker/loader/batch_source.h"
#include "worker/loader/device_rows.h"
#include "worker/loader/node_loader.h"
#include "worker/loader/tensor_memory.h"
#include "worker/nn/models/graph_sage.h"
#include "worker/progress/console_sink.h"
#include "worker/sampling/device/cuda_device.h"
#include "worker/sampling/device/device_graph.h"
#include "worker/tasks/data_path.h"
#include "worker/tasks/device_sampling.h"
#include "worker/training/step_runner.h"
#include "worker/training/workload.h"

#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>
#include <torch/cuda.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gnn::bench {
namespace {

constexpr int64_t kBatch = 1024;
constexpr int64_t kWarmUpSteps = 10;
constexpr int64_t kRecordedSteps = 40;
constexpr int64_t kResidentBatches = 24;
const c10::Device kGpu(c10::kCUDA, 0);
// The generator's features run to 999, from which no training goes on.
constexpr double kSmallFeatures = 1e-3;

using loader::MiniBatch;

using testing::must;

// A data set that is made here.
struct Shape {
  std::string name;
  BenchGraph (*make)() = nullptr;
  int64_t classes = 0;
  int64_t train_nodes = 0;  // spread over all
  // Beside which batches and the model fit, too; 0: not looked at.
  int64_t gpu_bytes = 0;
  int64_t host_bytes = 0;
};

const Shape kProducts{
    .name = "products", .make = &make_products_shape, .classes = 47, .train_nodes = 196'615
};
// 5.7 GB of rows, which are on the GPU in one of the measurements, 24 batches of 0.45 GB there in
// another, and 0.5 GB of pinned memory for each batch under way.
const Shape kTenthOfPapers{
    .name = "papers/10",
    .make = &make_tenth_of_papers_shape,
    .classes = 172,
    .train_nodes = 120'718,
    .gpu_bytes = int64_t{24} << 30,
    .host_bytes = int64_t{28} << 30
};

int64_t sampler_threads() {
  return tasks::loading_threads(std::max(1U, std::thread::hardware_concurrency()), kGpu);
}

graph::Dataset dataset_of(const Shape& made) {
  const auto shape = std::make_shared<BenchGraph>(made.make());
  const auto keep = [shape](void*) {};
  const int64_t width = static_cast<int64_t>(shape->row_bytes / sizeof(float));
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
  graph::Dataset dataset;
  dataset.name = made.name;
  dataset.num_classes = made.classes;
  dataset.node_types.push_back(
      {.name = "node",
       .num_nodes = shape->num_nodes,
       .features = must(graph::FeatureStore::create(features)),
       .labels = at::arange(shape->num_nodes, at::kLong) % made.classes}
  );
  dataset.edge_types.push_back(
      {.source = "node",
       .relation = "to",
       .destination = "node",
       .graph = must(graph::CscGraph::create_unchecked(indptr, indices, shape->num_nodes)),
       .features = {}}
  );
  const int64_t apart = shape->num_nodes / made.train_nodes;
  dataset.split.train = at::arange(0, made.train_nodes * apart, apart, at::kLong);
  dataset.split.validation = at::empty({0}, at::kLong);
  dataset.split.test = at::empty({0}, at::kLong);
  return dataset;
}

using Batches = std::unique_ptr<loader::BatchSource<MiniBatch>>;

// The graph where the GPU samples it, as with sampling.device CUDA.
std::shared_ptr<sampling::device::DeviceGraph> graph_for_gpu(sampling::device::GraphMemory memory) {
  return std::make_shared<sampling::device::DeviceGraph>(
      must(sampling::device::cuda_device(kGpu, memory))
  );
}

// What a GPU gathers: its own rows where they are `on_gpu`, else pinned ones in place.
std::shared_ptr<loader::FeatureFetcher> device_rows(const graph::Dataset& dataset, bool on_gpu) {
  SilentProgressBar silent;
  const at::Tensor& rows = dataset.features().rows();
  return std::make_shared<loader::DeviceFeatureFetcher>(must(loader::DeviceRows::create(
      must(loader::gpu_row_device(kGpu)),
      {.rows = rows,
       .num_nodes = rows.size(0),
       .hot_ids = at::arange(on_gpu ? rows.size(0) : 0, at::kLong)},
      silent
  )));
}

// As a job that classifies nodes loads them: with rows that the host gathers unless `features` does, and
// sampled on the GPU with `device_graph`.
Batches load(
    const graph::Dataset& dataset,
    std::shared_ptr<loader::FeatureFetcher> features = nullptr,
    std::shared_ptr<sampling::device::DeviceGraph> device_graph = nullptr
) {
  const auto fetcher = [](const at::Tensor& rows) {
    return std::make_shared<loader::LocalFeatureFetcher>(
        must(loader::LocalFeatureFetcher::create(rows, loader::memory_before(kGpu)))
    );
  };
  const bool on_gpu = device_graph != nullptr;
  auto sampler = must(tasks::whole_graph_sampler(
      {.fanout = {15, 10, 5}},
      {dataset.target().num_nodes},
      {{.graph = dataset.graph()}},
      std::move(device_graph)
  ));
  loader::NodeLoaderOptions options;
  options.items.batch_size = kBatch;
  options.items.shuffle = true;
  options.num_threads =
      on_gpu ? std::min(sampler_threads(), tasks::kWaitingThreads) : sampler_threads();
  options.device = kGpu;
  return must(loader::NodeLoader::create(
      options,
      loader::NodeBatchMaker::create(
          std::move(sampler),
          dataset.split.train,
          features != nullptr ? std::move(features) : fetcher(dataset.features().rows()),
          fetcher(dataset.target().labels)
      )
  ));
}

std::shared_ptr<nn::NodeModel> make_model(const graph::Dataset& dataset) {
  torch::manual_seed(1);
  nn::GraphSage model(nn::GraphSageOptions{
      .in_channels = dataset.features().width(), .out_channels = dataset.num_classes
  });
  model->to(kGpu);
  return model.ptr();
}

// The steps of an epoch of a workload, as the trainer runs them.
class Epoch {
 public:
  Epoch(training::Workload& workload, const api::Training& training)
      : workload_(workload),
        communicator_(comm::make_single_communicator()),
        runner_(must(training::StepRunner::create(
            workload,
            {.training = training,
             .communicator = communicator_,
             .device = kGpu,
             .stop = stop_,
             .progress = sink_},
            must(comm::DistributedDataParallel::create(
                comm::named_parameters_of(workload.module()),
                comm::named_buffers_of(workload.module()),
                communicator_
            ))
        ))) {
    workload.module().train();
    must(runner_.start_epoch({}));
    run(kWarmUpSteps);
  }

  // Seconds of so many steps, all of them done.
  double run(int64_t steps) {
    torch::cuda::synchronize();
    const auto start = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < steps; ++i) {
      if (!must(runner_.run({.epoch = 0, .step = step_++}, sums_, report_)))
        throw std::runtime_error("the epoch has too few steps");
    }
    torch::cuda::synchronize();
    return seconds_since(start);
  }

  [[nodiscard]] int64_t left() const { return runner_.steps_per_epoch() - step_; }
  [[nodiscard]] const progress::StepReport& report() const { return report_; }

 private:
  training::Workload& workload_;
  std::shared_ptr<comm::Communicator> communicator_;
  StopToken stop_;
  progress::NullSink sink_;
  progress::EpochSums sums_;
  progress::StepReport report_;  // adds up over the steps
  training::StepRunner runner_;
  int64_t step_ = 0;
};

std::vector<MiniBatch> batches_on_device(const graph::Dataset& dataset) {
  const Batches source = load(dataset);
  must(source->start_epoch(0));
  std::vector<MiniBatch> result;
  while (static_cast<int64_t>(result.size()) < kResidentBatches)
    result.push_back(std::move(*must(source->next())));
  source->stop();
  torch::cuda::synchronize();
  return result;
}

struct Timed {
  int64_t steps_per_epoch = 0;
  double step_seconds = 0;
  DeviceActivity activity;   // of kRecordedSteps more, which recording makes longer
  double wait_seconds = 0;   // of a step
  double sampled_edges = 0;  // of a step
};

Timed measure(const graph::Dataset& dataset, Batches batches) {
  training::BatchWorkload workload(std::move(batches), make_model(dataset));
  api::Training training;
  training.batch_size = kBatch;
  Epoch epoch(workload, training);
  Timed timed;
  timed.steps_per_epoch = workload.batches_per_rank().front();
  const progress::StepReport before = epoch.report();
  const int64_t steps = epoch.left() - kRecordedSteps;
  timed.step_seconds = epoch.run(steps) / static_cast<double>(steps);
  timed.wait_seconds =
      (epoch.report().seconds.wait - before.seconds.wait) / static_cast<double>(steps);
  timed.sampled_edges = static_cast<double>(epoch.report().sampled_edges - before.sampled_edges) /
                        static_cast<double>(steps);
  start_recording();
  epoch.run(kRecordedSteps);
  timed.activity = stop_recording();
  return timed;
}

double ms(double seconds) {
  return seconds * 1e3;
}

// What the GPU and the loader did in each step.
void add_steps(std::vector<Figure>& figures, const std::string& where, const Timed& timed) {
  const DeviceActivity& gpu = timed.activity;
  const auto add = [&](const std::string& what, double value, const std::string& unit) {
    figures.push_back({where + ": " + what, value, unit});
  };
  add("step", ms(timed.step_seconds), "ms");
  add("kernels' time in a step", ms(gpu.kernel_seconds / kRecordedSteps), "ms");
  add("kernels in a step", static_cast<double>(gpu.kernels) / kRecordedSteps, "");
  add("waiting for a batch", ms(timed.wait_seconds), "ms/step");
  if (gpu.copied_bytes == 0) return;
  add("copied to the device in a step", gpu.copied_bytes / kRecordedSteps / 1e6, "MB");
  add("rate of these copies", gpu.copied_bytes / gpu.copy_seconds / 1e9, "GB/s");
  add("of copying, while a kernel ran", gpu.overlapped_seconds / gpu.copy_seconds, "");
}

// Of a step's time, what its kernels take by the GPU's clock; those of two streams may overlap.
double kernel_share(const Timed& timed) {
  return timed.activity.kernel_seconds / kRecordedSteps / timed.step_seconds;
}
// Of a step's time, that during which some kernel runs.
double busy_share(const Timed& timed) {
  return timed.activity.busy_seconds / kRecordedSteps / timed.step_seconds;
}

std::vector<Figure> measure_shape(const Shape& shape) {
  const auto start = std::chrono::steady_clock::now();
  const graph::Dataset dataset = dataset_of(shape);
  std::vector<Figure> figures = {{"data set made", seconds_since(start), "s"}};
  const Timed host = measure(dataset, load(dataset));
  using sampling::device::GraphMemory;
  const auto sampled_in = [&](GraphMemory memory) {
    return measure(dataset, load(dataset, device_rows(dataset, true), graph_for_gpu(memory)));
  };
  const Timed rows_in_place = measure(dataset, load(dataset, device_rows(dataset, false)));
  const Timed device = measure(dataset, load(dataset, device_rows(dataset, true)));
  const Timed sampled = sampled_in(GraphMemory::Device);
  const Timed in_place = sampled_in(GraphMemory::ZeroCopy);
  const Timed resident = measure(
      dataset,
      std::make_unique<bench::ResidentBatches>(batches_on_device(dataset), host.steps_per_epoch)
  );

  const auto steps = static_cast<double>(host.steps_per_epoch);
  const auto add = [&](const Figure& figure) { figures.push_back(figure); };
  add({"epoch, features in host memory", host.step_seconds * steps, "s"});
  add(
      {"epoch, features in pinned host memory, read in place",
       rows_in_place.step_seconds * steps,
       "s"}
  );
  add({"epoch, features on the device", device.step_seconds * steps, "s"});
  add({"epoch, sampled on the device too", sampled.step_seconds * steps, "s"});
  add({"epoch, the same, graph in place", in_place.step_seconds * steps, "s"});
  add({"epoch, batches already on the device", resident.step_seconds * steps, "s"});
  add({"ratio, features in host memory", host.step_seconds / resident.step_seconds, ""});
  add({"ratio, features on the device", device.step_seconds / resident.step_seconds, "", "<= 1.2"});
  add({"ratio, sampled on the device too", sampled.step_seconds / resident.step_seconds, ""});
  add({"summed kernel time / wall, features in host memory", kernel_share(host), ""});
  add({"summed kernel time / wall, features on the device", kernel_share(device), "", ">= 0.85"});
  add({"summed kernel time / wall, batches on the device", kernel_share(resident), ""});
  add({"busy with kernels / wall, features on the device", busy_share(device), ""});
  add({"busy with kernels / wall, batches on the device", busy_share(resident), ""});
  add({"sampled edges in a step", host.sampled_edges / 1e3, "thousand"});
  add({"sampler threads", static_cast<double>(sampler_threads()), ""});
  add_steps(figures, "host", host);
  add_steps(figures, "device", device);
  add_steps(figures, "sampled there", sampled);
  add_steps(figures, "resident", resident);
  for (Figure& figure : figures) figure.what = shape.name + ": " + figure.what;
  return figures;
}

// A row that says which memory is too small for the shape, if one is: of this machine, in place of
// figures.
std::optional<Figure> too_small(const Shape& shape) {
  const auto look = [&](const std::string& memory, int64_t needed, int64_t found) {
    const auto gib = [](int64_t bytes) { return static_cast<double>(bytes) / 0x1p30; };
    std::optional<Figure> row;
    if (found < needed) {
      row = Figure{
          shape.name + ": SKIPPED, it needs " + std::to_string(needed >> 30) + " GiB of " + memory,
          gib(found),
          "GiB found"
      };
    }
    return row;
  };
  at::accelerator::emptyCache();
  const auto free = static_cast<int64_t>(at::accelerator::getMemoryInfo(kGpu.index()).first);
  const auto gpu = look("the GPU's memory", shape.gpu_bytes, free);
  return gpu ? gpu : look("host memory", shape.host_bytes, agent::usable_memory());
}

std::vector<Figure> measure_all() {
  loader::keep_tensor_memory();
  const at::Tensor first = at::empty({1}, kGpu);  // LibTorch answers no questions before
  std::vector<Figure> figures;
  for (const Shape& shape : {kProducts, kTenthOfPapers}) {
    const std::optional<Figure> skipped = too_small(shape);
    const auto found = skipped ? std::vector{*skipped} : measure_shape(shape);
    figures.insert(figures.end(), found.begin(), found.end());
  }
  return figures;
}

}  // namespace
}  // namespace gnn::bench

int main(int argc, char** argv) {
  return gnn::bench::write_figures(argc, argv, &gnn::bench::measure_all);
}
