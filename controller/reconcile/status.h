#pragma once

#include "controller/reconcile/pass.h"

#include <optional>
#include <string_view>

/// What the status says of what is seen.
namespace gnn::reconcile {

/// Message of Scheduled with reason Placing.
inline constexpr std::string_view kPlacingMessage =
    "All pods exist and are waiting to be scheduled";

void count_nodes(Pass& pass);

/// Merges into status.progress what workers report.
void merge_progress(Pass& pass);

/// Sets Scheduled while pods of an earlier attempt, or of an earlier job of the same name, hold up
/// the gang. There must be one.
void describe_leaving_pods(Pass& pass);

/// Sets Scheduled and Running from the gang.
void describe_gang(Pass& pass);

/// Removes the estimate of when the training ends unless it runs.
void forget_estimate(Pass& pass);

/// Whether the status differs only in how far the training, or the preparation of its data, is.
[[nodiscard]] bool is_progress(const Pass& pass);

/// Whether the status differs only in counts, messages and progress from one written a moment ago.
/// Pods of a large gang become ready one after the other; one write can tell of many.
[[nodiscard]] bool is_minor_change(const Pass& pass);

/// Whether the last write had the same status, and the API server has dropped what differs.
[[nodiscard]] bool was_cut_before(const Pass& pass);

/// When the status may be written, if the API server changed the last ones; nothing: at once.
[[nodiscard]] std::optional<TimePoint> next_status_write(const Pass& pass);

/// Leaves the status as it was and looks again at `next`, but no sooner: until then nothing of it is new.
void hold_back_status(Pass& pass, TimePoint next);

/// Leaves the status as it was, and looks again once a minor change may be written.
void postpone_status(Pass& pass);

}  // namespace gnn::reconcile
