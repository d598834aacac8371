#pragma once

#include "common/api/gnn_job.h"
#include "common/clock.h"
#include "common/contract.h"
#include "common/progress_bar.h"
#include "common/result.h"
#include "common/stop_token.h"
#include "worker/progress/served_data.h"
#include "worker/servers/directory.h"
#include "worker/tasks/data_network.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>

namespace gnn::tasks {

/// What a sampling server is given. What it refers to is used until serve() returns.
struct ServeContext {
  int64_t server = 0;   ///< its number, n: it holds part n mod placement.partitions
  int64_t restart = 0;  ///< how many processes of this server there were before
  int64_t nodes = 1;    ///< of the workers, to whose ranks items are dealt
  int64_t processes_per_node = 1;
  std::string job_uid;
  DataEndpoint data_endpoint{};
  int64_t num_cpus = 1;                                        ///< that it may keep busy
  int64_t memory_bytes = std::numeric_limits<int64_t>::max();  ///< that it may use
  Duration peer_timeout = std::chrono::seconds(contract::kDefaultPeerSeconds);
  Duration server_timeout = std::chrono::seconds(contract::kDefaultServerSeconds);
  std::shared_ptr<servers::Directory> directory;  ///< the other servers
  ProgressBar& loading;
  const StopToken& stop;
  /// Called once it listens, before it makes batches: other servers ask it for what their caches keep.
  std::function<void(uint16_t port)> on_listening{};
};

/// A server that makes batches until it is destroyed.
/// Threads: safe from any thread; drain() by one.
class RunningServer {
 public:
  virtual ~RunningServer() = default;

  [[nodiscard]] virtual uint16_t port() const = 0;
  [[nodiscard]] virtual progress::ServerData stats() const = 0;
  /// Takes no new request, answers those that have come, and returns when they are gone or after
  /// `limit`.
  virtual void drain(Duration limit) = 0;
};

/// Opens a server's part of the job's data, listens, and returns once it makes batches of any rank.
/// Errors: Configuration and Data as those of the job's task on a rank, Data also if another server has
/// another data set; Network if the address cannot be listened on; PeerLost if no server holds another
/// part for server_timeout.
[[nodiscard]] Result<std::unique_ptr<RunningServer>> serve(
    const api::GnnJob& job, const ServeContext& context
);

}  // namespace gnn::tasks
