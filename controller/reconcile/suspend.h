#pragma once

#include "controller/reconcile/pass.h"

namespace gnn::reconcile {

// Also for a job that leaves its machines for another reason.

/// Deletes the pods of the gang, and those that prepared its data.
void stop_gang(Pass& pass);
/// Whether any of them is left, or a pod of an earlier attempt.
[[nodiscard]] bool gang_stops(const Pass& pass);
/// Whether the status says that the pods of the attempt are being stopped. It says so before the first
/// of them is deleted: what then becomes of them is no failure, also for a controller that starts
/// meanwhile, or once the stop is asked for no more.
[[nodiscard]] bool is_stopping(const api::GnnJobStatus& status);
/// The job holds no machine: no time counts, and what went wrong before is over.
void forget_attempt(Pass& pass);

/// Deletes the pods of a job with spec.suspend; sets Suspended once none is left.
void suspend_job(Pass& pass);

/// Whether the job was suspended and spec.suspend is now false.
[[nodiscard]] bool is_resumed(const Pass& pass);

/// Takes Suspended back. The caller begins the next attempt.
void resume_job(Pass& pass);

/// Begins the next attempt of a job whose pods still stop, although nobody asks for that any more.
void take_back_stop(Pass& pass);

}  // namespace gnn::reconcile
