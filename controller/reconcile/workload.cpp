#include "controller/reconcile/workload.h"

#include "common/contract.h"
#include "controller/reconcile/children.h"
#include "controller/reconcile/conditions.h"
#include "controller/reconcile/desired.h"
#include "controller/reconcile/gang.h"
#include "controller/reconcile/pass.h"
#include "controller/reconcile/queue.h"
#include "controller/reconcile/refusals.h"
#include "controller/reconcile/servers.h"

#include <algorithm>
#include <array>
#include <utility>

namespace gnn::reconcile {
namespace {

namespace kueue = objects::kueue;
using objects::Workload;

bool has_finalizer(const Workload& workload) {
  const auto& all = workload.metadata.finalizers;
  return std::ranges::find(all, kueue::kFinalizer) != all.end();
}

void release(Pass& pass, const Workload& workload) {
  if (has_finalizer(workload)) pass.out.actions.emplace_back(ReleaseWorkload{workload});
}

objects::PriorityClass priority_class_of(const api::GnnJob& job) {
  const auto label = job.metadata.labels.find(std::string(kueue::kLabelPriorityClass));
  if (label != job.metadata.labels.end() && !label->second.empty()) {
    return {.of_pods = false, .name = label->second};
  }
  return {.of_pods = true, .name = job.spec.workers.pod_template->priority_class_name.value_or("")};
}

std::string to_text(const objects::PriorityClass& chosen) {
  return (chosen.of_pods ? "PriorityClass " : "WorkloadPriorityClass ") + chosen.name;
}

bool may_change_class(const Workload& workload, const objects::PriorityClass& wanted) {
  if (!holds_quota(workload)) return true;
  // Only the name of one of Kueue's own.
  return !workload.priority_class.of_pods && !wanted.of_pods &&
         workload.priority_class.name.empty() == wanted.name.empty();
}

// A job that names none had the cluster's default when it was queued, as its pods will have.
bool is_class(const objects::PriorityClass& present, const objects::PriorityClass& wanted) {
  if (wanted.name.empty()) return present.name.empty() || present.of_pods;
  return present.name == wanted.name && present.of_pods == wanted.of_pods;
}

bool is_prebuilt(const api::GnnJob& job) {
  return job.metadata.labels.contains(std::string(kueue::kLabelPrebuilt));
}

// The class whose value has to be known, since it is to be written.
std::optional<objects::PriorityClass> class_to_write(const Pass& pass) {
  objects::PriorityClass wanted = priority_class_of(pass.job());
  const Workload* present = pass.queue.workload;
  const bool changes = present == nullptr || (!is_class(present->priority_class, wanted) &&
                                              may_change_class(*present, wanted));
  if (!pass.queue.wanted || !changes || is_prebuilt(pass.job())) return std::nullopt;
  return wanted;
}

void set_priority(Pass& pass, Workload& workload) {
  const auto wanted = class_to_write(pass);
  if (!wanted) return;
  if (pass.in.priority) {
    workload.priority_class = pass.in.priority->of;
    workload.priority = pass.in.priority->value;
  } else if (wanted->name.empty()) {
    workload.priority_class = {};
    workload.priority.reset();
  } else {
    pass.requeue(pass.in.config.refusal_retry);
  }
}

// Says what the API server has refused of the Workload; whether to wait before it is tried again.
bool was_refused(Pass& pass) {
  const std::string object = "workload " + pass.queue.workload_name;
  const auto refusal = std::ranges::find(pass.in.refusals, object, &ApiRefusal::object);
  if (refusal == pass.in.refusals.end()) return false;
  if (!pass.queue.has_pods) {
    pass.set(condition::kScheduled, false, reason_of(refusal->kind), message_of(*refusal));
    pass.set(condition::kRunning, false, reason::kNotPlaced, message_of(*refusal));
  }
  return waits_for_retry(pass);
}

void create_workload(Pass& pass) {
  const bool startable =
      is_true(pass.status(), condition::kAccepted) || is_run_by_multikueue(pass.in);
  if (!pass.queue.wanted || pass.job().spec.suspend || !startable) return;
  // Quota is asked for what the job is to hold, not beside what it still holds.
  if (pass.queue.has_pods || pass.queue.foreign != nullptr || is_prebuilt(pass.job())) return;
  if (was_refused(pass)) return;
  const auto chosen = class_to_write(pass);
  if (chosen && !chosen->name.empty() && !pass.in.priority) {
    pass.set(condition::kScheduled, false, reason::kQueued, to_text(*chosen) + " cannot be read");
    return pass.requeue(pass.in.config.refusal_retry);
  }
  Workload workload = desired_workload(pass.job(), pass.queue.workload_name, pass.preparing());
  workload.version = *pass.in.kueue;
  workload.queue = queue_of(pass.job(), pass.in.config);
  set_priority(pass, workload);
  pass.out.actions.emplace_back(CreateWorkload{std::move(workload)});
}

void set_labels(Workload& workload, const api::GnnJob& job) {
  const Workload own = desired_workload(job, workload.metadata.name, false);
  for (const auto& [key, value] : own.metadata.labels) workload.metadata.labels[key] = value;
}

void set_owner(Workload& workload, const api::GnnJob& job) {
  const Workload own = desired_workload(job, workload.metadata.name, false);
  workload.metadata.owner_references = own.metadata.owner_references;
  set_labels(workload, job);
}

// Without the one that the watch selects by nothing tells of it, and what Kueue asks of the job is not heard.
void restore_workload_labels(Pass& pass) {
  const Workload& present = *pass.queue.workload;
  const auto label = present.metadata.labels.find(std::string(contract::kLabelJob));
  if (label != present.metadata.labels.end() && label->second == pass.job().metadata.name) return;
  Workload labelled = present;
  set_labels(labelled, pass.job());
  pass.out.actions.emplace_back(AdoptWorkload{std::move(labelled)});
}

// One that Kueue made for the job, in the cluster that is to run it.
void adopt_workload(Pass& pass) {
  Workload workload = *pass.queue.adoptable;
  const Workload wanted = desired_workload(pass.job(), workload.metadata.name, false);
  const std::string other =
      objects::mismatch(workload.pod_sets, wanted.pod_sets, objects::Asked::Exactly);
  if (!other.empty()) {
    const std::string message = "Workload " + workload.metadata.name +
                                " has other PodSets than the job (" + other + "): it is not taken";
    pass.set(condition::kScheduled, false, reason::kQueued, message);
    pass.set(condition::kRunning, false, reason::kNotPlaced, message);
    return;
  }
  set_owner(workload, pass.job());
  pass.out.actions.emplace_back(AdoptWorkload{std::move(workload)});
}

// Only what this job's suspension has switched off is switched on by its end: whatever else
// deactivated the Workload stays in force.
void follow_suspension(Workload& workload, bool suspended) {
  if (suspended && workload.active) {
    workload.active = false;
    workload.suspended_with_job = true;
  } else if (!suspended && workload.suspended_with_job) {
    workload.active = true;
    workload.suspended_with_job = false;
  }
}

// What Kueue takes only as long as it has not set aside quota for it.
void follow_spec(Pass& pass, Workload& workload) {
  if (is_prebuilt(pass.job())) return;
  set_priority(pass, workload);
  if (holds_quota(*pass.queue.workload)) return;
  workload.queue = queue_of(pass.job(), pass.in.config);
  Workload wanted = desired_workload(pass.job(), workload.metadata.name, pass.preparing());
  const bool same =
      wanted.pod_sets_digest == workload.pod_sets_digest &&
      objects::mismatch(workload.pod_sets, wanted.pod_sets, objects::Asked::Exactly).empty();
  if (same) return;
  workload.pod_sets = std::move(wanted.pod_sets);
  workload.pod_sets_digest = std::move(wanted.pod_sets_digest);
}

// As Kueue does for its own kinds: preempted jobs, and those of failed machines, come back by
// themselves, others once Kueue or an administrator says so.
void give_back(Workload& workload, TimePoint now) {
  const objects::WorkloadCondition evicted = *objects::find_condition(workload, kueue::kEvicted);
  const bool comes_back = evicted.reason == "Preempted" || evicted.reason == "NodeFailures";
  const auto set =
      [&](std::string_view type, bool holds, std::string_view why, const std::string& message) {
        objects::set_condition(
            workload,
            {.type = std::string(type),
             .status = holds ? "True" : "False",
             .reason = std::string(why),
             .message = message,
             .last_transition_time = {}},
            now
        );
      };
  workload.admission.reset();
  set(kueue::kQuotaReserved, false, "Pending", evicted.message);
  if (objects::is_true(workload, kueue::kAdmitted)) {
    set(kueue::kAdmitted, false, "NoReservation", "The workload has no reservation");
  }
  set(kueue::kRequeued, comes_back, evicted.reason, evicted.message);
  if (objects::find_condition(workload, kueue::kPodsReady) != nullptr) {
    set(kueue::kPodsReady, false, "WaitForStart", "Not all pods are ready or succeeded");
  }
}

bool is_ready(const Pass& pass) {
  const api::GnnJobStatus& status = pass.status();
  if (!is_true(status, condition::kRunning)) return false;
  return !pass.job().spec.servers ||
         (status.servers && status.servers->ready >= needed_servers(pass.job()));
}

// Nothing is said before the pods have been ready once: Kueue counts from the admission until then.
void tell_readiness(const Pass& pass, Workload& workload) {
  const objects::WorkloadCondition* told = objects::find_condition(workload, kueue::kPodsReady);
  const bool ready = is_ready(pass);
  if (ready == (told != nullptr && told->status == "True")) return;
  if (!ready && told == nullptr) return;
  const bool recovers = told != nullptr && told->reason == "WaitForRecovery";
  objects::set_condition(
      workload,
      {.type = std::string(kueue::kPodsReady),
       .status = ready ? "True" : "False",
       .reason = !ready     ? "WaitForRecovery"
                 : recovers ? "Recovered"
                            : "Started",
       .message = ready ? "All pods are ready, and the job is running"
                        : "At least one pod has failed; waiting for recovery",
       .last_transition_time = {}},
      pass.in.now
  );
}

void delete_workload(Pass& pass, const Workload& workload) {
  // First, because the release changes the resourceVersion.
  pass.out.actions.emplace_back(DeleteWorkload{workload});
  release(pass, workload);
}

// Admitted for less than the pods to come, which cannot be changed any more.
bool is_useless(const Pass& pass) {
  if (is_prebuilt(pass.job()) || is_run_by_multikueue(pass.in)) return false;
  return holds_quota(*pass.queue.workload) && !pass.queue.has_pods &&
         !shortfall_of_workload(pass).empty();
}

void tend_present(Pass& pass) {
  const Workload& present = *pass.queue.workload;
  if (present.metadata.deletion_timestamp) {
    if (!pass.queue.has_pods || !pass.queue.wanted) release(pass, present);
    return;
  }
  if (!pass.queue.wanted) return delete_workload(pass, present);
  if (objects::is_true(present, kueue::kFinished)) return release(pass, present);
  if (is_useless(pass)) return delete_workload(pass, present);
  Workload changed = present;
  follow_suspension(changed, pass.job().spec.suspend);
  follow_spec(pass, changed);
  if (changed != present) {
    pass.out.actions.emplace_back(UpdateWorkload{std::move(changed)});
    return;
  }
  Workload told = present;
  const bool evicted = objects::is_true(present, kueue::kEvicted) && holds_quota(present);
  if (evicted && !pass.queue.has_pods) {
    give_back(told, pass.in.now);
  } else if (pass.queue.admitted && !is_run_by_multikueue(pass.in) && !is_finished(pass.status())) {
    // Of a job that has just finished, the next pass tells the end.
    tell_readiness(pass, told);
  }
  if (told != present) {
    pass.out.actions.emplace_back(UpdateWorkloadStatus{std::move(told)});
  } else {
    restore_workload_labels(pass);
  }
}

void finish(Pass& pass, const Workload& workload, bool succeeded, const std::string& message) {
  if (!objects::is_true(workload, kueue::kFinished)) {
    Workload finished = workload;
    objects::set_condition(
        finished,
        {.type = std::string(kueue::kFinished),
         .status = "True",
         .reason = succeeded ? "Succeeded" : "Failed",
         .message = message,
         .last_transition_time = {}},
        pass.in.now
    );
    pass.out.actions.emplace_back(UpdateWorkloadStatus{std::move(finished)});
  }
  release(pass, workload);
}

// Once the data are prepared and that pod has ended, its Workload has done its part.
void finish_prepared(Pass& pass) {
  if (!pass.job().spec.prepare || pass.preparing()) return;
  const bool works = std::ranges::any_of(pass.gang.prepared, [](const objects::Pod* pod) {
    return !has_ended(*pod);
  });
  if (works) return;
  const std::string name =
      objects::workload_name(pass.job().metadata.name, pass.job().metadata.uid, kPreparePodSet);
  for (const Workload& each : pass.in.workloads) {
    if (each.metadata.name != name || !is_owned_by(each.metadata, pass.job())) continue;
    finish(pass, each, true, "The data are prepared");
  }
}

// Until when the pod keeps a machine from others; nothing: it does not. One that outlives its deletion is
// on a machine that is lost.
std::optional<TimePoint> occupies_until(
    const objects::Pod& pod, TimePoint now, Duration lost_after
) {
  if (has_ended(pod)) return std::nullopt;
  const auto& due = pod.metadata.deletion_timestamp;
  if (!due) return TimePoint::max();
  return now < *due + lost_after ? std::optional(*due + lost_after) : std::nullopt;
}

// Whether a pod of the job keeps a machine; asks for another pass in time.
bool occupies_quota(Pass& pass) {
  for (const objects::Pod& pod : pass.in.pods) {
    if (!is_owned_by(pod.metadata, pass.job())) continue;
    const auto until = occupies_until(pod, earliest_now(pass.in), pass.in.config.lost_after);
    if (!until) continue;
    if (until != TimePoint::max()) pass.requeue_at(*until);
    return true;
  }
  return false;
}

// Whether the name says that the Workload is this job's, whoever owns it.
bool is_named_for(const Pass& pass, const Workload& workload) {
  const api::JobMetadata& job = pass.job().metadata;
  const std::string& name = workload.metadata.name;
  return name == pass.queue.workload_name || name == objects::workload_name(job.name, job.uid) ||
         name == objects::workload_name(job.name, job.uid, kPreparePodSet);
}

// The job's labels may have named another Workload before. Without a pod, or with one that is admitted
// instead, nothing needs the quota of those.
void give_back_others(Pass& pass) {
  if (pass.queue.has_pods && !pass.queue.admitted) return;
  const std::string prepared =
      objects::workload_name(pass.job().metadata.name, pass.job().metadata.uid, kPreparePodSet);
  for (const Workload& each : pass.in.workloads) {
    const std::string& name = each.metadata.name;
    if (name == pass.queue.workload_name || !is_owned_by(each.metadata, pass.job())) continue;
    const bool is_of_preparation = name == prepared && pass.job().spec.prepare;
    if (is_of_preparation && !pass.preparing()) continue;  // finish_prepared()
    if (objects::is_true(each, kueue::kFinished) || each.metadata.deletion_timestamp) {
      release(pass, each);
    } else {
      delete_workload(pass, each);
    }
  }
}

}  // namespace

QueueNeeds queue_needs(const Pass& pass) {
  QueueNeeds needs;
  const QueueView& queue = pass.queue;
  if (!queue.known || !queue.wanted || is_finished(pass.job().status)) return needs;
  const bool adopts = is_prebuilt(pass.job()) && queue.adoptable == nullptr;
  const auto& scheduling = pass.job().status.scheduling;
  const bool had_one = queue.has_pods || (scheduling && scheduling->workload);
  if (queue.workload == nullptr && (adopts || had_one)) needs.workload = queue.workload_name;
  const auto chosen = class_to_write(pass);
  if (chosen && !pass.job().spec.suspend) needs.priority_class = chosen;
  const bool lacks_pods = !pass.gang.is_complete() || lacks_server_pods(pass);
  if (!queue.admitted || !lacks_pods) return needs;
  for (const objects::PodSetAssignment& each : queue.workload->admission->pod_sets) {
    needs.flavors.insert(needs.flavors.end(), each.flavors.begin(), each.flavors.end());
  }
  std::ranges::sort(needs.flavors);
  const auto same = std::ranges::unique(needs.flavors);
  needs.flavors.erase(same.begin(), same.end());
  return needs;
}

void tend_workloads(Pass& pass) {
  if (!pass.queue.known) {
    // Where there is no Workload, nothing tells when there can be one.
    if (pass.queue.wanted && !pass.queue.has_pods) pass.requeue(pass.in.config.refusal_retry);
    return;
  }
  finish_prepared(pass);
  give_back_others(pass);
  if (pass.queue.workload != nullptr) return tend_present(pass);
  if (pass.queue.adoptable != nullptr) return adopt_workload(pass);
  // It has no label of ours yet, so that no watch tells of it.
  if (is_prebuilt(pass.job())) return pass.requeue(pass.in.config.refusal_retry);
  create_workload(pass);
}

void finish_workloads(Pass& pass) {
  if (!pass.queue.known || occupies_quota(pass)) return;
  const api::GnnJobStatus& status = pass.job().status;
  const bool succeeded = is_true(status, condition::kComplete);
  const api::Condition* end =
      find_condition(status, succeeded ? condition::kComplete : condition::kFailed);
  for (const Workload& each : pass.in.workloads) {
    if (is_owned_by(each.metadata, pass.job())) finish(pass, each, succeeded, end->message);
  }
}

void release_workloads(Pass& pass) {
  if (pass.in.workloads.empty() || occupies_quota(pass)) return;
  for (const Workload& each : pass.in.workloads) {
    if (is_owned_by(each.metadata, pass.job())) release(pass, each);
  }
}

std::vector<Action> give_up_workloads(const std::vector<Workload>& workloads) {
  std::vector<Action> actions;
  for (const Workload& each : workloads) {
    // In this order: a deletion asks for the version that was seen, which a release changes.
    actions.emplace_back(DeleteWorkload{each});
    if (has_finalizer(each)) actions.emplace_back(ReleaseWorkload{each});
  }
  return actions;
}

void release_workloads_of_earlier_jobs(Pass& pass) {
  std::vector<Workload> earlier;
  for (const Workload& each : pass.in.workloads) {
    // Of a job that is newer than the cached one, nothing is deleted for the loss of its owner.
    if (!each.metadata.deletion_timestamp) continue;
    const objects::OwnerReference* owner = objects::controller_of(each.metadata);
    const bool of_earlier_job = owner != nullptr && owner->kind == contract::kKind &&
                                owner->name == pass.job().metadata.name &&
                                owner->uid != pass.job().metadata.uid;
    // A job that is deleted with --cascade=orphan leaves its Workload without an owner.
    const bool of_nobody = owner == nullptr && !(is_named_for(pass, each) && occupies_quota(pass));
    if (of_earlier_job || of_nobody) earlier.push_back(each);
  }
  const OrphanedWorkloads released = release_orphaned_workloads(
      earlier, pass.in.pods, earliest_now(pass.in), pass.in.config.lost_after
  );
  for (const Action& each : released.actions) pass.out.actions.push_back(each);
  if (released.next) pass.requeue_at(*released.next);
}

OrphanedWorkloads release_orphaned_workloads(
    const std::vector<Workload>& workloads,
    const std::vector<objects::Pod>& pods,
    TimePoint now,
    Duration lost_after
) {
  OrphanedWorkloads released;
  for (const Workload& each : workloads) {
    if (!has_finalizer(each)) continue;
    const objects::OwnerReference* job = objects::controller_of(each.metadata);
    std::optional<TimePoint> occupied;
    for (const objects::Pod& pod : pods) {
      const objects::OwnerReference* owner = objects::controller_of(pod.metadata);
      if (job == nullptr || owner == nullptr || owner->uid != job->uid) continue;
      const auto until = occupies_until(pod, now, lost_after);
      if (until) occupied = std::max(occupied.value_or(*until), *until);
    }
    if (!occupied) {
      released.actions.emplace_back(ReleaseWorkload{each});
    } else if (*occupied != TimePoint::max()) {
      released.next = std::min(released.next.value_or(*occupied), *occupied);
    }
  }
  return released;
}

}  // namespace gnn::reconcile
