#pragma once

#include "controller/reconcile/conditions.h"
#include "controller/reconcile/gang.h"
#include "controller/reconcile/observed.h"
#include "controller/reconcile/plan.h"

#include <cstdint>
#include <string>

/// One reconcile pass while the policies work on it. Each policy is a free function in a file of
/// its own; those that return bool say whether they have settled the pass.
namespace gnn::reconcile {

struct Pass {
  const Observed& in;
  std::int64_t attempt;  ///< present attempt; 1 while none was started yet
  GangView gang;
  Plan out;  ///< out.status starts as the observed one

  [[nodiscard]] const api::GnnJob& job() const { return in.job; }
  [[nodiscard]] api::GnnJobStatus& status() { return out.status; }

  /// Sets a condition of out.status for this generation and time.
  void set(std::string_view type, bool holds, std::string_view why, std::string message);

  /// Looks again after `wait` at the latest.
  void requeue(Duration wait);
  void requeue_at(TimePoint time);
};

// ---- gang_restart.cpp

/// Raises the attempt in the status, and nothing else: what follows from it is the next pass's.
void begin_attempt(Pass& pass);

/// Takes down pods of earlier attempts and of earlier jobs of the same name. True while any is
/// left.
[[nodiscard]] bool clear_old_pods(Pass& pass);

/// Frees and deletes a pod whose result is of no use: in good order (SIGTERM makes it write a
/// checkpoint), or at once where its machine has not answered in time.
void remove_pod(Pass& pass, const objects::Pod& pod);

// ---- failure_policy.cpp

/// Counts in-place rounds that workers have reported.
void count_rounds(Pass& pass);

/// Ends the attempt, or the job, if a node has failed.
[[nodiscard]] bool apply_failure(Pass& pass);

// ---- success_policy.cpp

/// Completes the job when all nodes are done.
[[nodiscard]] bool apply_success(Pass& pass);

// ---- finish.cpp

/// Fails the job for good.
void fail_job(Pass& pass, std::string_view why, std::string message);

/// Fails the job when its deadline has passed.
[[nodiscard]] bool apply_deadline(Pass& pass);

/// For a finished job: frees its pods by cleanPodPolicy, deletes it by its time to live.
[[nodiscard]] bool apply_finished(Pass& pass);

/// For a job that is being deleted: frees all its pods.
[[nodiscard]] bool apply_deletion(Pass& pass);

// ---- suspend.cpp

/// Stops the gang while suspended; begins an attempt when the job is resumed.
[[nodiscard]] bool apply_suspend(Pass& pass);

// ---- scheduling.cpp

/// Gives the places of a gang back that could not be placed whole in time.
[[nodiscard]] bool apply_release(Pass& pass);

/// Whether a released gang must wait still.
[[nodiscard]] bool wait_for_turn(Pass& pass);

// ---- children.cpp

/// Creates what is missing, unless a name is taken or the API server refused a moment ago.
void create_children(Pass& pass);

// ---- status.cpp

void count_nodes(Pass& pass);
void merge_progress(Pass& pass);
/// Scheduled, while pods of an earlier job of the same name hold up this one.
void describe_earlier_job(Pass& pass);
/// Scheduled and Running, from what is seen of the gang.
void describe_gang(Pass& pass);
/// Leaves the status as it is for now if only counts and texts moved since a write a moment ago:
/// the pods of a large gang become ready one after the other, and one write tells of many.
void hold_back_minor_news(Pass& pass);

// ---- events.cpp

/// What people are told, from how the status changed.
[[nodiscard]] std::vector<EventRecord> events_between(
    const api::GnnJobStatus& before, const api::GnnJobStatus& after
);

}  // namespace gnn::reconcile
