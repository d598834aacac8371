#include "controller/reconcile/conditions.h"

#include "common/printable.h"
#include "controller/reconcile/progress_text.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace gnn::reconcile {
namespace {

constexpr size_t kMaxMessageBytes = 2048;

// A message that is that of another condition says which.
constexpr std::string_view kSee = "See ";

// Of conditions with one message, the first of these keeps it.
constexpr std::array<std::string_view, 11> kTellers = {
    condition::kFailed,
    condition::kComplete,
    condition::kSuspended,
    condition::kRestarting,
    condition::kScheduled,
    condition::kAccepted,
    condition::kPrepared,
    condition::kServersReady,
    condition::kRunning,
    condition::kReconciling,
    condition::kStalled,
};

// What a restart that is over says is news of something else.
size_t rank_of(const api::Condition& condition) {
  if (condition.type == condition::kRestarting && condition.status != "True") {
    return kTellers.size();
  }
  const auto found = std::ranges::find(kTellers, condition.type);
  return static_cast<size_t>(found - kTellers.begin());
}

// The condition that decides the state, and the word to show.
struct Decisive {
  std::string_view word;
  const api::Condition* condition = nullptr;
};

Decisive decisive(const api::GnnJobStatus& status) {
  const auto find = [&](std::string_view type) { return find_condition(status, type); };
  if (is_true(status, condition::kFailed)) return {state::kFailed, find(condition::kFailed)};
  if (is_true(status, condition::kComplete)) return {state::kComplete, find(condition::kComplete)};
  const api::Condition* running = find(condition::kRunning);
  const bool runs = running != nullptr && running->status == "True";
  const api::Condition* accepted = find(condition::kAccepted);
  // A gang that runs goes on, whatever became of its spec's validity.
  if (!runs && accepted != nullptr && accepted->status == "False") {
    return {state::kInvalid, accepted};
  }
  if (is_true(status, condition::kSuspended)) {
    return {state::kSuspended, find(condition::kSuspended)};
  }
  if (runs) return {state::kRunning, running};
  if (has_reason(status, condition::kRunning, reason::kStopping)) {
    return {state::kSuspending, running};
  }
  const api::Condition* scheduled = find(condition::kScheduled);
  if (has_reason(status, condition::kScheduled, reason::kReleased)) {
    return {state::kReleased, scheduled};
  }
  const bool placed = scheduled != nullptr && scheduled->status == "True";
  const bool creating = has_reason(status, condition::kScheduled, reason::kCreating);
  if (is_true(status, condition::kRestarting)) {
    // Once the new attempt waits for something, that is more useful than the failure.
    if (creating) return {state::kRestarting, find(condition::kRestarting)};
    return {state::kRestarting, placed ? running : scheduled};
  }
  if (placed && has_reason(status, condition::kPrepared, reason::kPreparing)) {
    return {state::kPreparing, find(condition::kPrepared)};
  }
  if (placed) return {state::kStarting, running};
  return {state::kPending, scheduled};
}

}  // namespace

const api::Condition* find_condition(const api::GnnJobStatus& status, std::string_view type) {
  const auto found = std::find_if(
      status.conditions.begin(),
      status.conditions.end(),
      [&](const api::Condition& condition) { return condition.type == type; }
  );
  return found == status.conditions.end() ? nullptr : &*found;
}

bool is_true(const api::GnnJobStatus& status, std::string_view type) {
  const api::Condition* found = find_condition(status, type);
  return found != nullptr && found->status == "True";
}

bool has_reason(const api::GnnJobStatus& status, std::string_view type, std::string_view reason) {
  const api::Condition* found = find_condition(status, type);
  return found != nullptr && found->reason == reason;
}

bool is_finished(const api::GnnJobStatus& status) {
  return is_true(status, condition::kComplete) || is_true(status, condition::kFailed);
}

void set_condition(
    api::GnnJobStatus& status, const NewCondition& condition, int64_t generation, TimePoint now
) {
  const std::string word = condition.holds ? "True" : "False";
  auto found = std::find_if(
      status.conditions.begin(),
      status.conditions.end(),
      [&](const api::Condition& each) { return each.type == condition.type; }
  );
  if (found == status.conditions.end()) {
    found = status.conditions.emplace(found);
    found->type = condition.type;
  }
  if (found->status != word) {
    found->status = word;
    // The API stores whole seconds; fractions would make every status look changed.
    found->last_transition_time = std::chrono::floor<std::chrono::seconds>(now);
  }
  found->reason = condition.reason;
  found->message = printable_line(condition.message, kMaxMessageBytes);
  found->observed_generation = generation;
}

void derive_state(api::GnnJobStatus& status) {
  const Decisive found = decisive(status);
  status.state = found.word;
  status.message = found.condition == nullptr ? "" : message_of(status, *found.condition);
  // The conditions keep their messages: progress is no transition.
  const bool trains = found.word == state::kRunning && status.progress &&
                      found.condition->reason == reason::kAllNodesReady;
  if (!trains) return;
  if (std::string text = progress_text(*status.progress); !text.empty()) {
    status.message = std::move(text);
  }
}

std::string message_of(const api::GnnJobStatus& status, const api::Condition& condition) {
  const api::Condition* told = &condition;
  // A condition that is referred to may later refer to another one.
  for (size_t hop = 0; hop < status.conditions.size(); ++hop) {
    const std::string_view message = told->message;
    if (!message.starts_with(kSee)) break;
    const api::Condition* other = find_condition(status, message.substr(kSee.size()));
    if (other == nullptr) break;
    told = other;
  }
  return told->message;
}

void say_once(api::GnnJobStatus& status) {
  std::vector<std::string> messages;
  messages.reserve(status.conditions.size());
  for (const api::Condition& each : status.conditions) messages.push_back(message_of(status, each));
  for (size_t i = 0; i < messages.size(); ++i) {
    const api::Condition* teller = &status.conditions[i];
    for (size_t j = 0; j < messages.size(); ++j) {
      const api::Condition& other = status.conditions[j];
      if (messages[j] == messages[i] && rank_of(other) < rank_of(*teller)) teller = &other;
    }
    const bool tells = teller == &status.conditions[i] || messages[i].empty();
    status.conditions[i].message = tells ? messages[i] : std::string(kSee) + teller->type;
  }
}

void derive_kstatus(api::GnnJobStatus& status, int64_t generation, TimePoint now) {
  const Decisive found = decisive(status);
  const bool stalled = found.word == state::kFailed || found.word == state::kInvalid;
  const bool at_rest = found.word == state::kComplete || found.word == state::kSuspended;
  const std::string_view type = stalled ? condition::kStalled : condition::kReconciling;
  // Of a condition that the next line may move.
  const std::string reason = stalled ? found.condition->reason : std::string(found.word);
  const std::string message =
      found.condition == nullptr ? "" : message_of(status, *found.condition);
  std::erase_if(status.conditions, [&](const api::Condition& each) {
    return is_of_kstatus(each.type) && (at_rest || each.type != type);
  });
  if (at_rest) return;
  set_condition(status, {type, true, reason, message}, generation, now);
}

}  // namespace gnn::reconcile
