#include "controller/reconcile/gang_restart.h"

#include "controller/reconcile/conditions.h"

#include <algorithm>
#include <string>

namespace gnn::reconcile {
namespace {

// Force-deletes a pod that has outlived its grace period.
void remove_if_lost(Pass& pass, const objects::ObjectMeta& meta) {
  if (!meta.deletion_timestamp) return;
  // Deleted already, as far as that goes: a finalizer keeps the object.
  if (meta.deletion_grace_period_seconds == 0) return;
  const TimePoint lost = *meta.deletion_timestamp + pass.in.config.lost_after;
  if (earliest_now(pass.in) >= lost) {
    // Its machine does not answer. The next attempt is fenced against it.
    pass.out.actions.emplace_back(delete_pod(meta, 0));
  } else {
    pass.requeue_at(lost);
  }
}

}  // namespace

void begin_attempt(Pass& pass) {
  api::GnnJobStatus& status = pass.status();
  status.attempt = pass.attempt + 1;
  status.round = 0;
  status.replaced_nodes.clear();
  status.scheduling.reset();
  const int64_t desired = pass.job().spec.workers.nodes;
  status.nodes = {.desired = desired, .summary = "0/" + std::to_string(desired)};
  pass.set(condition::kScheduled, false, reason::kCreating, "Creating the pods");
  pass.requeue(Duration::zero());
}

bool has_old_pods(const GangView& gang) {
  // An object that only somebody else's finalizer keeps runs nothing.
  return !gang.previous.empty() || std::ranges::any_of(gang.old, [](const objects::Pod* pod) {
    return !is_kept_by_others(*pod);
  });
}

void remove_old_pods(Pass& pass) {
  for (const objects::Pod* pod : pass.gang.old) remove_pod(pass, *pod);
  // The garbage collector deletes the pods of an earlier job, but does not force it where a machine
  // is silent.
  for (const objects::Pod* pod : pass.gang.previous) remove_if_lost(pass, pod->metadata);
}

void remove_impostors(Pass& pass) {
  for (const objects::Pod& pod : pass.in.pods) {
    if (!is_impostor(pod, pass.in)) continue;
    const objects::ObjectMeta& meta = pod.metadata;
    if (!meta.deletion_timestamp) {
      pass.out.events.push_back(
          {.type = EventType::Warning,
           .reason = std::string(kForeignPod),
           .message = "Pod " + meta.name +
                      " names this GNNJob as its controller, but is none of its pods; it is deleted"
          }
      );
    }
    remove_pod(pass, pod);
  }
}

void remove_pod(Pass& pass, const objects::Pod& pod) {
  const objects::ObjectMeta& meta = pod.metadata;
  // First, because the release changes the resourceVersion.
  if (meta.deletion_timestamp) {
    remove_if_lost(pass, meta);
  } else {
    pass.out.actions.emplace_back(delete_pod(meta));
  }
  if (has_our_finalizer(meta)) {
    pass.out.actions.emplace_back(ReleasePod{meta.name, meta.uid});
  }
}

}  // namespace gnn::reconcile
