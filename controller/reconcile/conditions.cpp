#include "controller/reconcile/conditions.h"

#include "common/printable.h"
#include "controller/reconcile/progress_text.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace gnn::reconcile {
namespace {

constexpr size_t kMaxMessageBytes = 2048;

// The condition that decides the state, and the word to show.
struct Decisive {
  std::string_view word;
  const api::Condition* condition = nullptr;
};

Decisive decisive(const api::GnnJobStatus& status) {
  const auto find = [&](std::string_view type) { return find_condition(status, type); };
  if (is_true(status, condition::kFailed)) return {state::kFailed, find(condition::kFailed)};
  if (is_true(status, condition::kComplete)) return {state::kComplete, find(condition::kComplete)};
  const api::Condition* accepted = find(condition::kAccepted);
  if (accepted != nullptr && accepted->status == "False") return {state::kInvalid, accepted};
  if (is_true(status, condition::kSuspended)) {
    return {state::kSuspended, find(condition::kSuspended)};
  }
  const api::Condition* running = find(condition::kRunning);
  if (running != nullptr && running->status == "True") return {state::kRunning, running};
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
  status.message = found.condition == nullptr ? "" : found.condition->message;
  // The conditions keep their messages: progress is no transition.
  const bool trains = found.word == state::kRunning && status.progress &&
                      found.condition->reason == reason::kAllNodesReady;
  if (!trains) return;
  if (std::string text = progress_text(*status.progress); !text.empty()) {
    status.message = std::move(text);
  }
}

void derive_kstatus(api::GnnJobStatus& status, int64_t generation, TimePoint now) {
  const Decisive found = decisive(status);
  const bool stalled = found.word == state::kFailed || found.word == state::kInvalid;
  const bool at_rest = found.word == state::kComplete || found.word == state::kSuspended;
  const std::string_view type = stalled ? condition::kStalled : condition::kReconciling;
  // Of a condition that the next line may move.
  const std::string reason = stalled ? found.condition->reason : std::string(found.word);
  std::erase_if(status.conditions, [&](const api::Condition& each) {
    return is_of_kstatus(each.type) && (at_rest || each.type != type);
  });
  if (at_rest) return;
  const std::string message = found.condition == nullptr ? "" : found.condition->message;
  set_condition(status, {type, true, reason, message}, generation, now);
}

}  // namespace gnn::reconcile
