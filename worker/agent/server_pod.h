#pragma once

#include "common/clock.h"
#include "common/progress_bar.h"
#include "common/result.h"
#include "common/stop_token.h"
#include "worker/agent/messages.h"
#include "worker/agent/server_options.h"
#include "worker/agent/store_link.h"
#include "worker/progress/served_data.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace gnn::agent {

/// A sampling server at work.
class Serving {
 public:
  virtual ~Serving() = default;
  /// Threads: any.
  [[nodiscard]] virtual progress::ServerData data() const = 0;
  /// Refuses new requests; returns when those under way are answered, or after `limit`.
  virtual void drain(Duration limit) = 0;
};

/// What the work of a server is told.
struct ServingStart {
  ProgressBar& loading;
  const StopToken& stop;  ///< the pod ends before it serves
  /// To be called once, when it listens: others may ask it from then on.
  std::function<void(uint16_t port)> on_listening;
};

/// Opens the data and listens; returns when it makes batches.
/// Errors: those of exit codes (docs/worker-contract.md).
using StartServing = std::function<Result<std::unique_ptr<Serving>>(const ServingStart& start)>;

/// What a server's pod takes from outside.
struct ServerPodDoors {
  StoreConnector connect;
  StartServing serve;
  /// Called with the servers that take part, whenever they change, on a thread of its own.
  std::function<void(const std::vector<LiveServer>& servers)> on_servers;
};

/// Runs a sampling server until all workers are done (0), it is asked to stop (76, after what was under
/// way is answered), another pod takes its place (75), or it can't serve. `partitions`: of the job's
/// data. Writes the final result and returns the contract's exit code; where the work has not ended
/// loading by then, the process ends at once.
/// Threads: call it from the main thread before any other thread exists.
[[nodiscard]] int run_server_pod(
    const ServerOptions& options, int64_t partitions, ServerPodDoors doors
);

}  // namespace gnn::agent
