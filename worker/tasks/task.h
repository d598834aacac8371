#pragma once

#include "common/api/gnn_job.h"
#include "common/api/validation.h"
#include "common/clock.h"
#include "common/contract.h"
#include "common/progress_bar.h"
#include "common/result.h"
#include "common/stop_token.h"
#include "worker/comm/communicator.h"
#include "worker/comm/rank_groups.h"
#include "worker/progress/progress_sink.h"
#include "worker/rendezvous/rendezvous.h"
#include "worker/servers/directory.h"
#include "worker/tasks/data_network.h"

#include <c10/core/Device.h>
#include <tl/expected.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gnn::tasks {

/// What a rank, or a sampling server, gives the task it runs.
struct TaskContext {
  std::shared_ptr<comm::Communicator> communicator;  ///< of all ranks
  comm::RankGroups groups{communicator};             ///< the ranks of nodes, too
  c10::Device device{c10::kCPU};
  /// CPUs that this rank may keep busy: compute and sampler threads together.
  int64_t num_cpus = 1;
  /// Memory that this process may use, page cache included.
  int64_t memory_bytes = std::numeric_limits<int64_t>::max();
  rendezvous::Incarnation incarnation;  ///< fences checkpoints
  std::string job{};                    ///< its name
  DataEndpoint data_endpoint{};         ///< where placement is Partitioned, or servers are asked
  /// Who makes this job's batches, where it has sampling servers; otherwise null.
  std::shared_ptr<servers::Directory> servers{};
  /// How long a batch waits while no live server holds its part.
  Duration server_timeout = std::chrono::seconds(contract::kDefaultServerSeconds);
  /// The number of a sampling server, if this is one.
  std::optional<int64_t> server{};
  /// What ranks of this node gave to on_checked_version in an earlier round, or empty.
  std::string checked_version{};
  ProgressBar& loading;  ///< of reading or making the data set
  progress::ProgressSink& progress;
  const StopToken& stop;
  /// Called with graph::Dataset::checked_version once the data set is loaded; may be empty.
  std::function<void(const std::string& version)> on_checked_version{};
};

/// The end of a task that did not fail.
struct TaskResult {
  progress::FinalReport report;
  bool stopped = false;  ///< on request; the next run resumes from the checkpoint
};

/// A task with its configuration, checked and ready to run once.
class TaskRun {
 public:
  virtual ~TaskRun() = default;
  /// Trains and evaluates. Collective.
  /// Errors: Data for what is wrong with the data set; Configuration if data and configuration
  /// don't fit; PeerLost.
  [[nodiscard]] virtual Result<TaskResult> run(TaskContext& context) = 0;
};

/// What was parsed, or every error with its path.
template <class T>
using Parsed = tl::expected<T, std::vector<api::FieldError>>;

}  // namespace gnn::tasks
