#pragma once

#include "controller/reconcile/observed.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gnn::reconcile {

/// Why a node of the gang failed; what follows from it stands in failure_policy.h.
enum class FailureKind {
  Configuration,  ///< exit code 64
  Data,           ///< exit code 65
  OutOfMemory,    ///< OOMKilled, or exit code 77
  Error,          ///< any other end
  PeerLost,       ///< exit code 75
  Preempted,      ///< exit code 76
  Disrupted,      ///< evicted, drained, preempted, refused or shut down by its node
  PodDeleted,     ///< deleted by somebody
  NodeLost,       ///< still there long after its deletion was due: its node does not answer
};

/// The reason constant of a kind.
[[nodiscard]] std::string_view to_reason(FailureKind kind);

struct NodeFailure {
  FailureKind kind = FailureKind::Error;
  std::optional<std::int64_t> rank;
  std::optional<std::int64_t> exit_code;
  std::string message;
  std::optional<TimePoint> time;  ///< when the container ended, if it is known
};

enum class NodePhase {
  Missing,      ///< no pod yet
  Unscheduled,  ///< waits for a machine
  Starting,     ///< on a machine, not ready
  Ready,
  Leaving,  ///< being deleted, still inside its grace period
  Succeeded,
  Failed,
};

/// One node of the job in its present attempt.
struct NodeView {
  std::int64_t node = 0;
  const objects::Pod* pod = nullptr;
  NodePhase phase = NodePhase::Missing;
  std::string waiting;                 ///< what it waits for, if the pod says
  std::optional<NodeFailure> failure;  ///< exactly in phase Failed
  std::optional<Report> report;        ///< its termination message, if it fits this job and attempt
};

/// The pods of one job's name, told apart. Pointers point into Observed.
struct GangView {
  std::vector<NodeView> nodes;                ///< by node, one each
  std::vector<const objects::Pod*> old;       ///< ours, of earlier attempts or of no node
  std::vector<const objects::Pod*> previous;  ///< of an earlier job of the same name
  const objects::Pod* stranger = nullptr;     ///< not ours, but with a name that we need
  [[nodiscard]] std::int64_t count(NodePhase phase) const;
  [[nodiscard]] bool all(NodePhase phase) const;
  /// Every node has a pod.
  [[nodiscard]] bool is_complete() const;
};

/// `created`: all pods of the attempt were seen once, so that one that is not there was taken away.
[[nodiscard]] GangView view_gang(const Observed& observed, std::int64_t attempt, bool created);

/// Whether the pod's worker has run to its end, well or not. A kubelet says so of the container up
/// to seconds before it says so of the pod.
[[nodiscard]] bool has_ended(const objects::Pod& pod);

/// Whether the object's controller is this very job.
[[nodiscard]] bool is_owned_by(const objects::ObjectMeta& meta, const api::GnnJob& job);

[[nodiscard]] bool has_our_finalizer(const objects::ObjectMeta& meta);

}  // namespace gnn::reconcile
