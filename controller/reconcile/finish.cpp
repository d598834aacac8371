#include "controller/reconcile/finish.h"

#include "common/contract.h"
#include "controller/reconcile/conditions.h"
#include "controller/reconcile/gang_restart.h"
#include "controller/reconcile/pod_group.h"
#include "controller/reconcile/servers.h"

#include <algorithm>
#include <chrono>
#include <string>

namespace gnn::reconcile {
namespace {

using std::chrono::seconds;

// Whether the pod holds its machine's resources: the worker runs, or has ended beside a container
// that does not. A moment after the worker's end that of the pod is not reported yet.
bool occupies_machine(const objects::Pod& pod) {
  if (pod.status.phase == "Succeeded" || pod.status.phase == "Failed") return false;
  const auto& containers = pod.status.container_statuses;
  return !has_ended(pod) ||
         std::any_of(containers.begin(), containers.end(), [](const auto& container) {
           return container.state.running.has_value();
         });
}

bool is_deleted_by(api::CleanPodPolicy policy, const objects::Pod& pod) {
  switch (policy) {
    case api::CleanPodPolicy::Running:
      return occupies_machine(pod);
    case api::CleanPodPolicy::All:
      return true;
    case api::CleanPodPolicy::None:
      return false;
  }
  return false;
}

// A failed job occupies no machine, even where its pods are kept.
void stop(Pass& pass, const objects::Pod& pod) {
  const objects::ObjectMeta& meta = pod.metadata;
  if (pod.spec.node_name.empty()) {  // not scheduled: no kubelet to stop it, no logs to keep
    pass.out.actions.emplace_back(delete_pod(meta));
  } else if (!pod.spec.active_deadline_seconds) {
    pass.out.actions.emplace_back(StopPod{meta.name, meta.uid});
  }
}

// Servers end by themselves once all workers are done, a little later than these.
bool may_still_end(Pass& pass, const objects::Pod& pod) {
  const api::GnnJob& job = pass.job();
  const auto& end = pass.status().completion_time;
  if (!is_true(job.status, condition::kComplete) || !end) return false;
  if (!contract::numbers_of_server_pod(job.metadata.name, pod.metadata.name)) return false;
  const TimePoint limit = *end + pass.in.config.server_end_patience;
  if (earliest_now(pass.in) >= limit) return false;
  pass.requeue_at(limit);
  return true;
}

void clean_up(Pass& pass, const objects::Pod& pod) {
  const api::GnnJob& job = pass.job();
  if (pod.metadata.deletion_timestamp) return;
  if (occupies_machine(pod) && may_still_end(pass, pod)) return;
  const bool serves =
      contract::numbers_of_server_pod(job.metadata.name, pod.metadata.name).has_value();
  if (is_deleted_by(job.spec.run_policy.clean_pod_policy, pod)) {
    pass.out.actions.emplace_back(delete_pod(pod.metadata));
  } else if ((is_true(job.status, condition::kFailed) || serves) && occupies_machine(pod)) {
    stop(pass, pod);
  }
}

void release(Pass& pass, const objects::Pod& pod) {
  const objects::ObjectMeta& meta = pod.metadata;
  if (has_our_finalizer(meta)) {
    pass.out.actions.emplace_back(ReleasePod{meta.name, meta.uid});
  }
}

}  // namespace

void fail_job(Pass& pass, std::string_view why, std::string message) {
  pass.status().completion_time = std::chrono::floor<seconds>(pass.in.now);
  if (is_true(pass.status(), condition::kRestarting)) {
    pass.set(condition::kRestarting, false, reason::kFinished, message);
  }
  pass.set(condition::kRunning, false, reason::kFinished, message);
  if (pass.preparing()) pass.set(condition::kPrepared, false, why, message);
  finish_servers(pass, message);
  pass.set(condition::kFailed, true, why, std::move(message));
  pass.requeue(Duration::zero());
}

std::optional<TimePoint> job_deadline(const Pass& pass) {
  const auto& limit = pass.job().spec.run_policy.active_deadline_seconds;
  const auto& start = pass.status().start_time;
  if (!limit || !start) return std::nullopt;
  return *start + seconds(*limit);
}

void fail_past_deadline(Pass& pass) {
  fail_job(
      pass,
      reason::kDeadlineExceeded,
      "The job was active for longer than activeDeadlineSeconds (" +
          std::to_string(pass.job().spec.run_policy.active_deadline_seconds.value_or(0)) + ")"
  );
}

void clean_up_finished(Pass& pass) {
  const api::GnnJob& job = pass.job();
  const api::RunPolicy& policy = job.spec.run_policy;
  for (const objects::Pod& pod : pass.in.pods) {
    if (!is_owned_by(pod.metadata, job) || is_impostor(pod, pass.in)) continue;
    clean_up(pass, pod);
    release(pass, pod);
  }
  const bool active = std::ranges::any_of(pass.in.pods, [&](const objects::Pod& pod) {
    return is_owned_by(pod.metadata, job) && occupies_machine(pod);
  });
  if (!active) remove_all_groups(pass);
  const auto& completion = pass.status().completion_time;
  if (policy.ttl_seconds_after_finished && completion) {
    const TimePoint end = *completion + seconds(*policy.ttl_seconds_after_finished);
    if (earliest_now(pass.in) >= end) {
      pass.out.actions.emplace_back(DeleteJob{job.metadata.uid, job.metadata.resource_version});
    } else {
      pass.requeue_at(end);
    }
  }
}

bool is_orphaning(const api::GnnJob& job) {
  const auto& finalizers = job.metadata.finalizers;
  return job.metadata.deletion_timestamp &&
         std::ranges::find(finalizers, contract::kOrphanFinalizer) != finalizers.end();
}

void release_pods(Pass& pass) {
  for (const objects::Pod& pod : pass.in.pods) {
    if (is_owned_by(pod.metadata, pass.job())) release(pass, pod);
  }
}

void remove_pods(Pass& pass) {
  for (const objects::Pod& pod : pass.in.pods) {
    if (is_owned_by(pod.metadata, pass.job())) remove_pod(pass, pod);
  }
}

}  // namespace gnn::reconcile
