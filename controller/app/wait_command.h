#pragma once

#include "controller/app/options.h"

namespace gnn::app {

/// Waits until a GNNJob has finished and prints its final condition. Returns 0 for Complete, 1 for
/// Failed, 2 if the job was deleted before it was seen to finish, 124 if the timeout passes first. Errors of the
/// API server are retried until then.
[[nodiscard]] int run_wait(const Options& options);

}  // namespace gnn::app
