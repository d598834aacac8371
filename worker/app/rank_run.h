#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/distributed/comm/collective_activity.h"
#include "worker/distributed/comm/rendezvous.h"
#include "worker/tasks/task.h"
#include "worker/training/progress_sink.h"
#include "worker/training/stop_token.h"

#include <c10/core/Device.h>

#include <memory>

namespace gnn::app {

struct RankOptions {
  comm::Rendezvous rendezvous;  ///< the default: the only rank of its job
  training::ProgressSink& progress;
  const training::StopToken& stop;
  std::shared_ptr<comm::CollectiveActivity> activity;  ///< may be null
};

/// The device that `choice` means for a rank.
/// Errors: Configuration when CUDA is asked for and there is none for this local rank.
[[nodiscard]] Result<c10::Device> choose_device(api::DeviceChoice choice, int64_t local_rank);

/// Runs the task of `job` as one rank: device, threads, process groups, task. `job` is validated
/// and has its defaults. Errors: of the configuration, the data, the peers; what torch throws
/// becomes Internal or OutOfMemory.
[[nodiscard]] Result<tasks::TaskOutcome> run_rank(
    const api::GnnJob& job, const RankOptions& options
);

/// The exit code of the contract for how a run ended.
[[nodiscard]] int exit_code_of(const Result<tasks::TaskOutcome>& outcome);

/// Makes SIGTERM and SIGINT ask for a stop at the next step that all ranks agree on. A second
/// SIGINT ends the process.
void stop_on_signals(training::StopToken& stop);

}  // namespace gnn::app
