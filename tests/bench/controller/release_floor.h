#pragma once

#include <string>

namespace gnn::app {

/// Keeps the controller's caches by the controller's watches, and releases the pods of each job that is
/// deleted: no queue, no pass, no decision, no metrics of jobs. What that costs is what a deletion
/// costs any client of ours. Prints a line once the caches are full, and runs until it is killed.
/// Errors: std::runtime_error.
[[noreturn]] void run_release_floor(const std::string& kubeconfig);

}  // namespace gnn::app
