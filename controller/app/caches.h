#pragma once

#include "controller/app/gnn_job_resource.h"
#include "controller/objects/config_map.h"
#include "controller/objects/network_policy.h"
#include "controller/objects/pod.h"
#include "controller/objects/service.h"
#include "controller/runtime/store.h"

#include <functional>
#include <string>

namespace gnn::app {

/// "namespace/job" from an object's job label; empty without the label.
[[nodiscard]] std::string job_group(const objects::ObjectMeta& meta);

/// The namespace of a job whose gang is being scheduled, so that a gang that waits finds the others
/// of its namespace without a look at every job; empty for all other jobs.
[[nodiscard]] std::string placement_group(const api::GnnJob& job);

/// All that the controller knows about the cluster.
struct Caches {
  /// Grouped by placement_group().
  runtime::Store<api::GnnJob> jobs{placement_group};
  /// Grouped by job_group().
  runtime::Store<objects::Pod> pods{[](const objects::Pod& pod) { return job_group(pod.metadata); }
  };
  runtime::Store<objects::Service> services;
  runtime::Store<objects::ConfigMap> config_maps;
  runtime::Store<objects::NetworkPolicy> network_policies;
};

/// Calls `changed` with a job's key whenever the job, or an object with its label, changes.
void on_job_change(Caches& caches, const std::function<void(const objects::ObjectKey&)>& changed);

}  // namespace gnn::app
