#pragma once

#include "controller/reconcile/pass.h"

namespace gnn::reconcile {

/// Whether every node has succeeded.
[[nodiscard]] bool has_succeeded(const GangView& gang);

/// Sets Complete.
void complete_job(Pass& pass);

}  // namespace gnn::reconcile
