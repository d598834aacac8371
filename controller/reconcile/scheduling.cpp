#include "controller/reconcile/scheduling.h"

#include "common/hash.h"
#include "controller/reconcile/conditions.h"
#include "controller/reconcile/doubling.h"
#include "controller/reconcile/gang_restart.h"
#include "controller/reconcile/pod_group.h"
#include "controller/reconcile/queue.h"
#include "controller/reconcile/restart_backoff.h"
#include "controller/reconcile/servers.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>

namespace gnn::reconcile {
namespace {

// In [0, 1), from the job's UID and how often it was released: the same in every controller.
double jitter(const api::GnnJob& job, int64_t releases) {
  const uint64_t hash = fnv1a(job.metadata.uid + "/" + std::to_string(releases));
  return static_cast<double>(hash >> 11U) * 0x1.0p-53;
}

// Doubles with each release. The oldest gang waits 0.5 to 1 times as long, younger ones 1 to 1.5
// times: it comes back first, and no two come back together.
Duration release_wait(const Pass& pass, int64_t releases) {
  const OperatorConfig& config = pass.in.config;
  const Duration wait = doubled(config.release_backoff, releases - 1, config.release_backoff_cap);
  const double factor = (pass.in.older_gang ? 1.0 : 0.5) + 0.5 * jitter(pass.job(), releases);
  return std::chrono::duration_cast<Duration>(wait * factor);
}

Duration scheduling_timeout(const api::GnnJob& job) {
  return std::chrono::seconds(job.spec.run_policy.scheduling_timeout_seconds);
}

std::optional<TimePoint> first_pod_time(const GangView& gang) {
  std::optional<TimePoint> first;
  for (const NodeView& node : gang.nodes) {
    if (node.pod == nullptr || !node.pod->metadata.creation_timestamp) continue;
    first = std::min(first.value_or(TimePoint::max()), *node.pod->metadata.creation_timestamp);
  }
  return first;
}

// Until when the gang must be scheduled whole.
std::optional<TimePoint> gang_deadline(const Pass& pass) {
  if (is_true(pass.status(), condition::kScheduled) || unscheduled_nodes(pass.gang) == 0) {
    return std::nullopt;
  }
  const std::optional<TimePoint> first = first_pod_time(pass.gang);
  if (!first) return std::nullopt;
  TimePoint since = *first;
  if (!pass.status().replaced_nodes.empty()) {
    // Of a gang that ran, one node has to be placed again.
    const api::Condition* scheduled = find_condition(pass.status(), condition::kScheduled);
    if (scheduled != nullptr) since = std::max(since, scheduled->last_transition_time);
  }
  return since + scheduling_timeout(pass.job());
}

// Since when any of the job's pods has a place, and so holds what others may lack.
std::optional<TimePoint> holds_places_since(const Pass& pass) {
  std::optional<TimePoint> since;
  const auto look_at = [&](const NodeView& node) {
    if (node.pod == nullptr || node.phase == NodePhase::Unscheduled) return;
    const objects::PodCondition* scheduled = objects::find_condition(*node.pod, "PodScheduled");
    TimePoint placed = node.pod->metadata.creation_timestamp.value_or(pass.in.now);
    if (scheduled != nullptr && scheduled->last_transition_time) {
      placed = *scheduled->last_transition_time;
    }
    since = std::min(since.value_or(TimePoint::max()), placed);
  };
  for (const NodeView& node : pass.gang.nodes) look_at(node);
  for (const ServerView& server : pass.servers.servers) look_at(server.seen);
  return since;
}

// Whether the scheduler has all that it is to place together. Pods of which some are refused may hold
// the quota that another gang lacks.
bool waits_as_group(const Pass& pass) {
  const bool lacks_servers = std::ranges::any_of(pass.servers.servers, [&](const ServerView& each) {
    return each.seen.pod == nullptr && each.seen.node < needed_servers(pass.job());
  });
  return group_stands(pass) && pass.gang.is_complete() && !lacks_servers;
}

std::string why_not_scheduled(const Pass& pass) {
  if (unscheduled_nodes(pass.gang) == 0) {
    const std::string why = why_servers_wait(pass);
    return why.empty() ? "no reason given" : why;
  }
  if (!pass.in.refusals.empty()) return pass.in.refusals.front().message;
  for (const NodeView& node : pass.gang.nodes) {
    if (node.phase == NodePhase::Unscheduled && !node.waiting.empty()) return node.waiting;
  }
  return "no reason given";
}

}  // namespace

int64_t unscheduled_nodes(const GangView& gang) {
  return gang.count(NodePhase::Missing) + gang.count(NodePhase::Unscheduled);
}

bool wants_competitors(const Observed& observed) {
  const api::GnnJob& job = observed.job;
  if (is_finished(job.status) || job.spec.suspend) return false;
  if (has_reason(job.status, condition::kScheduled, reason::kReleased)) {
    return observed.now >= job.status.next_attempt_time.value_or(TimePoint::min());
  }
  return !observed.pods.empty() &&
         (has_reason(job.status, condition::kScheduled, reason::kUnschedulable) ||
          has_reason(job.status, condition::kScheduled, reason::kGangPending) ||
          has_reason(job.status, condition::kScheduled, reason::kQuotaExceeded));
}

bool is_in_placement(const api::GnnJob& job) {
  if (is_finished(job.status) || job.spec.suspend || job.metadata.deletion_timestamp) return false;
  if (is_in_queue(job.status)) return false;
  // It may have pods of which its status does not tell yet.
  if (job.status.attempt == 0) return true;
  for (const std::string_view why :
       {reason::kCreating,
        reason::kPlacing,
        reason::kUnschedulable,
        reason::kQueued,
        reason::kGangPending,
        reason::kQuotaExceeded}) {
    if (has_reason(job.status, condition::kScheduled, why)) return true;
  }
  // Where every partition has its server, it is a further one that finds no place: it may never.
  const auto& servers = job.status.servers;
  const bool lacks_servers = !servers || servers->ready < needed_servers(job);
  return lacks_servers && has_reason(job.status, condition::kServersReady, reason::kUnschedulable);
}

bool is_older_gang_in_placement(const api::GnnJob& other, const api::GnnJob& job) {
  const api::JobMetadata& a = other.metadata;
  const api::JobMetadata& b = job.metadata;
  if (a.uid == b.uid || a.namespace_ != b.namespace_) return false;
  const TimePoint born_a = a.creation_timestamp.value_or(TimePoint::max());
  const TimePoint born_b = b.creation_timestamp.value_or(TimePoint::max());
  const bool older = born_a != born_b ? born_a < born_b : a.uid < b.uid;
  return older && is_in_placement(other);
}

std::optional<TimePoint> scheduling_deadline(const Pass& pass) {
  // Pods may be missing because nobody knows whether they are admitted.
  if (pass.queue.wanted && !pass.queue.known) return std::nullopt;
  const auto gang = gang_deadline(pass);
  const auto servers = servers_scheduling_deadline(pass);
  const auto deadline = gang && servers ? std::min(gang, servers) : gang ? gang : servers;
  if (!deadline || !waits_as_group(pass)) return deadline;
  const auto held = holds_places_since(pass);
  if (!held) return std::nullopt;
  return std::max(*deadline, *held + scheduling_timeout(pass.job()));
}

void release_gang(Pass& pass, std::string_view limit) {
  const int64_t open = unscheduled_nodes(pass.gang);
  const std::string who =
      pass.preparing() ? std::string(kPreparePod) + " was"
      : open == 0
          ? "The servers of " + std::to_string(parts_without_place(pass)) +
                " of the partitions were"
          : std::to_string(open) + " of " + std::to_string(pass.gang.nodes.size()) + " nodes were";
  const std::string message = who + " not scheduled " + std::string(limit) + "; released " +
                              (pass.preparing() ? "it" : "the gang") + ": " +
                              why_not_scheduled(pass);
  api::GnnJobStatus& status = pass.status();
  ++status.releases;
  status.machines.clear();  // avoiding them may be why there was no place
  const TimePoint next = pass.in.now + release_wait(pass, status.releases);
  status.next_attempt_time = std::chrono::ceil<std::chrono::seconds>(next);
  begin_attempt(pass);
  pass.set(condition::kScheduled, false, reason::kReleased, message);
  pass.set(condition::kRunning, false, reason::kNotPlaced, message);
  if (pass.preparing()) pass.set(condition::kPrepared, false, reason::kNotPlaced, message);
}

std::optional<StartDelay> start_delay(const Pass& pass) {
  const auto& next = pass.status().next_attempt_time;
  if (!next) return std::nullopt;
  const bool released = has_reason(pass.status(), condition::kScheduled, reason::kReleased);
  if (pass.in.now < *next) {
    // Why it was released says more.
    return StartDelay{
        .until = *next,
        .reason = reason::kBackOff,
        .message = released ? std::string() : backoff_message(pass),
    };
  }
  if (!released || !pass.in.older_gang) return std::nullopt;
  // The older gang may take its time, but not keep this one away for ever.
  const TimePoint longest = *next + scheduling_timeout(pass.job());
  if (pass.in.now >= longest) return std::nullopt;
  constexpr auto kLookAgain = std::chrono::seconds(5);
  return StartDelay{
      .until = std::min<TimePoint>(pass.in.now + kLookAgain, longest),
      .reason = reason::kReleased,
      .message = "Waiting for the older GNNJob " + *pass.in.older_gang + " to be scheduled first"
  };
}

void apply_start_delay(Pass& pass, const StartDelay& delay) {
  pass.requeue_at(delay.until);
  if (delay.message.empty()) return;
  pass.set(condition::kScheduled, false, delay.reason, delay.message);
}

}  // namespace gnn::reconcile
