#pragma once

#include "controller/app/options.h"

namespace gnn::app {

/// Removes our finalizer from every worker pod, so that an uninstall leaves nothing that hangs.
/// Returns 0 if none is left.
[[nodiscard]] int run_release(const Options& options);

}  // namespace gnn::app
