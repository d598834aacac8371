#pragma once

#include "common/clock.h"
#include "controller/reconcile/pass.h"

#include <optional>
#include <string>
#include <string_view>

/// How a job ends other than by success, and what is left to do for one that has ended.
namespace gnn::reconcile {

/// Sets Failed.
void fail_job(Pass& pass, std::string_view why, std::string message);

/// When activeDeadlineSeconds end; nothing without a limit or before the job has started.
[[nodiscard]] std::optional<TimePoint> job_deadline(const Pass& pass);

/// Fails the job for its deadline.
void fail_past_deadline(Pass& pass);

/// For a job that has finished: releases its pods, deletes them by cleanPodPolicy, and the job by
/// ttlSecondsAfterFinished.
void clean_up_finished(Pass& pass);

/// Whether the job is being deleted without what it owns (--cascade=orphan).
[[nodiscard]] bool is_orphaning(const api::GnnJob& job);

/// For such a job: releases its pods, which run on as nobody's.
void release_pods(Pass& pass);

/// For a job that is being deleted: releases and deletes its pods.
void remove_pods(Pass& pass);

}  // namespace gnn::reconcile
