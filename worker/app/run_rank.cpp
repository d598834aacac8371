#include "worker/app/run_rank.h"

#include "common/contract.h"
#include "common/log.h"
#include "common/out_of_memory.h"
#include "common/progress_bar.h"
#include "worker/agent/limits.h"
#include "worker/app/server_directory.h"
#include "worker/comm/process_groups.h"
#include "worker/data/unreadable_mapping.h"
#include "worker/loader/tensor_memory.h"
#include "worker/nn/functional/matmul.h"
#include "worker/progress/loading_progress.h"
#include "worker/tasks/registry.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/cuda.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <unistd.h>

namespace gnn::app {
namespace {

StopToken* stop_of_signals = nullptr;

extern "C" void request_stop(int signal) {
  // A second Ctrl-C ends the process at once, by the default handler.
  if (signal == SIGINT && stop_of_signals->requested()) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
  stop_of_signals->request();
}

comm::Backend backend_of(api::Backend backend) {
  switch (backend) {
    case api::Backend::Auto:
      return comm::Backend::Auto;
    case api::Backend::Gloo:
      return comm::Backend::Gloo;
    case api::Backend::NCCL:
      return comm::Backend::Nccl;
  }
  return comm::Backend::Auto;
}

// CUDA is not touched for a job that asks for no GPU.
int64_t count_gpus(const api::GnnJobSpec& spec) {
  if (spec.workers.gpus_per_process == 0) return 0;
  // NOLINTNEXTLINE(bugprone-signed-char-misuse): its type is of 8 bits and is no character
  return static_cast<int64_t>(torch::cuda::device_count());
}

ErrorKind kind_of(const std::exception& error) {
  return is_out_of_memory(error) ? ErrorKind::OutOfMemory : ErrorKind::Internal;
}

// A bar on rank 0's terminal, if it has one.
std::unique_ptr<ProgressBar> loading_bar(int64_t rank) {
  if (rank == 0 && isatty(STDERR_FILENO) != 0) return make_progress_bar(stderr);
  return nullptr;
}

Result<tasks::TaskResult> run_checked(
    tasks::TaskRun& task, const api::GnnJob& job, c10::Device device, const RankOptions& options
) {
  rendezvous::Rendezvous place = options.rendezvous;
  GNN_ASSIGN_OR_RETURN(
      const Duration server_timeout, server_timeout_of(job.spec, rendezvous::process_environment())
  );
  // A rank that waits for a server must not lose those that wait for it.
  if (job.spec.servers)
    place.collective_timeout = std::max(
        place.collective_timeout,
        std::chrono::duration_cast<std::chrono::milliseconds>(
            server_timeout + std::chrono::seconds(contract::kCollectiveMarginSeconds)
        )
    );
  GNN_ASSIGN_OR_RETURN(
      const int64_t cpus,
      agent::cpus_of_rank(rendezvous::process_environment(), place.local_world_size)
  );
  at::set_num_threads(static_cast<int>(cpus));
  loader::keep_tensor_memory();

  GNN_ASSIGN_OR_RETURN(
      comm::ProcessGroups groups,
      comm::ProcessGroups::create(
          place, backend_of(job.spec.workers.backend), device, options.activity
      )
  );
  GNN_RETURN_IF_ERROR(groups.create_local_process_group(place.local_world_size));
  GNN_ASSIGN_OR_RETURN(
      const tasks::DataEndpoint data_endpoint,
      parse_data_endpoint(rendezvous::process_environment(), groups.address())
  );
  const std::unique_ptr<ProgressBar> bar = loading_bar(place.rank);
  progress::LoadingProgress loading(options.progress, bar.get());
  tasks::TaskContext context{
      .communicator = groups.communicator(),
      .groups = groups.groups(),
      .device = device,
      .num_cpus = cpus,
      .memory_bytes = agent::usable_memory(),
      .incarnation = place.incarnation,
      .job = place.job,
      .data_endpoint = data_endpoint,
      .servers = job.spec.servers ? options.servers : nullptr,
      .server_timeout = server_timeout,
      .checked_version = options.checked_version,
      .loading = loading,
      .progress = options.progress,
      .stop = options.stop,
      .on_checked_version = options.on_checked_version,
  };
  return task.run(context);
}

}  // namespace

Result<c10::Device> choose_device(
    const api::GnnJobSpec& spec, int64_t local_rank, int64_t visible_gpus
) {
  const api::DeviceChoice choice = spec.training.device;
  const bool asks_for_gpus = spec.workers.gpus_per_process > 0;
  if (choice == api::DeviceChoice::CPU || (choice == api::DeviceChoice::Auto && !asks_for_gpus))
    return c10::Device(c10::kCPU);
  if (local_rank < visible_gpus) return comm::device_of_rank(true, local_rank);
  if (choice == api::DeviceChoice::Auto) return c10::Device(c10::kCPU);
  return fail(
      ErrorKind::Configuration,
      "spec.training.device: CUDA expects one GPU per rank of a node, local rank " +
          std::to_string(local_rank) + " found " + std::to_string(visible_gpus) +
          "; use an image with CUDA, and as many GPUs as spec.workers.processesPerNode"
  );
}

std::optional<std::string> precision_warning(
    const api::GnnJobSpec& spec, c10::Device device, bool has_bfloat16_products
) {
  if (spec.training.precision != api::Precision::BFloat16 || !device.is_cpu()) return std::nullopt;
  if (has_bfloat16_products) return std::nullopt;
  return "spec.training.precision: BFloat16 is slower than Float32 here: this machine's processor "
         "has "
         "neither AVX512-BF16 nor AMX, and multiplies float32 instead";
}

Status set_precision(const api::GnnJobSpec& spec, c10::Device device) {
  const bool tf32 = spec.training.precision == api::Precision::TF32;
  if (tf32 && !device.is_cuda()) {
    return fail(
        ErrorKind::Configuration,
        "spec.training.precision: TF32 expects a rank on CUDA, found one on " + device.str() +
            "; set training.device: CUDA, or Float32"
    );
  }
  nn::set_tf32_products(tf32);
  return {};
}

Result<tasks::TaskResult> run_rank(const api::GnnJob& job, const RankOptions& options) {
  data::name_unreadable_mappings();
  try {
    auto task = tasks::parse_task(job);
    if (!task) return tl::unexpected(tasks::to_error(task.error()));
    GNN_ASSIGN_OR_RETURN(
        const c10::Device device,
        choose_device(job.spec, options.rendezvous.local_rank, count_gpus(job.spec))
    );
    GNN_RETURN_IF_ERROR(set_precision(job.spec, device));
    const auto warning = precision_warning(job.spec, device, nn::has_bfloat16_products());
    if (warning && options.rendezvous.local_rank == 0) log_warning(*warning);
    // The image has only cuDNN's front. Of our layers batch normalisation alone could use cuDNN;
    // LibTorch has kernels of its own for it.
    at::globalContext().setUserEnabledCuDNN(false);
    return run_checked(**task, job, device, options);
  } catch (const c10::Error& error) {
    return fail(kind_of(error), error.what_without_backtrace());
  } catch (const std::exception& error) {
    return fail(kind_of(error), error.what());
  }
}

int exit_code_of(const Result<tasks::TaskResult>& outcome) {
  if (!outcome) return contract::exit_code_for(outcome.error().kind);
  return outcome->stopped ? contract::kExitPreempted : contract::kExitDone;
}

void stop_on_signals(StopToken& stop) {
  stop_of_signals = &stop;
  struct sigaction action = {};
  action.sa_handler = &request_stop;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
}

}  // namespace gnn::app
