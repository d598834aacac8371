#pragma once

#include "controller/app/options.h"

namespace gnn::app {

inline constexpr int kExitLostLease = 3;

/// Runs the controller until SIGTERM or SIGINT; returns 0 then, another code if it cannot go on.
/// Both signals must be blocked in the calling thread before it creates others. Losing the Lease
/// ends the process at once with kExitLostLease.
[[nodiscard]] int run_operator(const Options& options);

}  // namespace gnn::app
