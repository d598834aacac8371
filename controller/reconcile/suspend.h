#pragma once

#include "controller/reconcile/pass.h"

namespace gnn::reconcile {

/// Deletes the pods of a job with spec.suspend; sets Suspended once none is left.
void suspend_job(Pass& pass);

/// Whether the job was suspended and spec.suspend is now false.
[[nodiscard]] bool is_resumed(const Pass& pass);

/// Takes Suspended back. The caller begins the next attempt.
void resume_job(Pass& pass);

}  // namespace gnn::reconcile
