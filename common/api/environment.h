#pragma once

#include "common/api/gnn_job.h"

#include <vector>

namespace gnn::api {

/// The environment variables (contract.h) that tell an agent the job's time-outs, in a pod or on a
/// single machine. `stepSeconds` also covers evaluation batches; the time-out of a collective
/// exceeds that of every stage.
[[nodiscard]] std::vector<EnvVar> timeout_environment(const StageTimeouts& timeouts);

}  // namespace gnn::api
