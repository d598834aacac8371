#include "common/rfc3339.h"
#include "controller/reconcile/pass.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>

namespace gnn::reconcile {
namespace {

/// FNV-1a: the same jitter for the same job and release in every process.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3U;
  }
  return hash;
}

/// In [0, 1), by the job's UID and how often it was released.
double jitter(const api::GnnJob& job, std::int64_t releases) {
  const std::uint64_t hash = hash_of(job.metadata.uid + "/" + std::to_string(releases));
  return static_cast<double>(hash >> 11U) * 0x1.0p-53;
}

/// Doubled with each release. The oldest gang waits 0.5 to 1 times as long, younger ones 1 to 1.5
/// times, so that it comes first and no two come together.
Duration release_wait(const Pass& pass, std::int64_t releases) {
  const OperatorConfig& config = pass.in.config;
  Duration wait = config.release_backoff;
  for (std::int64_t i = 1; i < releases && wait < config.release_backoff_cap; ++i) wait *= 2;
  wait = std::min(wait, config.release_backoff_cap);
  const double factor = (pass.in.older_gang ? 1.0 : 0.5) + 0.5 * jitter(pass.job(), releases);
  return std::chrono::duration_cast<Duration>(wait * factor);
}

std::optional<TimePoint> first_pod_time(const GangView& gang) {
  std::optional<TimePoint> first;
  for (const NodeView& node : gang.nodes) {
    if (node.pod == nullptr || !node.pod->metadata.creation_timestamp) continue;
    first = std::min(first.value_or(TimePoint::max()), *node.pod->metadata.creation_timestamp);
  }
  return first;
}

std::string why_not_placed(const Pass& pass) {
  for (const ApiRefusal& refusal : pass.in.refusals) return refusal.message;
  for (const NodeView& node : pass.gang.nodes) {
    if (node.phase == NodePhase::Unscheduled && !node.waiting.empty()) return node.waiting;
  }
  return "no reason was given";
}

}  // namespace

bool wants_competitors(const api::GnnJob& job) {
  if (is_finished(job.status) || job.spec.suspend) return false;
  for (const std::string_view why :
       {reason::kUnschedulable, reason::kQuotaExceeded, reason::kReleased}) {
    if (has_reason(job.status, condition::kScheduled, why)) return true;
  }
  return false;
}

bool is_older_gang_in_placement(const api::GnnJob& other, const api::GnnJob& job) {
  const api::JobMetadata& a = other.metadata;
  const api::JobMetadata& b = job.metadata;
  if (a.uid == b.uid || is_finished(other.status) || other.spec.suspend || a.deletion_timestamp) {
    return false;
  }
  const TimePoint born_a = a.creation_timestamp.value_or(TimePoint::max());
  const TimePoint born_b = b.creation_timestamp.value_or(TimePoint::max());
  const bool older = born_a != born_b ? born_a < born_b : a.uid < b.uid;
  if (!older || other.status.attempt == 0) return false;
  for (const std::string_view why :
       {reason::kCreating, reason::kPlacing, reason::kUnschedulable, reason::kQuotaExceeded}) {
    if (has_reason(other.status, condition::kScheduled, why)) return true;
  }
  return false;
}

bool apply_release(Pass& pass) {
  if (is_true(pass.status(), condition::kScheduled)) return false;
  const std::int64_t open =
      pass.gang.count(NodePhase::Missing) + pass.gang.count(NodePhase::Unscheduled);
  const std::optional<TimePoint> first = first_pod_time(pass.gang);
  if (open == 0 || !first) return false;  // placed whole, or it holds no places
  const std::int64_t timeout = pass.job().spec.run_policy.scheduling_timeout_seconds;
  const TimePoint deadline = *first + std::chrono::seconds(timeout);
  if (pass.in.now < deadline) {
    pass.requeue_at(deadline);
    return false;
  }
  const std::string message = std::to_string(open) + " of " +
                              std::to_string(pass.gang.nodes.size()) +
                              " nodes found no place within " + std::to_string(timeout) +
                              " s; the gang gave its places back: " + why_not_placed(pass);
  api::GnnJobStatus& status = pass.status();
  ++status.releases;
  const TimePoint next = pass.in.now + release_wait(pass, status.releases);
  status.next_attempt_time = std::chrono::ceil<std::chrono::seconds>(next);
  begin_attempt(pass);
  pass.set(condition::kScheduled, false, reason::kReleased, message);
  pass.set(condition::kRunning, false, reason::kNotPlaced, message);
  return true;
}

bool wait_for_turn(Pass& pass) {
  const auto& next = pass.status().next_attempt_time;
  if (!next) return false;
  if (pass.in.now < *next) {
    pass.requeue_at(*next);
    return true;
  }
  const bool released = has_reason(pass.status(), condition::kScheduled, reason::kReleased);
  if (released && pass.in.older_gang) {
    constexpr auto kLookAgain = std::chrono::seconds(5);
    pass.set(
        condition::kScheduled,
        false,
        reason::kReleased,
        "Waits while the older job " + *pass.in.older_gang + " is being placed"
    );
    pass.requeue(kLookAgain);
    return true;
  }
  return false;
}

}  // namespace gnn::reconcile
