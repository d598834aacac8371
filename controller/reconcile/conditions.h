#pragma once

#include "common/api/gnn_job.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

/// Types and reasons of a GNNJob's conditions, and the values of status.state.
/// docs/state-machine.md says what each means; a test compares the two.
namespace gnn::reconcile {

namespace condition {
inline constexpr std::string_view kAccepted = "Accepted";
inline constexpr std::string_view kPrepared = "Prepared";
inline constexpr std::string_view kScheduled = "Scheduled";
inline constexpr std::string_view kRunning = "Running";
inline constexpr std::string_view kServersReady = "ServersReady";
inline constexpr std::string_view kRestarting = "Restarting";
inline constexpr std::string_view kSuspended = "Suspended";
inline constexpr std::string_view kComplete = "Complete";
inline constexpr std::string_view kFailed = "Failed";
inline constexpr std::string_view kReconciling = "Reconciling";
inline constexpr std::string_view kStalled = "Stalled";
}  // namespace condition

namespace reason {
// Accepted
inline constexpr std::string_view kValid = "Valid";
inline constexpr std::string_view kIdleGpus = "IdleGpus";
inline constexpr std::string_view kInvalidSpec = "InvalidSpec";
inline constexpr std::string_view kUnknownValue = "UnknownValue";
inline constexpr std::string_view kAwaitsQueue = "AwaitsQueue";
// Prepared
inline constexpr std::string_view kPreparing = "Preparing";
inline constexpr std::string_view kDataReady = "DataReady";
// Scheduled
inline constexpr std::string_view kCreating = "Creating";
inline constexpr std::string_view kMemoryLimit = "MemoryLimit";
inline constexpr std::string_view kNameTaken = "NameTaken";
inline constexpr std::string_view kQuotaExceeded = "QuotaExceeded";
inline constexpr std::string_view kRefused = "Refused";
inline constexpr std::string_view kCreateFailed = "CreateFailed";
inline constexpr std::string_view kPlacing = "Placing";
inline constexpr std::string_view kUnschedulable = "Unschedulable";
inline constexpr std::string_view kQueued = "Queued";
inline constexpr std::string_view kEvicted = "Evicted";
inline constexpr std::string_view kGangPending = "GangPending";
inline constexpr std::string_view kReleased = "Released";
inline constexpr std::string_view kBackOff = "BackOff";
inline constexpr std::string_view kAllNodesPlaced = "AllNodesPlaced";
// Running
inline constexpr std::string_view kNotPlaced = "NotPlaced";
inline constexpr std::string_view kStarting = "Starting";
inline constexpr std::string_view kAllNodesReady = "AllNodesReady";
inline constexpr std::string_view kRestarting = "Restarting";
inline constexpr std::string_view kStopping = "Stopping";
inline constexpr std::string_view kFinished = "Finished";
// ServersReady
inline constexpr std::string_view kAllServersReady = "AllServersReady";
// Restarting, ServersReady, and Failed where a failure ends the job
inline constexpr std::string_view kConfiguration = "Configuration";
inline constexpr std::string_view kData = "Data";
inline constexpr std::string_view kError = "Error";
inline constexpr std::string_view kOutOfMemory = "OutOfMemory";
inline constexpr std::string_view kPeerLost = "PeerLost";
inline constexpr std::string_view kNotStarted = "NotStarted";
inline constexpr std::string_view kStorageExceeded = "StorageExceeded";
inline constexpr std::string_view kPreempted = "Preempted";
inline constexpr std::string_view kDisrupted = "Disrupted";
inline constexpr std::string_view kPodDeleted = "PodDeleted";
inline constexpr std::string_view kNodeLost = "NodeLost";
inline constexpr std::string_view kRestarted = "Restarted";
// Suspended
inline constexpr std::string_view kSuspendedByUser = "Suspended";
inline constexpr std::string_view kResumed = "Resumed";
// Complete, Failed
inline constexpr std::string_view kAllNodesDone = "AllNodesDone";
inline constexpr std::string_view kMaxRestartsExceeded = "MaxRestartsExceeded";
inline constexpr std::string_view kDeadlineExceeded = "DeadlineExceeded";
inline constexpr std::string_view kInvalidAdmission = "InvalidAdmission";
}  // namespace reason

/// The reasons of Restarting that count against maxRestarts.
inline constexpr std::array<std::string_view, 5> kChargedReasons = {
    reason::kError,
    reason::kOutOfMemory,
    reason::kStorageExceeded,
    reason::kPeerLost,
    reason::kNotStarted,
};

namespace state {
inline constexpr std::string_view kInvalid = "Invalid";
inline constexpr std::string_view kPending = "Pending";
inline constexpr std::string_view kReleased = "Released";
inline constexpr std::string_view kPreparing = "Preparing";
inline constexpr std::string_view kStarting = "Starting";
inline constexpr std::string_view kRunning = "Running";
inline constexpr std::string_view kRestarting = "Restarting";
inline constexpr std::string_view kSuspending = "Suspending";
inline constexpr std::string_view kSuspended = "Suspended";
inline constexpr std::string_view kComplete = "Complete";
inline constexpr std::string_view kFailed = "Failed";
}  // namespace state

[[nodiscard]] const api::Condition* find_condition(
    const api::GnnJobStatus& status, std::string_view type
);

[[nodiscard]] bool is_true(const api::GnnJobStatus& status, std::string_view type);

/// Whether the condition exists with this reason.
[[nodiscard]] bool has_reason(
    const api::GnnJobStatus& status, std::string_view type, std::string_view reason
);

/// Complete or Failed: the status no longer changes.
[[nodiscard]] bool is_finished(const api::GnnJobStatus& status);

struct NewCondition {
  std::string_view type;
  bool holds = false;
  std::string_view reason;
  std::string message;
};

/// Adds or changes a condition. Its transition time changes only with its status.
void set_condition(
    api::GnnJobStatus& status, const NewCondition& condition, int64_t generation, TimePoint now
);

/// The condition's message, or that of the condition which it refers to.
[[nodiscard]] std::string message_of(
    const api::GnnJobStatus& status, const api::Condition& condition
);

/// Leaves each message in one condition. The others with it refer to that one: "See Failed".
void say_once(api::GnnJobStatus& status);

/// Sets status.state and status.message from the conditions.
void derive_state(api::GnnJobStatus& status);

/// Reconciling and Stalled, which say nothing that the others do not.
[[nodiscard]] constexpr bool is_of_kstatus(std::string_view type) {
  return type == condition::kReconciling || type == condition::kStalled;
}

/// Sets Reconciling and Stalled from the state, for tools that know kstatus' conditions alone. Each is
/// there only while it is True.
/// Source: sigs.k8s.io/cli-utils/pkg/kstatus.
void derive_kstatus(api::GnnJobStatus& status, int64_t generation, TimePoint now);

}  // namespace gnn::reconcile
