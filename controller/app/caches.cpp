#include "controller/app/caches.h"

#include "common/contract.h"
#include "controller/reconcile/scheduling.h"

#include <string>

namespace gnn::app {
namespace {

using objects::ObjectKey;
using KeyFunction = std::function<void(const ObjectKey&)>;

template <class T>
void tell_jobs(const T& before, const T& after, const KeyFunction& changed) {
  std::optional<ObjectKey> told;
  for (const T& object : {before, after}) {
    const auto job = object ? job_of(object->metadata) : std::nullopt;
    if (job && job != told) changed(*job);
    told = job;
  }
}

template <class T>
void on_child_change(runtime::Store<T>& store, const KeyFunction& changed) {
  store.on_change([changed](const auto& before, const auto& after) {
    tell_jobs(before, after, changed);
  });
}

}  // namespace

std::optional<ObjectKey> job_of(const objects::ObjectMeta& meta) {
  if (objects::is_controlled_by_job(meta))
    return ObjectKey{meta.namespace_, objects::controller_of(meta)->name};
  const auto label = meta.labels.find(std::string(contract::kLabelJob));
  if (label == meta.labels.end()) return std::nullopt;
  return ObjectKey{meta.namespace_, label->second};
}

std::string job_group(const objects::ObjectMeta& meta) {
  const auto job = job_of(meta);
  return job ? objects::to_string(*job) : "";
}

std::string placement_group(const api::GnnJob& job) {
  return reconcile::is_in_placement(job) ? job.metadata.namespace_ : "";
}

std::vector<objects::PodGroup> groups_of(Caches& caches, const std::string& job) {
  std::vector<objects::PodGroup> groups;
  for (const objects::GroupApi api : objects::kGroupApis) {
    with_groups(caches, api, [&](const auto& store) {
      for (const auto& group : store.group(job)) groups.push_back(*group);
    });
  }
  return groups;
}

std::vector<objects::Workload> workloads_of(
    Caches& caches, objects::KueueVersion version, const std::string& job
) {
  std::vector<objects::Workload> workloads;
  with_workloads(caches, version, [&](const auto& store) {
    for (const auto& workload : store.group(job)) workloads.push_back(*workload);
  });
  return workloads;
}

void on_job_change(Caches& caches, const KeyFunction& changed) {
  caches.jobs.on_change([changed](const auto& before, const auto& after) {
    const api::JobMetadata& meta = (after ? after : before)->metadata;
    changed({meta.namespace_, meta.name});
  });
  caches.pods.on_change([changed, &strays = caches.strays](const auto& before, const auto& after) {
    if (after) {
      strays.shown(*after);
    } else if (before) {
      strays.vanished(*before);
    }
    tell_jobs(before, after, changed);
  });
  on_child_change(caches.services, changed);
  on_child_change(caches.config_maps, changed);
  on_child_change(caches.network_policies, changed);
  on_child_change(caches.native_groups, changed);
  on_child_change(caches.coscheduling_groups, changed);
  on_child_change(caches.volcano_groups, changed);
  on_child_change(caches.workloads_v1beta2, changed);
  on_child_change(caches.workloads_v1beta1, changed);
}

}  // namespace gnn::app
