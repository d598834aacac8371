#include "controller/reconcile/gang.h"

#include "common/api/fields.h"
#include "common/api/report.h"
#include "common/contract.h"
#include "common/printable.h"
#include "controller/reconcile/conditions.h"
#include "controller/reconcile/node_replacement.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace gnn::reconcile {
namespace {

using objects::ContainerTerminated;
using objects::Pod;

constexpr size_t kMaxMessageBytes = 1024;
// status.reason of pods that a kubelet ends or rejects for reasons of its own. "OutOfcpu" and the
// like, which start with OutOf, belong to them.
constexpr std::array<std::string_view, 6> kKubeletReasons = {
    "Preempting",
    "NodeAffinity",
    "NodeShutdown",
    "NodeLost",
    "Terminated",
    "UnexpectedAdmissionError",
};

const objects::ContainerStatus* worker_status(const Pod& pod) {
  for (const objects::ContainerStatus& status : pod.status.container_statuses) {
    if (status.name == contract::kWorkerContainer) return &status;
  }
  return nullptr;
}

const ContainerTerminated* terminated(const Pod& pod) {
  const objects::ContainerStatus* status = worker_status(pod);
  return status != nullptr && status->state.terminated ? &*status->state.terminated : nullptr;
}

bool condition_holds(const Pod& pod, std::string_view type) {
  const objects::PodCondition* condition = objects::find_condition(pod, type);
  return condition != nullptr && condition->status == "True";
}

// A kubelet evicts for want of its own resources with the condition DisruptionTarget, and a pod that is
// over its own limits without it, since that would come again.
// Source: pkg/kubelet/eviction/eviction_manager.go of Kubernetes 1.34.
bool exceeds_storage(const Pod& pod) {
  return pod.status.reason == "Evicted" && !condition_holds(pod, "DisruptionTarget") &&
         !pod.status.container_statuses.empty();
}

bool is_disrupted(const Pod& pod) {
  const std::string& reason = pod.status.reason;
  if (exceeds_storage(pod)) return false;
  return condition_holds(pod, "DisruptionTarget") || reason.starts_with("OutOf") ||
         reason == "Evicted" ||
         std::find(kKubeletReasons.begin(), kKubeletReasons.end(), reason) != kKubeletReasons.end();
}

std::string disruption_text(const Pod& pod) {
  const objects::PodCondition* target = objects::find_condition(pod, "DisruptionTarget");
  const std::string& text = target != nullptr && !target->message.empty() ? target->message
                            : !pod.status.message.empty()                 ? pod.status.message
                                                                          : pod.status.reason;
  return printable_line(text, kMaxMessageBytes);
}

// The init container that kept the worker from starting. Those that run beside it are stopped after it,
// and their exit codes say nothing.
const objects::ContainerStatus* failed_init_container(const Pod& pod) {
  const objects::ContainerStatus* worker = worker_status(pod);
  if (worker != nullptr && !worker->state.waiting) return nullptr;
  for (const objects::ContainerStatus& each : pod.status.init_container_statuses) {
    if (each.state.terminated && each.state.terminated->exit_code != 0) return &each;
  }
  return nullptr;
}

// "init container vault-agent-init: exit code 42: no role"
std::string text_of_init_container(const objects::ContainerStatus& status) {
  const ContainerTerminated& end = *status.state.terminated;
  const std::string& said = end.message.empty() ? end.reason : end.message;
  return printable_line(
      "init container " + status.name + ": exit code " + std::to_string(end.exit_code) +
          (said.empty() || said == "Error" ? "" : ": " + said),
      kMaxMessageBytes
  );
}

// Whether the worker's own end is unknown: its kubelet refused the pod, for whatever reason, or lost
// the container with a restart of the machine.
bool ended_unseen(const ContainerTerminated* end) {
  return end == nullptr || end->reason == "ContainerStatusUnknown";
}

FailureKind kind_of_end(const Pod& pod, const ContainerTerminated* end) {
  const int64_t code = end == nullptr ? -1 : end->exit_code;
  if (code == contract::kExitConfiguration) return FailureKind::Configuration;
  if (code == contract::kExitData) return FailureKind::Data;
  if (exceeds_storage(pod)) return FailureKind::StorageExceeded;
  if (is_disrupted(pod)) return FailureKind::Disrupted;
  if (pod.metadata.deletion_timestamp) return FailureKind::PodDeleted;
  if (end == nullptr && failed_init_container(pod) != nullptr) return FailureKind::NotStarted;
  if (ended_unseen(end)) return FailureKind::Disrupted;
  if (end->reason == "OOMKilled") return FailureKind::OutOfMemory;
  if (code == contract::kExitOutOfMemory) return FailureKind::OutOfMemory;
  if (code == contract::kExitPeerLost) return FailureKind::PeerLost;
  if (code == contract::kExitPreempted) return FailureKind::Preempted;
  return FailureKind::Error;
}

// Why the pod ended, from the best source that says so; may be empty.
std::string message_of_end(const NodeView& view, const ContainerTerminated* end) {
  const Pod& pod = *view.pod;
  // The worker only knows that it was asked to stop.
  if (exceeds_storage(pod)) return printable_line(pod.status.message, kMaxMessageBytes);
  if (view.report && !view.report->message.empty()) return view.report->message;
  if (is_disrupted(pod)) return disruption_text(pod);
  const objects::ContainerStatus* init = end == nullptr ? failed_init_container(pod) : nullptr;
  if (init != nullptr) return text_of_init_container(*init);
  if (end != nullptr && !view.report && !end->message.empty()) {
    return printable_line(end->message, kMaxMessageBytes);
  }
  if (!pod.status.message.empty()) return printable_line(pod.status.message, kMaxMessageBytes);
  if (end == nullptr) return printable_line(pod.status.reason, kMaxMessageBytes);
  if (end->reason == "Error") return "";  // says no more than the exit code does
  return printable_line(end->reason, kMaxMessageBytes);
}

// Whether the job says how much memory its pods may take; else their namespace does.
bool sets_memory_limit(const api::GnnJob& job, const Pod& pod) {
  const bool serves =
      contract::numbers_of_server_pod(job.metadata.name, pod.metadata.name).has_value();
  const auto& chosen = serves && job.spec.servers && job.spec.servers->pod_template
                           ? job.spec.servers->pod_template
                           : job.spec.workers.pod_template;
  return chosen && chosen->resources.limits.contains("memory");
}

// "OOMKilled, memory limit 96Mi (of the pod)": the kernel may end the agent with its rank, and then
// nobody tells more.
std::string memory_text(const Pod& pod, const api::GnnJob& job) {
  std::string text = "OOMKilled";
  if (pod.spec.memory_limit.empty()) return text + ", no memory limit: the machine had no more";
  text += ", memory limit " + pod.spec.memory_limit;
  return sets_memory_limit(job, pod) ? text : text + " (of the pod)";
}

NodeFailure failure_of_end(
    const NodeView& view, const ContainerTerminated* end, const api::GnnJob& job
) {
  NodeFailure failure;
  failure.kind = kind_of_end(*view.pod, end);
  if (view.report) {
    failure.rank = view.report->rank;
    failure.stderr_tail = view.report->stderr_tail;
  }
  if (end != nullptr) {
    failure.exit_code = end->exit_code;
    failure.time = end->finished_at;
  }
  failure.message = message_of_end(view, end);
  if (end != nullptr && failure.message == "OOMKilled")
    failure.message = memory_text(*view.pod, job);
  return failure;
}

bool is_scheduled(const Pod& pod) {
  return condition_holds(pod, "PodScheduled") || !pod.spec.node_name.empty();
}

bool has_started(const Pod& pod) {
  const objects::ContainerStatus* worker = worker_status(pod);
  return condition_holds(pod, "Ready") ||
         (worker != nullptr && (worker->state.running || worker->state.terminated));
}

std::string text_of(const objects::ContainerWaiting& waiting) {
  // Every pod passes through these; they say nothing.
  if (waiting.reason == "ContainerCreating" || waiting.reason == "PodInitializing") return "";
  return waiting.reason + (waiting.message.empty() ? "" : ": " + waiting.message);
}

// What the init container does that the worker waits for: the last that has begun, since they come one
// after another. Empty if none has.
std::string init_container_text(const Pod& pod) {
  std::string text;
  for (const objects::ContainerStatus& each : pod.status.init_container_statuses) {
    std::string who = "init container " + each.name;
    if (each.state.running) text = std::string(who).append(" runs");
    if (each.state.terminated) text.clear();
    if (!each.state.waiting) continue;
    const std::string waits = text_of(*each.state.waiting);
    if (!waits.empty()) return who.append(": ").append(waits);
  }
  return text;
}

// What the pod's own status says that it waits for; may be empty.
std::string waiting_text(const Pod& pod) {
  const objects::PodCondition* scheduled = objects::find_condition(pod, "PodScheduled");
  if (scheduled != nullptr && scheduled->status == "False") {
    const std::string& text = scheduled->message.empty() ? scheduled->reason : scheduled->message;
    return printable_line(text, kMaxMessageBytes);
  }
  const objects::ContainerStatus* status = worker_status(pod);
  if (status == nullptr || !status->state.waiting) return "";
  const std::string text = text_of(*status->state.waiting);
  return printable_line(text.empty() ? init_container_text(pod) : text, kMaxMessageBytes);
}

// Since when the pod has a machine.
std::optional<TimePoint> scheduled_since(const Pod& pod) {
  const objects::PodCondition* scheduled = objects::find_condition(pod, "PodScheduled");
  return scheduled == nullptr ? std::nullopt : scheduled->last_transition_time;
}

// When to read the events of a pod whose status says nothing of why it does not start.
std::optional<TimePoint> time_to_explain(const Pod& pod, const Observed& observed) {
  const auto since = scheduled_since(pod);
  if (!since) return std::nullopt;
  const auto known = observed.start_troubles.find(pod.metadata.uid);
  if (known == observed.start_troubles.end()) return *since + observed.config.explain_after;
  const TimePoint again = *since + observed.config.explain_again_after;
  const bool is_due = known->second.text.empty() && known->second.read < again;
  return is_due ? std::optional(again) : std::nullopt;
}

// What keeps a pod from starting that has been at it for long: what its events say, or at which step it
// is.
std::string trouble_text(const Pod& pod, const Observed& observed) {
  const auto since = scheduled_since(pod);
  if (!since || observed.now < *since + observed.config.explain_after) return "";
  const auto known = observed.start_troubles.find(pod.metadata.uid);
  std::string text;
  if (known != observed.start_troubles.end()) text = known->second.text;
  const objects::PodCondition* sandbox = objects::find_condition(pod, "PodReadyToStartContainers");
  const bool is_bare = sandbox != nullptr && sandbox->status == "False";
  if (text.empty() && is_bare) text = "its volumes are being mounted, or its network is made";
  if (text.empty()) text = "its containers have not started";
  return printable_line(text, kMaxMessageBytes) + " (kubectl describe pod " + pod.metadata.name +
         ")";
}

// Sets what the pod waits for, and when to ask its events about that.
void describe_waiting(NodeView& view, const Observed& observed) {
  const Pod& pod = *view.pod;
  view.waiting = waiting_text(pod);
  if (!view.waiting.empty() || !is_scheduled(pod) || has_started(pod)) return;
  view.explain_at = time_to_explain(pod, observed);
  view.waiting = trouble_text(pod, observed);
}

// The cluster marks pods of a machine that is silent as not ready, and gives no reason. When a
// kubelet says so itself, it gives one.
bool machine_is_silent(const Pod& pod) {
  const objects::PodCondition* ready = objects::find_condition(pod, "Ready");
  const objects::ContainerStatus* worker = worker_status(pod);
  return ready != nullptr && ready->status == "False" && ready->reason.empty() &&
         worker != nullptr && worker->ready;
}

// Whether the registry of an image has given no answer. One that says that there is no such image, or
// that it may not be read, would say so again.
bool lacks_registry(const Pod& pod) {
  const auto waits = [](const objects::ContainerStatus& each) {
    return each.state.waiting && (each.state.waiting->reason == "ErrImagePull" ||
                                  each.state.waiting->reason == "ImagePullBackOff");
  };
  const auto is_silent = [](const std::string& text) {
    static constexpr std::array<std::string_view, 19> kSilence = {
        "timeout",
        "timed out",
        "deadline exceeded",
        "connection refused",
        "connection reset",
        "no route to host",
        "network is unreachable",
        "no such host",
        "server misbehaving",
        "temporary failure",
        "unexpected EOF",
        ": EOF",
        "TLS handshake",
        "toomanyrequests",
        "500 Internal",
        "502 Bad",
        "503 Service",
        "504 Gateway",
        "429 Too Many",
    };
    return std::any_of(kSilence.begin(), kSilence.end(), [&](std::string_view word) {
      return text.find(word) != std::string::npos;
    });
  };
  const auto fails = [&](const objects::ContainerStatus& each) {
    return waits(each) && is_silent(each.state.waiting->message);
  };
  return std::any_of(
             pod.status.container_statuses.begin(), pod.status.container_statuses.end(), fails
         ) ||
         std::any_of(
             pod.status.init_container_statuses.begin(),
             pod.status.init_container_statuses.end(),
             fails
         );
}

std::optional<NodeFailure> suspicion_of(const NodeView& view) {
  const Pod& pod = *view.pod;
  NodeFailure found;
  if (machine_is_silent(pod)) {
    found.kind = FailureKind::NodeLost;
    found.message = "the machine " + pod.spec.node_name + " does not answer";
  } else if (pod.metadata.deletion_timestamp && is_disrupted(pod)) {
    found.kind = FailureKind::Disrupted;
    found.message = disruption_text(pod);
  } else if (pod.metadata.deletion_timestamp) {
    found.kind = FailureKind::PodDeleted;
    found.message = "the pod was deleted";
  } else if (is_scheduled(pod) && !has_started(pod)) {
    found.kind = FailureKind::NotStarted;
    found.lacks_registry = lacks_registry(pod);
    found.message =
        "the container has not started" + (view.waiting.empty() ? "" : ": " + view.waiting);
  } else {
    return std::nullopt;
  }
  return found;
}

// The numbers in a pod's name, which nobody can change; none if the name is not one of the job's.
contract::PodNumbers numbers_of(const Pod& pod, const api::GnnJob& job) {
  return contract::numbers_of_pod(job.metadata.name, pod.metadata.name)
      .value_or(contract::PodNumbers{});
}

// Of those that this job owns.
bool has_gang_pods(const Observed& observed) {
  return std::any_of(observed.pods.begin(), observed.pods.end(), [&](const Pod& pod) {
    return is_owned_by(pod.metadata, observed.job) && !is_impostor(pod, observed) &&
           numbers_of(pod, observed.job).attempt > 0;
  });
}

// Sets phase, failure, suspicion, waiting and report, but for the failed or suspected machine.
void judge_pod(NodeView& view, const Observed& observed, const IsOwnReport& is_own_report) {
  const Pod& pod = *view.pod;
  const ContainerTerminated* end = terminated(pod);
  if (end != nullptr) {
    auto report = api::decode_report(end->message);
    const bool fits =
        report && report->job_uid == observed.job.metadata.uid && is_own_report(*report);
    if (fits) view.report = std::move(report);
  }
  const bool done = pod.status.phase == "Succeeded" ||
                    (end != nullptr && end->exit_code == 0 && end->reason != "OOMKilled" &&
                     pod.status.phase != "Failed");
  if (done) {
    view.phase = NodePhase::Succeeded;
    return;
  }
  if (pod.status.phase == "Failed" || end != nullptr) {
    view.phase = NodePhase::Failed;
    view.failure = failure_of_end(view, end, observed.job);
    return;
  }
  if (pod.metadata.deletion_timestamp) {
    // Grace period 0 and the object still exists: the kubelet is done with the pod, only our
    // finalizer holds it.
    const bool gone = pod.metadata.deletion_grace_period_seconds == 0;
    const bool overdue =
        earliest_now(observed) >= *pod.metadata.deletion_timestamp + observed.config.lost_after;
    if (!gone && !overdue) {
      view.phase = NodePhase::Leaving;
      view.suspicion = suspicion_of(view);
      return;
    }
    view.phase = NodePhase::Failed;
    view.failure.emplace();
    view.failure->kind = is_disrupted(pod) ? FailureKind::Disrupted
                         : gone            ? FailureKind::PodDeleted
                                           : FailureKind::NodeLost;
    view.failure->time = pod.metadata.deletion_timestamp;
    view.failure->message =
        gone ? "the pod was deleted"
             : "the pod outlived its grace period; its Kubernetes node is presumed lost";
    return;
  }
  describe_waiting(view, observed);
  view.suspicion = suspicion_of(view);
  view.phase = !is_scheduled(pod)              ? NodePhase::Unscheduled
               : condition_holds(pod, "Ready") ? NodePhase::Ready
                                               : NodePhase::Starting;
}

}  // namespace

