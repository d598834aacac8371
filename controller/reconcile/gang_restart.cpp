#include "common/contract.h"
#include "controller/reconcile/pass.h"

namespace gnn::reconcile {
namespace {

/// Removes a pod that should have left long ago.
void take_if_lost(Pass& pass, const objects::ObjectMeta& meta) {
  if (!meta.deletion_timestamp) return;
  const TimePoint lost = *meta.deletion_timestamp + pass.in.config.lost_after;
  if (pass.in.now >= lost) {
    // Its machine does not answer. What comes after it is fenced against it.
    pass.out.actions.emplace_back(DeletePod{meta.name, meta.uid, 0});
  } else {
    pass.requeue_at(lost);
  }
}

}  // namespace

void begin_attempt(Pass& pass) {
  api::GnnJobStatus& status = pass.status();
  status.attempt = pass.attempt + 1;
  status.round = 0;
  const std::int64_t desired = pass.job().spec.workers.nodes;
  status.nodes = {.desired = desired, .summary = "0/" + std::to_string(desired)};
  pass.set(condition::kScheduled, false, reason::kCreating, "The pods are being created");
  pass.requeue(Duration::zero());
}

bool clear_old_pods(Pass& pass) {
  for (const objects::Pod* pod : pass.gang.old) remove_pod(pass, *pod);
  // What an earlier job of the name has left is deleted by the garbage collector, which does not
  // insist where a machine is silent.
  for (const objects::Pod* pod : pass.gang.previous) take_if_lost(pass, pod->metadata);
  return !pass.gang.old.empty() || !pass.gang.previous.empty();
}

void remove_pod(Pass& pass, const objects::Pod& pod) {
  const objects::ObjectMeta& meta = pod.metadata;
  if (has_our_finalizer(meta)) {
    pass.out.actions.emplace_back(ReleasePod{meta.name, meta.uid, meta.finalizers});
  }
  if (!meta.deletion_timestamp) {
    pass.out.actions.emplace_back(DeletePod{meta.name, meta.uid, std::nullopt});
    return;
  }
  take_if_lost(pass, meta);
}

}  // namespace gnn::reconcile
