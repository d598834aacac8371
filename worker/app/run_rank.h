#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "common/stop_token.h"
#include "worker/progress/collective_activity.h"
#include "worker/progress/progress_sink.h"
#include "worker/rendezvous/rendezvous.h"
#include "worker/servers/directory.h"
#include "worker/tasks/task.h"

#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace gnn::app {

struct RankOptions {
  rendezvous::Rendezvous rendezvous;  ///< by default the only rank of its job
  progress::ProgressSink& progress;
  const StopToken& stop;
  std::shared_ptr<progress::CollectiveActivity> activity;  ///< may be null
  /// Which sampling servers take part, in a job that has them.
  std::shared_ptr<servers::Directory> servers{};
  std::string checked_version{};  ///< as in tasks::TaskContext
  std::function<void(const std::string& version)> on_checked_version{};
};

/// The device of a rank: the CUDA device of its local rank if workers.gpusPerProcess is above 0,
/// training.device is not CPU and there is one among the `visible_gpus` of this process; else the
/// CPU. Whether all ranks have the same kind is for comm::ProcessGroups to say.
/// Errors: Configuration if training.device is CUDA and there is no GPU for this local rank.
[[nodiscard]] Result<c10::Device> choose_device(
    const api::GnnJobSpec& spec, int64_t local_rank, int64_t visible_gpus
);

/// What to warn of before a rank trains on `device`, where `has_bfloat16_products` says whether the
/// CPU multiplies bfloat16: that spec.training.precision makes it slower.
[[nodiscard]] std::optional<std::string> precision_warning(
    const api::GnnJobSpec& spec, c10::Device device, bool has_bfloat16_products
);

/// Sets how this process's GPU multiplies float32, by spec.training.precision alone: the environment
/// has no say in what a configuration computes.
/// Errors: Configuration for TF32 on a CPU, which has no such products.
[[nodiscard]] Status set_precision(const api::GnnJobSpec& spec, c10::Device device);

/// Runs the task of `job` as one rank: chooses the device, sets threads, joins the process groups,
/// runs the task. `job` is validated and has its defaults.
/// Errors: Configuration, Data, PeerLost and others of the task; LibTorch's exceptions become
/// Internal or OutOfMemory.
[[nodiscard]] Result<tasks::TaskResult> run_rank(
    const api::GnnJob& job, const RankOptions& options
);

/// The contract's exit code for a result.
[[nodiscard]] int exit_code_of(const Result<tasks::TaskResult>& outcome);

/// Makes SIGTERM and SIGINT request `stop`, which takes effect at a step that all ranks agree on. A
/// second SIGINT ends the process.
void stop_on_signals(StopToken& stop);

}  // namespace gnn::app
