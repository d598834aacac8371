#pragma once

#include "controller/reconcile/pass.h"

namespace gnn::reconcile {

/// Increments the attempt in the status and does nothing else: the next pass acts on it.
void begin_attempt(Pass& pass);

/// Whether pods of earlier attempts, or of an earlier job of the same name, may still run, or hold a name
/// that is needed.
[[nodiscard]] bool has_old_pods(const GangView& gang);

/// Removes the pods that has_old_pods() is about.
void remove_old_pods(Pass& pass);

/// Removes pods that name the job as their controller, but are not the operator's.
void remove_impostors(Pass& pass);

/// Releases and deletes a pod whose result is not needed: gracefully (on SIGTERM it writes a
/// checkpoint), or by force if it has outlived its grace period.
void remove_pod(Pass& pass, const objects::Pod& pod);

}  // namespace gnn::reconcile
