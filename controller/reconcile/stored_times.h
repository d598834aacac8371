#pragma once

#include "controller/reconcile/pass.h"

/// What a clock that was wrong has left in the status.
namespace gnn::reconcile {

/// Brings times of the status that a right clock would not have written to where they do no harm: a
/// stamp in the future becomes now, and no wait lasts longer than the longest that there is.
void cut_stored_times(Pass& pass);

/// The same for a job that has finished.
void cut_completion_time(Pass& pass);

}  // namespace gnn::reconcile