void judge(NodeView& view, const Observed& observed, const IsOwnReport& is_own_report) {
  judge_pod(view, observed, is_own_report);
  const std::string& machine = view.pod->spec.node_name;
  if (view.failure) view.failure->machine = machine;
  if (view.suspicion) view.suspicion->machine = machine;
}

bool has_ended(const objects::Pod& pod) {
  return pod.status.phase == "Succeeded" || pod.status.phase == "Failed" ||
         terminated(pod) != nullptr;
}

std::string_view to_reason(FailureKind kind) {
  switch (kind) {
    case FailureKind::Configuration:
      return reason::kConfiguration;
    case FailureKind::Data:
      return reason::kData;
    case FailureKind::OutOfMemory:
      return reason::kOutOfMemory;
    case FailureKind::Error:
      return reason::kError;
    case FailureKind::NotStarted:
      return reason::kNotStarted;
    case FailureKind::StorageExceeded:
      return reason::kStorageExceeded;
    case FailureKind::PeerLost:
      return reason::kPeerLost;
    case FailureKind::Preempted:
      return reason::kPreempted;
    case FailureKind::Disrupted:
      return reason::kDisrupted;
    case FailureKind::PodDeleted:
      return reason::kPodDeleted;
    case FailureKind::NodeLost:
      return reason::kNodeLost;
  }
  return reason::kError;
}

