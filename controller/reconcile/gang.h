#pragma once

#include "controller/reconcile/observed.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::reconcile {

/// Why a node of the gang failed. failure_policy.h decides what follows.
enum class FailureKind {
  Configuration,  ///< exit code 64
  Data,           ///< exit code 65
  OutOfMemory,    ///< OOMKilled, or exit code 77
  Error,          ///< any other exit
  NotStarted,     ///< has a machine, but its container does not start
  /// Evicted because it wrote more than its own limits of storage allow.
  StorageExceeded,
  PeerLost,   ///< exit code 75
  Preempted,  ///< exit code 76
  /// Evicted, drained, preempted or shut down by its machine, or refused by its kubelet.
  Disrupted,
  PodDeleted,  ///< deleted by a user or another controller
  NodeLost,    ///< its machine does not answer
};

/// The condition reason for a kind.
[[nodiscard]] std::string_view to_reason(FailureKind kind);

struct NodeFailure {
  FailureKind kind = FailureKind::Error;
  std::string machine = {};  ///< the Kubernetes node of the pod; empty if unknown
  std::optional<int64_t> rank = {};
  std::optional<int64_t> exit_code = {};
  std::string message = {};
  std::string stderr_tail = {};
  std::optional<TimePoint> time = {};  ///< when the container ended, if known
  /// NotStarted for want of an image whose registry cannot be reached, which is not the job's fault.
  bool lacks_registry = false;
};

enum class NodePhase {
  Missing,      ///< no pod yet
  Unscheduled,  ///< waits to be scheduled
  Starting,     ///< scheduled, not ready
  Ready,
  Leaving,  ///< being deleted, still inside its grace period
  Succeeded,
  Failed,
};

/// One node of the job in its current attempt.
struct NodeView {
  int64_t node = 0;
  const objects::Pod* pod = nullptr;
  NodePhase phase = NodePhase::Missing;
  std::string waiting = {};                  ///< what it waits for, if the pod or its events say
  std::optional<TimePoint> explain_at = {};  ///< when to read its events, if it says nothing
  std::optional<NodeFailure> failure = {};   ///< set exactly in phase Failed
  /// Not failed, but why its peers may have lost it.
  std::optional<NodeFailure> suspicion = {};
  /// Its termination message, if of this job and attempt.
  std::optional<api::ProgressReport> report = {};
};

/// The pods with one job's name, sorted by what they are to it. Pointers point into Observed.
struct GangView {
  std::vector<NodeView> nodes;                ///< one for each node, in order
  std::vector<const objects::Pod*> old;       ///< this job's, but not of the current attempt
  std::vector<const objects::Pod*> replaced;  ///< of this attempt, but not the newest of their node
  std::vector<const objects::Pod*> previous;  ///< of an earlier job of the same name
  std::vector<const objects::Pod*> prepared;  ///< those that prepared the data, which is over
  const objects::Pod* stranger = nullptr;     ///< holds a name that this job needs
  /// Of a later attempt, or of a replacement that the status does not know. Where there are some, what
  /// we see of the job may be out of date.
  std::vector<const objects::Pod*> ahead;
  bool created = false;  ///< all pods of the attempt have existed
  /// The only node is the pod that prepares the data; the gang proper has not begun.
  bool prepares = false;
  [[nodiscard]] int64_t count(NodePhase phase) const;
  [[nodiscard]] bool all(NodePhase phase) const;
  /// Every node has a pod.
  [[nodiscard]] bool is_complete() const;
  /// Nodes from which nothing more is to be expected: they have ended, or their machine is silent.
  [[nodiscard]] int64_t count_done() const;
};

/// How messages call the pod that prepares the data.
inline constexpr std::string_view kPreparePod = "The pod that prepares the data";

/// Whether the job's data are to be prepared before its gang starts, as far as its status tells.
[[nodiscard]] bool is_preparing(const api::GnnJob& job);

/// The name of a node's newest pod in the attempt, or of that which `prepares` the data.
[[nodiscard]] std::string newest_pod_of(
    const api::GnnJob& job, int64_t attempt, int64_t node, bool prepares
);

using IsOwnReport = std::function<bool(const api::ProgressReport&)>;
/// Sets what follows from the pod of a node, or of a server: phase, failure, suspicion, waiting, report.
/// `is_own_report`: whether a report of this job in the termination message is of it.
void judge(NodeView& view, const Observed& observed, const IsOwnReport& is_own_report);

/// `created`: all pods of the attempt have existed, so a missing one was deleted.
[[nodiscard]] GangView view_gang(const Observed& observed, int64_t attempt, bool created);

/// Whether the pod's worker has terminated, successfully or not. The kubelet reports the
/// container's end up to seconds before the pod's.
[[nodiscard]] bool has_ended(const objects::Pod& pod);

/// Whether the object's controller reference names this job's UID.
[[nodiscard]] bool is_owned_by(const objects::ObjectMeta& meta, const api::GnnJob& job);

/// Whether the pod names this job as its controller, but cannot be the operator's: it has no name of the
/// job's pods, or the job was read while it existed and had begun neither its attempt nor its replacement.
/// An owner reference is a claim that anybody may make who may create pods.
[[nodiscard]] bool is_impostor(const objects::Pod& pod, const Observed& observed);

[[nodiscard]] bool has_our_finalizer(const objects::ObjectMeta& meta);

/// Whether the pod is deleted and runs no more, and only finalizers of others keep the object.
[[nodiscard]] bool is_kept_by_others(const objects::Pod& pod);

/// The first finalizer of somebody else; empty if there is none.
[[nodiscard]] std::string foreign_finalizer(const objects::ObjectMeta& meta);

}  // namespace gnn::reconcile
