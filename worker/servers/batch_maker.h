#pragma once

#include "common/executor.h"
#include "common/result.h"
#include "worker/servers/batch_request.h"

#include <functional>

namespace gnn::servers {

/// Makes batches of a job on a server.
/// Threads: safe from any thread; batches are made at the same time.
template <class Batch>
class BatchMaker {
 public:
  using Done = std::function<void(Result<Batch>)>;

  virtual ~BatchMaker() = default;
  /// Calls `done` once with the batch that `request` names, on the CPU, before this returns or in a
  /// task of `executor`, where what it computes on replies of other servers runs, too. The batch is a
  /// function of the job and the request. `request` is valid during the call alone.
  /// Errors: Data for a request that does not agree with this job's deal of items; any other of what
  /// making it met.
  virtual void make(const BatchRequest& request, const Executor& executor, Done done) = 0;
};

}  // namespace gnn::servers