bool is_owned_by(const objects::ObjectMeta& meta, const api::GnnJob& job) {
  const objects::OwnerReference* owner = objects::controller_of(meta);
  return owner != nullptr && owner->uid == job.metadata.uid;
}

bool is_impostor(const Pod& pod, const Observed& observed) {
  const api::GnnJob& job = observed.job;
  if (!is_owned_by(pod.metadata, job)) return false;
  if (observed.impostors.contains(pod.metadata.uid)) return true;
  const std::string& name = pod.metadata.name;
  if (contract::attempt_of_prepare_pod(job.metadata.name, name)) return !job.spec.prepare;
  if (const auto server = contract::numbers_of_server_pod(job.metadata.name, name)) {
    return !job.spec.servers || server->server >= api::kMaxNodes;
  }
  const auto numbers = contract::numbers_of_pod(job.metadata.name, name);
  return !numbers || numbers->node >= job.spec.workers.nodes;
}

bool is_kept_by_others(const Pod& pod) {
  const objects::ObjectMeta& meta = pod.metadata;
  const bool is_over = pod.status.phase == "Succeeded" || pod.status.phase == "Failed" ||
                       meta.deletion_grace_period_seconds == 0;
  return meta.deletion_timestamp && is_over && !has_our_finalizer(meta) &&
         !foreign_finalizer(meta).empty();
}

