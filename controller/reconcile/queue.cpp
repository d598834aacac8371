#include "controller/reconcile/queue.h"

#include "common/contract.h"
#include "common/printable.h"
#include "controller/reconcile/children.h"
#include "controller/reconcile/conditions.h"
#include "controller/reconcile/desired.h"
#include "controller/reconcile/gang_restart.h"
#include "controller/reconcile/pod_group.h"
#include "controller/reconcile/prepare.h"
#include "controller/reconcile/servers.h"
#include "controller/reconcile/suspend.h"

#include <algorithm>
#include <string>
#include <utility>

namespace gnn::reconcile {
namespace {

namespace kueue = objects::kueue;

constexpr std::string_view kDefaultQueue = "default";
constexpr size_t kMaxQueueMessageBytes = 1024;

std::string label_of(const api::GnnJob& job, std::string_view key) {
  const auto found = job.metadata.labels.find(std::string(key));
  return found == job.metadata.labels.end() ? "" : found->second;
}

bool is_admitted(const objects::Workload& workload) {
  return objects::is_true(workload, kueue::kAdmitted) &&
         !objects::is_true(workload, kueue::kEvicted) &&
         !objects::is_true(workload, kueue::kFinished) && workload.admission &&
         !workload.metadata.deletion_timestamp;
}

bool has_pods_now(const Observed& observed, bool prepares) {
  return std::ranges::any_of(observed.pods, [&](const objects::Pod& pod) {
    if (!is_owned_by(pod.metadata, observed.job) || is_impostor(pod, observed)) return false;
    if (is_kept_by_others(pod)) return false;
    // One that has prepared the data stays for its log.
    const bool prepared =
        contract::attempt_of_prepare_pod(observed.job.metadata.name, pod.metadata.name) &&
        !prepares && has_ended(pod);
    return !prepared;
  });
}

void find_workload(QueueView& view, const Observed& observed, bool prebuilt) {
  for (const objects::Workload& each : observed.workloads) {
    if (each.metadata.name != view.workload_name) continue;
    if (is_owned_by(each.metadata, observed.job)) {
      view.workload = &each;
    } else if (prebuilt && objects::controller_of(each.metadata) == nullptr) {
      view.adoptable = &each;
    } else {
      view.foreign = &each;
    }
  }
}

// "Preempted: Preempted to accommodate a workload …"
std::string sentence_of(const objects::WorkloadCondition& condition) {
  return condition.reason + (condition.message.empty() ? "" : ": " + condition.message);
}

std::string waiting_checks(const objects::Workload& workload) {
  std::string text;
  for (const objects::AdmissionCheck& each : workload.checks) {
    if (each.state == "Ready") continue;
    text +=
        (text.empty() ? "" : "; ") + each.name + (each.message.empty() ? "" : ": " + each.message);
  }
  return text;
}

std::string why_not_reserved(const objects::Workload& workload) {
  const objects::WorkloadCondition* reserved =
      objects::find_condition(workload, kueue::kQuotaReserved);
  return reserved != nullptr && reserved->status == "False" ? reserved->message : "";
}

std::string what_queue_says(const objects::Workload& workload) {
  if (holds_quota(workload)) {
    const std::string checks = waiting_checks(workload);
    return "Quota is reserved" + (checks.empty() ? "" : "; waiting for " + checks);
  }
  const std::string why = why_not_reserved(workload);
  return why.empty() ? "Waiting in queue " + workload.queue : why;
}

struct Why {
  std::string_view reason;
  std::string message;
};

// One that was taken out by its own job's suspension is no news once the job is resumed.
const objects::WorkloadCondition* eviction_of(const objects::Workload& workload) {
  const objects::WorkloadCondition* evicted = objects::find_condition(workload, kueue::kEvicted);
  if (evicted == nullptr || evicted->status != "True") return nullptr;
  const bool over = workload.active && !holds_quota(workload) && evicted->reason == "Deactivated";
  return over ? nullptr : evicted;
}

Why why_workload_waits(const objects::Workload& workload) {
  if (workload.metadata.deletion_timestamp) {
    return {reason::kEvicted, "Workload " + workload.metadata.name + " is being deleted"};
  }
  const objects::WorkloadCondition* finished = objects::find_condition(workload, kueue::kFinished);
  if (finished != nullptr && finished->status == "True") {
    return {
        reason::kEvicted,
        "Workload " + workload.metadata.name + " is finished: " + sentence_of(*finished)
    };
  }
  if (const objects::WorkloadCondition* evicted = eviction_of(workload)) {
    std::string message = sentence_of(*evicted);
    const std::string now = why_not_reserved(workload);
    if (!now.empty() && now != evicted->message) message += "; " + now;
    return {reason::kEvicted, std::move(message)};
  }
  if (!workload.active) {
    return {reason::kQueued, "Workload " + workload.metadata.name + " is deactivated"};
  }
  return {reason::kQueued, what_queue_says(workload)};
}

Why why_waiting(const Pass& pass) {
  const QueueView& queue = pass.queue;
  if (!queue.known && !pass.in.kueue_unknown.empty()) {
    return {reason::kQueued, "The job has a queue, but " + pass.in.kueue_unknown};
  }
  if (!queue.known) {
    return {
        reason::kQueued,
        "The job has a queue, but the API server does not serve workloads of kueue.x-k8s.io"
    };
  }
  if (queue.foreign != nullptr) {
    return {
        reason::kNameTaken,
        "Workload " + queue.workload_name + " already exists and is not owned by this GNNJob"
    };
  }
  if (queue.workload != nullptr) return why_workload_waits(*queue.workload);
  if (!label_of(pass.job(), kueue::kLabelPrebuilt).empty()) {
    return {reason::kQueued, "Waiting for Workload " + queue.workload_name};
  }
  return {reason::kQueued, "Waiting for queue " + queue_of(pass.job(), pass.in.config)};
}

// Whether pods of the current attempt may have existed.
bool had_pods(const Pass& pass) {
  return has_reason(pass.status(), condition::kRunning, reason::kStopping) || pass.gang.created;
}

const objects::Workload* admitting(const Pass& pass) {
  return pass.queue.admitted ? pass.queue.workload : nullptr;
}

AdmissionOfPods admission_of(const Pass& pass, std::string_view pod_set, const objects::Pod& pod) {
  return admission_of_pods(*pass.queue.workload, pod_set, pass.in.flavors, pod);
}

AdmissionOfPods of_nodes(const Pass& pass) {
  const objects::Pod pod = pass.preparing() ? desired_prepare_pod(pass.job(), pass.attempt)
                                            : desired_pod(pass.job(), {.attempt = pass.attempt});
  return admission_of(pass, pod_set_of_nodes(pass), pod);
}

AdmissionOfPods of_servers(const Pass& pass) {
  return admission_of(pass, kServersPodSet, desired_server_pod(pass.job(), {}));
}

// How many pods of the PodSet are admitted; nothing if it says nothing of that.
std::optional<int64_t> admitted_count(const objects::Workload& workload, std::string_view pod_set) {
  if (!workload.admission) return std::nullopt;
  const auto& assigned = workload.admission->pod_sets;
  const auto assignment = std::ranges::find(assigned, pod_set, &objects::PodSetAssignment::name);
  if (assignment != assigned.end() && assignment->count) return assignment->count;
  const auto asked = std::ranges::find(workload.pod_sets, pod_set, &objects::PodSet::name);
  return asked == workload.pod_sets.end() ? std::nullopt : std::optional(asked->count);
}

std::optional<AdmissionProblem> too_few(
    const objects::Workload& workload, std::string_view pod_set, int64_t wanted
) {
  const auto count = admitted_count(workload, pod_set);
  if (!count || *count >= wanted) return std::nullopt;
  return AdmissionProblem{
      .is_final = false,
      .message = "Workload " + workload.metadata.name + " is admitted for " +
                 std::to_string(*count) + " of " + std::to_string(wanted) + " " +
                 std::string(pod_set) + ": a job does not run with a part of its pods"
  };
}

}  // namespace

std::string queue_of(const api::GnnJob& job, const OperatorConfig& config) {
  const std::string label = label_of(job, kueue::kLabelQueue);
  return label.empty() && config.kueue_manages_all ? std::string(kDefaultQueue) : label;
}

bool wants_queue(const api::GnnJob& job, const OperatorConfig& config) {
  return !queue_of(job, config).empty() || !label_of(job, kueue::kLabelPrebuilt).empty();
}

bool is_run_by_multikueue(const Observed& observed) {
  return observed.config.kueue && observed.job.spec.managed_by == kueue::kMultiKueue;
}

bool holds_quota(const objects::Workload& workload) {
  return objects::is_true(workload, kueue::kQuotaReserved) || workload.admission.has_value();
}

QueueView view_queue(const Observed& observed, bool prepares) {
  const api::GnnJob& job = observed.job;
  QueueView view;
  if (!observed.config.kueue) return view;
  view.known = observed.kueue.has_value();
  const std::string prebuilt = label_of(job, kueue::kLabelPrebuilt);
  view.workload_name =
      !prebuilt.empty()
          ? prebuilt
          : objects::workload_name(
                job.metadata.name, job.metadata.uid, prepares ? kPreparePodSet : std::string_view()
            );
  if (view.known) find_workload(view, observed, !prebuilt.empty());
  // Without its label a job keeps what it was given.
  const bool keeps = view.workload != nullptr && holds_quota(*view.workload) &&
                     !objects::is_true(*view.workload, kueue::kFinished);
  view.wanted = wants_queue(job, observed.config) || keeps;
  view.admitted = view.workload != nullptr && is_admitted(*view.workload);
  view.has_pods = has_pods_now(observed, prepares);
  return view;
}

bool is_in_queue(const api::GnnJobStatus& status) {
  if (has_reason(status, condition::kScheduled, reason::kEvicted)) return true;
  // The group of an attempt may be in a queue of its own. It is named once all its pods have been made.
  const bool grouped = status.scheduling && status.scheduling->group;
  return has_reason(status, condition::kScheduled, reason::kQueued) && !grouped;
}

bool must_wait_in_queue(const Pass& pass) {
  const QueueView& queue = pass.queue;
  if (!queue.wanted || queue.admitted) return false;
  // Where nothing is known, pods that were admitted run on.
  return queue.known || !queue.has_pods;
}

void wait_in_queue(Pass& pass) {
  const Why why = why_waiting(pass);
  const std::string message = printable_line(why.message, kMaxQueueMessageBytes);
  const bool is_told = is_stopping(pass.job().status);
  if (pass.queue.has_pods) {
    pass.set(condition::kScheduled, false, why.reason, message);
    pass.set(condition::kRunning, false, reason::kStopping, "The pods are stopping: " + message);
  }
  if (pass.queue.has_pods && !is_told) return pass.requeue(Duration::zero());
  stop_gang(pass);
  release_prepared(pass);
  if (!gang_stops(pass)) suspend_servers(pass, why.reason, message);
  if (pass.queue.has_pods) return;
  if (pass.status().attempt > 0 && had_pods(pass)) begin_attempt(pass);
  remove_all_groups(pass);
  forget_attempt(pass);
  if (is_true(pass.status(), condition::kRestarting)) {
    pass.set(condition::kRestarting, false, why.reason, message);
  }
  if (pass.preparing()) pass.set(condition::kPrepared, false, reason::kNotPlaced, message);
  pass.set(condition::kScheduled, false, why.reason, message);
  pass.set(condition::kRunning, false, reason::kNotPlaced, message);
}

std::string_view pod_set_of_nodes(const Pass& pass) {
  const bool prebuilt = !label_of(pass.job(), kueue::kLabelPrebuilt).empty();
  return pass.preparing() && !prebuilt ? kPreparePodSet : kWorkersPodSet;
}

std::optional<PodAdmission> admission_of_nodes(const Pass& pass) {
  if (admitting(pass) == nullptr) return std::nullopt;
  return of_nodes(pass).additions;
}

std::optional<PodAdmission> admission_of_servers(const Pass& pass) {
  if (admitting(pass) == nullptr) return std::nullopt;
  return of_servers(pass).additions;
}

std::string shortfall_of_workload(const Pass& pass) {
  const objects::Workload& workload = *pass.queue.workload;
  const objects::Workload wanted = desired_workload(
      pass.job(), workload.metadata.name, pod_set_of_nodes(pass) == kPreparePodSet
  );
  return objects::mismatch(workload.pod_sets, wanted.pod_sets, objects::Asked::AtLeast);
}

std::optional<AdmissionProblem> admission_problem(const Pass& pass) {
  if (!pass.queue.wanted) return std::nullopt;
  const objects::Workload* workload = admitting(pass);
  if (workload == nullptr) {
    return AdmissionProblem{.is_final = false, .message = why_waiting(pass).message};
  }
  if (std::string less = shortfall_of_workload(pass); !less.empty()) {
    return AdmissionProblem{
        .is_final = false,
        .message = "Workload " + workload->metadata.name +
                   " was admitted for less than the job's pods request (" + less + ")"
    };
  }
  const auto nodes = static_cast<int64_t>(pass.gang.nodes.size());
  if (const auto few = too_few(*workload, pod_set_of_nodes(pass), nodes)) return few;
  if (const auto problem = of_nodes(pass).problem) return problem;
  if (pass.preparing() || !pass.job().spec.servers) return std::nullopt;
  if (const auto few = too_few(*workload, kServersPodSet, desired_servers(pass.job()))) return few;
  return of_servers(pass).problem;
}

std::string queue_note(const Pass& pass) {
  const objects::Workload* workload = pass.queue.workload;
  if (workload == nullptr || !holds_quota(*workload)) return "";
  std::string what;
  const std::string queue = queue_of(pass.job(), pass.in.config);
  const bool prebuilt = !label_of(pass.job(), kueue::kLabelPrebuilt).empty();
  if (queue != workload->queue && !prebuilt) {
    what = queue.empty() ? "the end of queue " + workload->queue : "queue " + queue;
  }
  if (pass.in.servers_asked) {
    what +=
        (what.empty() ? "" : " and ") + ("servers.nodes " + std::to_string(*pass.in.servers_asked));
  }
  if (what.empty()) return "";
  return what + " applies once the job has given its quota back: when it was suspended or evicted";
}

std::optional<Observed> with_admitted_servers(const Observed& observed) {
  if (!observed.job.spec.servers || observed.servers_asked) return std::nullopt;
  const QueueView view = view_queue(observed, false);
  const auto& shown = observed.job.status.servers;
  if (view.wanted && !view.known && view.has_pods && shown && shown->desired > 0) {
    // What it was admitted for, as far as is remembered.
    Observed held = observed;
    held.job.spec.servers->nodes = shown->desired;
    return held;
  }
  if (view.workload == nullptr || !holds_quota(*view.workload)) return std::nullopt;
  const auto count = admitted_count(*view.workload, kServersPodSet);
  const int64_t asked = desired_servers(observed.job);
  if (!count || *count == asked) return std::nullopt;
  Observed held = observed;
  held.servers_asked = asked;
  held.job.spec.servers->nodes = count;
  return held;
}

void show_queue(Pass& pass) {
  auto& shown = pass.status().scheduling;
  if (pass.queue.wanted && !pass.queue.known) {
    const auto& before = pass.job().status.scheduling;
    if (!before || !before->workload) return;
    if (!shown) shown.emplace();
    shown->workload = before->workload;
    shown->cluster_queue = before->cluster_queue;
    return;
  }
  if (pass.queue.workload == nullptr || !pass.queue.wanted) {
    if (!shown) return;
    shown->workload.reset();
    shown->cluster_queue.reset();
    if (shown == api::SchedulingStatus{}) shown.reset();
    return;
  }
  if (!shown) shown.emplace();
  shown->workload = pass.queue.workload_name;
  const auto& admission = pass.queue.workload->admission;
  shown->cluster_queue = admission ? std::optional(admission->cluster_queue) : std::nullopt;
}

}  // namespace gnn::reconcile
