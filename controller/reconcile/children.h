#pragma once

#include "controller/reconcile/pass.h"

namespace gnn::reconcile {

/// Creates missing children and repairs changed ones, unless a name is taken or the API server
/// refused a child a moment ago.
void create_children(Pass& pass);

/// The same without the gang, which has to wait: servers stay up between attempts.
void create_servers(Pass& pass);

}  // namespace gnn::reconcile