std::string foreign_finalizer(const objects::ObjectMeta& meta) {
  for (const std::string& each : meta.finalizers) {
    if (each != contract::kPodFinalizer) return each;
  }
  return "";
}

bool has_our_finalizer(const objects::ObjectMeta& meta) {
  return std::find(meta.finalizers.begin(), meta.finalizers.end(), contract::kPodFinalizer) !=
         meta.finalizers.end();
}

int64_t GangView::count(NodePhase phase) const {
  return std::count_if(nodes.begin(), nodes.end(), [&](const NodeView& node) {
    return node.phase == phase;
  });
}

bool GangView::all(NodePhase phase) const {
  return count(phase) == static_cast<int64_t>(nodes.size());
}

int64_t GangView::count_done() const {
  return std::count_if(nodes.begin(), nodes.end(), [](const NodeView& node) {
    return node.phase == NodePhase::Failed || node.phase == NodePhase::Succeeded ||
           (node.suspicion && node.suspicion->kind == FailureKind::NodeLost);
  });
}

bool GangView::is_complete() const {
  return std::all_of(nodes.begin(), nodes.end(), [](const NodeView& node) {
    return node.pod != nullptr;
  });
}

std::string newest_pod_of(const api::GnnJob& job, int64_t attempt, int64_t node, bool prepares) {
  const std::string& name = job.metadata.name;
  return prepares ? contract::prepare_pod_name(name, attempt)
                  : contract::pod_name(name, attempt, node, restart_of(job.status, node));
}

