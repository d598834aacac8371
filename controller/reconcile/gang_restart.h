#pragma once

#include "controller/reconcile/pass.h"

namespace gnn::reconcile {

/// Increments the attempt in the status and does nothing else: the next pass acts on it.
void begin_attempt(Pass& pass);

/// Whether pods of earlier attempts, or of an earlier job of the same name, still exist.
[[nodiscard]] bool has_old_pods(const GangView& gang);

/// Removes the pods that has_old_pods() is about.
void remove_old_pods(Pass& pass);

/// Releases and deletes a pod whose result is not needed: gracefully (on SIGTERM it writes a
/// checkpoint), or by force if it has outlived its grace period.
void remove_pod(Pass& pass, const objects::Pod& pod);

}  // namespace gnn::reconcile
