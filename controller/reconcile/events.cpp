#include "controller/reconcile/events.h"

#include "controller/reconcile/conditions.h"

#include <algorithm>
#include <array>
#include <string>

namespace gnn::reconcile {
namespace {

constexpr std::array<std::string_view, 4> kTrouble = {
    reason::kNameTaken, reason::kQuotaExceeded, reason::kRefused, reason::kCreateFailed
};

// Whether pods cannot be created or find no place.
bool is_trouble(const api::Condition& condition) {
  return condition.reason == reason::kUnschedulable || condition.reason == reason::kGangPending ||
         condition.reason == reason::kReleased ||
         std::find(kTrouble.begin(), kTrouble.end(), condition.reason) != kTrouble.end();
}

EventType type_of(const api::Condition& condition) {
  if (condition.type == condition::kFailed) return EventType::Warning;
  if (condition.type == condition::kRestarting && condition.status == "True") {
    return EventType::Warning;
  }
  if (condition.type == condition::kAccepted && condition.status == "False") {
    return EventType::Warning;
  }
  const bool about_pods =
      condition.type == condition::kScheduled || condition.type == condition::kServersReady;
  if (!about_pods || condition.status == "True") return EventType::Normal;
  return is_trouble(condition) ? EventType::Warning : EventType::Normal;
}

// The condition's type where it became true, else its reason.
std::string name_of(const api::Condition& condition) {
  if (condition.status == "True") return condition.type;
  return condition.reason;
}

// Which changes are worth an event: what became true, and why scheduling stalls.
bool is_news(const api::Condition* before, const api::Condition& after) {
  if (is_of_kstatus(after.type)) return false;
  const bool began = after.status == "True" && (before == nullptr || before->status != "True");
  if (began) return after.type != condition::kAccepted;
  if (after.status == "True") return false;
  const bool other_reason = before == nullptr || before->reason != after.reason;
  if (!other_reason) return false;
  if (after.type == condition::kServersReady) return is_trouble(after);
  if (after.type == condition::kAccepted) return true;
  if (after.type == condition::kPrepared) return after.reason == reason::kPreparing;
  if (after.type == condition::kSuspended) return before != nullptr;  // resumed
  if (after.type == condition::kScheduled) {
    if (after.reason == reason::kPlacing) return before == nullptr;
    return after.reason != reason::kSuspendedByUser;
  }
  return false;
}

}  // namespace

std::vector<EventRecord> events_between(
    const api::GnnJobStatus& before, const api::GnnJobStatus& after
) {
  std::vector<EventRecord> events;
  for (const api::Condition& condition : after.conditions) {
    const api::Condition* old = find_condition(before, condition.type);
    const bool again = condition.type == condition::kRestarting && condition.status == "True" &&
                       (after.attempt > before.attempt ||
                        after.replaced_nodes.size() > before.replaced_nodes.size());
    if (!again && !is_news(old, condition)) continue;
    events.push_back({type_of(condition), name_of(condition), message_of(after, condition)});
  }
  if (after.attempt == before.attempt && after.round > before.round) {
    events.push_back(
        {EventType::Warning,
         std::string(kRestartedInPlace),
         "Restarted the ranks of attempt " + std::to_string(after.attempt) + " in place; " +
             std::to_string(after.restarts) + " restarts so far"}
    );
  }
  const auto no_group = [](const api::GnnJobStatus& status) {
    return status.scheduling ? status.scheduling->message.value_or("") : "";
  };
  if (!no_group(after).empty() && no_group(after) != no_group(before)) {
    events.push_back({EventType::Warning, std::string(kNoPodGroup), no_group(after)});
  }
  const auto restarts = [](const api::GnnJobStatus& status) {
    return status.servers ? status.servers->restarts : 0;
  };
  const api::Condition* servers = find_condition(after, condition::kServersReady);
  if (restarts(after) > restarts(before) && servers != nullptr) {
    events.push_back({EventType::Warning, std::string(kServerReplaced), message_of(after, *servers)}
    );
  }
  return events;
}

}  // namespace gnn::reconcile
