#pragma once

#include "controller/reconcile/pass.h"

namespace gnn::reconcile {

/// Creates missing children and repairs changed ones, unless a name is taken or the API server
/// refused a child a moment ago.
void create_children(Pass& pass);

/// The same without the gang, which has to wait: servers stay up between attempts.
void create_servers(Pass& pass);

/// Whether what the API server has refused is not to be tried again yet; then it asks for a pass when
/// it is.
[[nodiscard]] bool waits_for_retry(Pass& pass);

}  // namespace gnn::reconcile
