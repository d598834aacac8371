#pragma once

#include "controller/objects/json.h"

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <sys/types.h>
#include <vector>

/// What the benchmarks of the controller share.
namespace gnn::app {

using SteadyPoint = std::chrono::steady_clock::time_point;

/// Errors: std::runtime_error that names `what`, once the time is up.
void wait_until(const std::function<bool()>& done, std::chrono::seconds timeout, const char* what);

/// What it is at, on stderr: a run takes minutes.
void say(const std::string& stage);

[[nodiscard]] double percentile(std::vector<double> values, double p);

[[nodiscard]] std::string job_name(const std::string& prefix, int number);
/// A GNNJob of that many pods.
[[nodiscard]] objects::Json job_json(
    const std::string& name_space, const std::string& name, int nodes
);

struct ProcessUse {
  double resident_mib = 0;
  double peak_resident_mib = 0;
  double cpu_seconds = 0;
};
[[nodiscard]] ProcessUse use_of(pid_t pid);

/// The counters rest_client_requests_total in a page of metrics, by method.
[[nodiscard]] std::map<std::string, double> calls_in(const std::string& metrics);

}  // namespace gnn::app
