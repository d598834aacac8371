#pragma once

#include "controller/reconcile/pass.h"

#include <optional>
#include <string>

/// Failures that follow each other must not follow each other at full speed: a disturbance of seconds
/// would use up every restart, and an image that always ends would make pods without pause.
namespace gnn::reconcile {

/// Whether the attempt has run for failurePolicy.backoff.healthySeconds, so that what went wrong
/// before it no longer counts.
[[nodiscard]] bool has_run_well(const Pass& pass);

/// Begins all counts again, also those of what may happen once.
void forget_failures(Pass& pass);

/// Before when the next attempt must not start, whatever the job says: from the third restart within
/// OperatorConfig::restart_window on, restart_floor after the last one. Nothing if there were fewer.
[[nodiscard]] std::optional<TimePoint> restart_floor(const Pass& pass);

/// Counts a restart, and sets when the next attempt may start: at once after a healthy stretch, else
/// after a wait that doubles with each restart of its sort (charged or free). The failure must have been
/// recorded.
void back_off(Pass& pass, bool charged);

/// When the next attempt starts, and why so late. It must have a time.
[[nodiscard]] std::string backoff_message(const Pass& pass);

/// Says in Scheduled that the next attempt waits, if it does.
void describe_backoff(Pass& pass);

}  // namespace gnn::reconcile
