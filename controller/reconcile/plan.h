#pragma once

#include "common/api/gnn_job.h"
#include "common/clock.h"
#include "controller/objects/pod.h"
#include "controller/reconcile/action.h"
#include "controller/reconcile/observed.h"
#include "controller/reconcile/workload.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The controller's decisions. plan() is total and deterministic and does no I/O; the executor
/// carries out what it returns and decides nothing.
namespace gnn::reconcile {

/// Event reason, and label value in the metrics, for ranks restarted without replacing their pods.
inline constexpr std::string_view kRestartedInPlace = "RestartedInPlace";

/// Event reason for a sampling server whose pod is replaced.
inline constexpr std::string_view kServerReplaced = "ServerReplaced";

/// Event reason for a pod that claims to be one of the job's, and is not.
inline constexpr std::string_view kForeignPod = "ForeignPod";

/// Event reason for pods that are placed one by one, although the spec asks for a group.
inline constexpr std::string_view kNoPodGroup = "NoPodGroup";

enum class EventType { Normal, Warning };

struct EventRecord {
  EventType type = EventType::Normal;
  std::string reason;
  std::string message;
  friend bool operator==(const EventRecord&, const EventRecord&) = default;
};

/// When to look again after the API server refused an action. The first refusal is reported at
/// once; one that repeats is paced, so that the API server is not asked in a tight loop.
struct RefusalDelays {
  Duration changed{};   ///< the refusals differ from Observed::refusals
  Duration repeated{};  ///< they are the same
};

struct Plan {
  /// In this order. Stop at the first error that is worth a retry, and write no status then.
  std::vector<Action> actions;
  /// Written after the actions if it differs from the observed status, with the observed
  /// resourceVersion as precondition.
  api::GnnJobStatus status;
  /// `status` assumes every action succeeds; if one is refused, skip the write: the next pass
  /// reports it.
  bool status_needs_success = false;
  /// `status` differs only in how far the job is: to be written when it is this job's turn among all,
  /// see ProgressTurns.
  bool is_progress = false;
  /// Emitted once the status is written, or if it did not change.
  std::vector<EventRecord> events;
  /// Look again after this even if nothing changes.
  std::optional<Duration> requeue_after;
  /// Takes the place of requeue_after if an action is refused.
  RefusalDelays requeue_if_refused;
  /// Since when, by our own clock, failed nodes wait for the one that caused them to fail. Goes
  /// into Observed of the next pass.
  std::optional<TimePoint> awaits_culprit_since;
};

[[nodiscard]] Plan plan(const Observed& observed);

/// UIDs of the pods that are ahead of the job, of an attempt or a replacement that its status does not
/// know: what is cached of the job is out of date, or they are none of its pods. A read of the job decides.
[[nodiscard]] std::vector<std::string> pods_ahead(const Observed& observed);

/// The pod of the job whose events are to be read, because it does not start and does not say why: the
/// first that nothing is known of. Nothing if there is none.
[[nodiscard]] std::optional<objects::ObjectMeta> pod_to_explain(const Observed& observed);

/// Names of the pods that plan() would count as deleted, only because they are not observed.
[[nodiscard]] std::vector<std::string> vanished_pods(const Observed& observed);

/// The same for the pods of servers, each of which is replaced by itself.
[[nodiscard]] std::vector<std::string> vanished_server_pods(const Observed& observed);

/// What plan() must know of the job's queue and is not in what was observed.
[[nodiscard]] QueueNeeds queue_needs(const Observed& observed);

/// For pods with our label whose job is gone: removes our finalizer, so that nothing hangs.
[[nodiscard]] std::vector<Action> release_orphans(const std::vector<objects::Pod>& pods);

/// The name of the pod whose /progress tells of the job: node 0's, or that which prepares the data.
[[nodiscard]] std::string progress_pod(const api::GnnJob& job);

/// The IP of that pod if its /progress is worth asking for.
[[nodiscard]] std::optional<std::string> progress_address(
    const api::GnnJob& job, const objects::Pod& pod
);

}  // namespace gnn::reconcile