bool is_preparing(const api::GnnJob& job) {
  return job.spec.prepare && !is_true(job.status, condition::kPrepared);
}

GangView view_gang(const Observed& observed, int64_t attempt, bool created) {
  const api::GnnJob& job = observed.job;
  const std::vector<int64_t>& replacements = job.status.replaced_nodes;
  GangView view;
  // Pods of the gang prove that the data were ready, even if the status that says so was lost.
  view.prepares = is_preparing(job) && !has_gang_pods(observed);
  if (is_preparing(job) != view.prepares) created = false;
  view.created = created;
  std::map<std::string, int64_t> node_of_name;
  const int64_t nodes = view.prepares ? 1 : job.spec.workers.nodes;
  for (int64_t node = 0; node < nodes; ++node) {
    view.nodes.emplace_back().node = node;
    node_of_name[newest_pod_of(job, attempt, node, view.prepares)] = node;
  }
  for (const Pod& pod : observed.pods) {
    // Those of this job's servers are none of the gang; an earlier job's are in its way.
    const bool serves =
        contract::numbers_of_server_pod(job.metadata.name, pod.metadata.name).has_value();
    if (serves && is_owned_by(pod.metadata, job)) continue;
    const auto wanted = node_of_name.find(pod.metadata.name);
    const objects::OwnerReference* owner = objects::controller_of(pod.metadata);
    if (is_impostor(pod, observed)) {
      if (wanted != node_of_name.end()) view.stranger = &pod;
    } else if (is_owned_by(pod.metadata, job)) {
      const contract::PodNumbers numbers = numbers_of(pod, job);
      const auto prepares_for =
          contract::attempt_of_prepare_pod(job.metadata.name, pod.metadata.name);
      const int64_t newest = restart_of(job.status, numbers.node);
      const bool of_attempt = numbers.attempt == attempt;
      // Created after the status that we see was written.
      if (numbers.attempt > attempt || prepares_for > attempt ||
          (of_attempt && numbers.restart > newest)) {
        view.ahead.push_back(&pod);
      }
      if (wanted != node_of_name.end()) {
        view.nodes[static_cast<size_t>(wanted->second)].pod = &pod;
      } else if (prepares_for && !view.prepares) {
        view.prepared.push_back(&pod);
      } else if (of_attempt && numbers.restart < newest) {
        view.replaced.push_back(&pod);
      } else {
        view.old.push_back(&pod);
      }
    } else if (owner != nullptr && owner->kind == contract::kKind &&
               owner->name == job.metadata.name) {
      view.previous.push_back(&pod);
    } else if (wanted != node_of_name.end()) {
      view.stranger = &pod;
    }
  }
  for (NodeView& node : view.nodes) {
    if (node.pod != nullptr) {
      judge(node, observed, [&](const api::ProgressReport& report) {
        return report.attempt == attempt && report.node == node.node;
      });
    } else if (created || (!replacements.empty() && node.node != replacements.back())) {
      // All the others were there when a node was replaced.
      node.phase = NodePhase::Failed;
      node.failure.emplace();
      node.failure->kind = FailureKind::PodDeleted;
      node.failure->message = "the pod no longer exists";
    }
  }
  return view;
}

}  // namespace gnn::reconcile
