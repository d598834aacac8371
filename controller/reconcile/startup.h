#pragma once

#include "common/clock.h"
#include "controller/reconcile/pass.h"

#include <optional>

/// A gang that has its places but not its containers holds machines without using them.
namespace gnn::reconcile {

/// Until when every container of a gang that is scheduled whole must have started; nothing if all
/// have, or if the gang is not scheduled.
[[nodiscard]] std::optional<TimePoint> startup_deadline(const Pass& pass);

}  // namespace gnn::reconcile
