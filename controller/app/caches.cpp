#include "controller/app/caches.h"

#include "common/contract.h"
#include "controller/reconcile/scheduling.h"

#include <string>

namespace gnn::app {
namespace {

using objects::ObjectKey;
using KeyFunction = std::function<void(const ObjectKey&)>;

template <class T>
void on_child_change(runtime::Store<T>& store, const KeyFunction& changed) {
  store.on_change([changed](const auto& before, const auto& after) {
    for (const auto& object : {before, after}) {
      if (!object) continue;
      const auto label = object->metadata.labels.find(std::string(contract::kLabelJob));
      if (label == object->metadata.labels.end()) continue;
      changed({object->metadata.namespace_, label->second});
    }
  });
}

}  // namespace

std::string job_group(const objects::ObjectMeta& meta) {
  const auto label = meta.labels.find(std::string(contract::kLabelJob));
  return label == meta.labels.end() ? "" : meta.namespace_ + "/" + label->second;
}

std::string placement_group(const api::GnnJob& job) {
  return reconcile::is_in_placement(job) ? job.metadata.namespace_ : "";
}

void on_job_change(Caches& caches, const KeyFunction& changed) {
  caches.jobs.on_change([changed](const auto& before, const auto& after) {
    const api::JobMetadata& meta = (after ? after : before)->metadata;
    changed({meta.namespace_, meta.name});
  });
  on_child_change(caches.pods, changed);
  on_child_change(caches.services, changed);
  on_child_change(caches.config_maps, changed);
  on_child_change(caches.network_policies, changed);
}

}  // namespace gnn::app
