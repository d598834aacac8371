#pragma once

#include "controller/reconcile/pass.h"

namespace gnn::reconcile {

// Also for a job that leaves its machines for another reason.

/// Deletes the pods of the gang, and those that prepared its data.
void stop_gang(Pass& pass);
/// Whether any of them is left, or a pod of an earlier attempt.
[[nodiscard]] bool gang_stops(const Pass& pass);
/// The job holds no machine: no time counts, and what went wrong before is over.
void forget_attempt(Pass& pass);

/// Deletes the pods of a job with spec.suspend; sets Suspended once none is left.
void suspend_job(Pass& pass);

/// Whether the job was suspended and spec.suspend is now false.
[[nodiscard]] bool is_resumed(const Pass& pass);

/// Takes Suspended back. The caller begins the next attempt.
void resume_job(Pass& pass);

}  // namespace gnn::reconcile
