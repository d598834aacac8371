#pragma once

#include "controller/reconcile/gang.h"
#include "controller/reconcile/pass.h"

/// Which Secret holds the data key of the job's pods, and when a new one is made. The operator can create
/// Secrets and nothing else, so it trusts only a name that it has drawn, created and written into the
/// status, in this order. What it created and did not record goes with the job.
namespace gnn::reconcile {

/// Whether a pass needs Observed::new_data_key.
[[nodiscard]] bool wants_data_key(const Observed& observed);

/// Whether pods have to wait for their data key; makes it.
[[nodiscard]] bool lacks_data_key(Pass& pass);

/// Whether the pod has another data key than a new one would have.
[[nodiscard]] bool has_other_key(const Pass& pass, const objects::Pod& pod);

/// After an attempt with that failure: a Secret that somebody deleted keeps pods from starting, so the
/// next attempt has a new one.
void renew_data_key(Pass& pass, FailureKind failure);

}  // namespace gnn::reconcile
