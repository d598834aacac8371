#pragma once

#include "common/api/gnn_job.h"
#include "common/api/validation.h"
#include "common/progress.h"
#include "common/result.h"
#include "worker/distributed/comm/communicator.h"
#include "worker/distributed/comm/rendezvous.h"
#include "worker/training/progress_sink.h"
#include "worker/training/stop_token.h"

#include <c10/core/Device.h>
#include <tl/expected.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace gnn::tasks {

/// What a rank gives the task that it runs.
struct TaskContext {
  std::shared_ptr<comm::Communicator> world;
  std::shared_ptr<comm::Communicator> local;  ///< the ranks of this node
  c10::Device device{c10::kCPU};
  int64_t num_cpus =
      1;  ///< CPUs that this rank may keep busy: compute and sampler threads together
  comm::Incarnation incarnation;  ///< fences checkpoints
  Progress& loading;              ///< bar for reading or making the data set
  training::ProgressSink& progress;
  const training::StopToken& stop;
};

/// How a task ended that did not fail.
struct TaskOutcome {
  training::FinalReport report;
  bool stopped = false;  ///< on request; training goes on from the checkpoint next time
};

/// A task with its configuration, checked and ready to run once.
class TaskRun {
 public:
  virtual ~TaskRun() = default;
  /// Trains and evaluates. Collective: every rank of the world calls it.
  /// Errors: Data for what is wrong with the data set; Configuration where data and configuration
  /// don't fit; PeerLost.
  [[nodiscard]] virtual Result<TaskOutcome> run(TaskContext& context) = 0;
};

template <class T>
using Parsed = tl::expected<T, std::vector<api::FieldError>>;

/// One kind of work that a GNNJob can ask for.
struct Task {
  api::TaskType type;
  std::string_view name;
  /// Checks what api::validate() can't know and returns every error, each with its path. No I/O.
  Parsed<std::unique_ptr<TaskRun>> (*parse)(const api::GnnJobSpec& spec);
};

}  // namespace gnn::tasks
