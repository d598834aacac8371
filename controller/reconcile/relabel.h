#pragma once

#include "controller/reconcile/pass.h"

namespace gnn::reconcile {

/// Puts back the labels of the job's pods that somebody has changed or removed. Without them the
/// watch does not show a pod, and its Service and NetworkPolicy do not select it.
void restore_labels(Pass& pass);

}  // namespace gnn::reconcile
