// A job's parameters do not depend on where its batches are sampled. Skipped where there is no GPU.
#include "common/api/defaults.h"
#include "tests/common/api/sample_job.h"
#include "worker/progress/console_sink.h"
#include "worker/tasks/registry.h"
#include "worker/tasks/task.h"

#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <optional>
#include <stdexcept>
#include <string>

namespace gnn::tasks {
namespace {

std::string trained(api::GnnJob job) {
  job.spec.training.device = api::DeviceChoice::CUDA;
  job.spec.workers.gpus_per_process = 1;
  job.spec.workers.nodes = 1;
  job.spec.training.epochs = 2;
  api::apply_defaults(job.spec);
  auto task = parse_task(job);
  if (!task) throw std::runtime_error(to_error(task.error()).message);
  SilentProgressBar loading;
  progress::NullSink sink;
  const StopToken stop;
  TaskContext context{
      .communicator = comm::make_single_communicator(),
      .device = c10::Device(c10::kCUDA, 0),
      .num_cpus = 4,
      .incarnation = {},
      .loading = loading,
      .progress = sink,
      .stop = stop
  };
  const auto result = (*task)->run(context);
  if (!result) throw std::runtime_error(result.error().message);
  return result->report.parameters_hash;
}

void expect_the_same(api::GnnJob job) {
  const std::string by_cpus = trained(job);
  job.spec.sampling->device = api::SamplingDevice::CUDA;
  for (const auto memory : {api::TopologyMemory::Device, api::TopologyMemory::ZeroCopy}) {
    job.spec.sampling->topology_memory = memory;
    EXPECT_EQ(trained(job), by_cpus);
  }
}

TEST(DeviceSamplingOnGpu, ClassifiesNodesWithTheParametersOfSamplingOnCpus) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  api::GnnJob job = api::sample_job();
  job.spec.dataset.synthetic->scale = {"0.02"};
  job.spec.model.graph_sage->layers = 2;
  job.spec.sampling->fanout = {5, 3};
  job.spec.training.batch_size = 128;
  expect_the_same(job);
  job.spec.features.emplace().memory = api::FeatureMemory::Device;
  expect_the_same(job);
}

TEST(DeviceSamplingOnGpu, PredictsLinksWithTheParametersOfSamplingOnCpus) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  api::GnnJob job = api::sample_link_job();
  job.spec.dataset.format = api::DatasetFormat::Synthetic;
  job.spec.dataset.path.reset();
  job.spec.dataset.synthetic =
      api::Synthetic{.shape = api::SyntheticShape::Taobao, .scale = {"0.001"}};
  job.spec.training.batch_size = 512;
  expect_the_same(job);
}

}  // namespace
}  // namespace gnn::tasks
