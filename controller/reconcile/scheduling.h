#pragma once

#include "common/api/gnn_job.h"
#include "common/clock.h"
#include "controller/reconcile/pass.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// Two gangs that each hold half of what they need would wait forever. So a gang that is not
/// scheduled whole in time is released, and comes back after a back-off, older jobs of its
/// namespace first. Gangs of other namespaces are never waited for: only the back-off and its
/// jitter keep them apart.
namespace gnn::reconcile {

/// Until when the gang must be scheduled whole; nothing if it is, if it has no pods, or if it waits as
/// a group and so holds no place.
[[nodiscard]] std::optional<TimePoint> scheduling_deadline(const Pass& pass);

/// Nodes that have no place: without a pod, or with one that is not scheduled.
[[nodiscard]] int64_t unscheduled_nodes(const GangView& gang);

/// Gives up this attempt and sets when the next one may start. `limit` says what it missed: "within
/// 600 s".
void release_gang(Pass& pass, std::string_view limit);

/// Why a gang that could be created has to wait.
struct StartDelay {
  TimePoint until{};
  std::string_view reason;
  std::string message;  ///< with the reason, for Scheduled; empty: it stays as it is
};

/// Nothing if the gang may be created now.
[[nodiscard]] std::optional<StartDelay> start_delay(const Pass& pass);

void apply_start_delay(Pass& pass, const StartDelay& delay);

/// Whether the plan depends on other jobs: the gang was released and may come back, or has pods and
/// may be released soon.
[[nodiscard]] bool wants_competitors(const Observed& observed);

/// Whether the job's gang is being scheduled, or may be: the status may not tell of its pods yet.
[[nodiscard]] bool is_in_placement(const api::GnnJob& job);

/// Whether `other` is an older job of the same namespace whose gang is being scheduled. It goes
/// first if it holds pods: one without any holds nothing that `job` could lack.
[[nodiscard]] bool is_older_gang_in_placement(const api::GnnJob& other, const api::GnnJob& job);

}  // namespace gnn::reconcile
