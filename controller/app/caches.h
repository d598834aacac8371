#pragma once

#include "controller/app/gnn_job_resource.h"
#include "controller/app/stray_pods.h"
#include "controller/objects/config_map.h"
#include "controller/objects/network_policy.h"
#include "controller/objects/pod.h"
#include "controller/objects/pod_group.h"
#include "controller/objects/service.h"
#include "controller/objects/workload.h"
#include "controller/runtime/memory_budget.h"
#include "controller/runtime/store.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace gnn::app {

/// The key of the job that an object belongs to: by its controller, which users rarely touch, or by
/// its job label. Nothing without either.
[[nodiscard]] std::optional<objects::ObjectKey> job_of(const objects::ObjectMeta& meta);

/// The same as text; empty for nothing.
[[nodiscard]] std::string job_group(const objects::ObjectMeta& meta);

/// The namespace of a job whose gang is being scheduled, so that a gang that waits finds the others
/// of its namespace without a look at every job; empty for all other jobs.
[[nodiscard]] std::string placement_group(const api::GnnJob& job);

/// With a namespace that fills it and the rest of the process, half of what the chart gives the
/// controller.
inline constexpr int64_t kDefaultCacheMemory = int64_t{64} << 20;

/// All that the controller knows about the cluster.
struct Caches {
  /// `memory_bytes` for all objects together.
  explicit Caches(int64_t memory_bytes = kDefaultCacheMemory) : memory(memory_bytes) {}

  /// By the labels of client::resource_of().
  runtime::MemoryBudget memory;
  /// Grouped by placement_group().
  runtime::Store<api::GnnJob> jobs{placement_group};
  /// Grouped by job_group().
  runtime::Store<objects::Pod> pods{[](const objects::Pod& pod) { return job_group(pod.metadata); }
  };
  StrayPods strays;
  runtime::Store<objects::Service> services;
  runtime::Store<objects::ConfigMap> config_maps;
  runtime::Store<objects::NetworkPolicy> network_policies;
  // Grouped by job_group(). Those of APIs that are not used stay empty.
  runtime::Store<objects::NativePodGroup> native_groups{group_index<objects::NativePodGroup>()};
  runtime::Store<objects::CoschedulingPodGroup> coscheduling_groups{
      group_index<objects::CoschedulingPodGroup>()
  };
  runtime::Store<objects::VolcanoPodGroup> volcano_groups{group_index<objects::VolcanoPodGroup>()};
  runtime::Store<objects::WorkloadV1Beta2> workloads_v1beta2{group_index<objects::WorkloadV1Beta2>()
  };
  runtime::Store<objects::WorkloadV1Beta1> workloads_v1beta1{group_index<objects::WorkloadV1Beta1>()
  };

 private:
  template <class T>
  static std::function<std::string(const T&)> group_index() {
    return [](const T& group) { return job_group(group.metadata); };
  }
};

/// Calls `use` with the store of that API's groups.
template <class Use>
auto with_groups(Caches& caches, objects::GroupApi api, Use use) {
  switch (api) {
    case objects::GroupApi::Coscheduling:
      return use(caches.coscheduling_groups);
    case objects::GroupApi::Volcano:
      return use(caches.volcano_groups);
    case objects::GroupApi::Native:
      break;
  }
  return use(caches.native_groups);
}

/// Calls `use` with the store of Kueue's Workloads in that version.
template <class Use>
auto with_workloads(Caches& caches, objects::KueueVersion version, Use use) {
  return version == objects::KueueVersion::V1Beta2 ? use(caches.workloads_v1beta2)
                                                   : use(caches.workloads_v1beta1);
}

/// The Workloads of a job, by the job's group in the store of that version.
[[nodiscard]] std::vector<objects::Workload> workloads_of(
    Caches& caches, objects::KueueVersion version, const std::string& job
);

/// The groups of a job's pods in every API, by the job's group in the stores.
[[nodiscard]] std::vector<objects::PodGroup> groups_of(Caches& caches, const std::string& job);

/// Calls `changed` with a job's key whenever the job, or an object that belongs to it, changes, and
/// keeps `strays` up to date.
void on_job_change(Caches& caches, const std::function<void(const objects::ObjectKey&)>& changed);

}  // namespace gnn::app
