#pragma once

#include "controller/app/options.h"

namespace gnn::app {

/// Runs the controller until SIGTERM or SIGINT (0), or until it cannot go on (not 0). SIGTERM,
/// SIGINT must be blocked in the calling thread before any other thread is made. Losing the Lease
/// ends the process at once with kExitLostLease.
[[nodiscard]] int run_operator(const Options& options);

/// Takes our finalizer off every worker pod. 0 if none is left.
[[nodiscard]] int run_release(const Options& options);

/// Waits until a GNNJob has finished and prints its state. 0 Complete, 1 Failed, 124 neither in
/// time; errors of the API server are retried until then.
[[nodiscard]] int run_wait(const Options& options);

inline constexpr int kExitLostLease = 3;
inline constexpr const char* kProgramVersion = GNN_VERSION;

}  // namespace gnn::app
