#pragma once

#include "common/api/gnn_job.h"

#include <vector>

namespace gnn::api {

/// The environment variables (contract.h) by which an agent learns the job's stage time-outs: the
/// same for pods and for a job on one machine. `stepSeconds` covers evaluation batches too; the
/// wait in a collective outlasts every stage.
[[nodiscard]] std::vector<EnvVar> timeout_environment(const StageTimeouts& timeouts);

}  // namespace gnn::api
