#pragma once

#include "common/clock.h"
#include "controller/reconcile/action.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

/// A write that is wanted again although it was just made is contested: an admission webhook or another
/// controller changes what was written. It is repeated with back-off, whatever it writes.
namespace gnn::reconcile {

/// The writes of one target (an object, and what of it is written) that followed each other.
struct WriteRow {
  uint64_t content = 0;  ///< hash of what the last one wrote, without times
  int64_t same = 0;      ///< how many in a row wrote this content
  int64_t count = 0;     ///< how many in a row, whatever they wrote
  TimePoint last{};
  std::string text{};  ///< the target in words; empty while the writes are few
  friend bool operator==(const WriteRow&, const WriteRow&) = default;
};

/// By a hash of the target.
using WriteHistory = std::map<uint64_t, WriteRow>;

/// What an action writes.
struct WriteTarget {
  std::string text;  ///< "the spec of workload x"
  std::string uid;   ///< of the object; empty for one that is found by its name
  uint64_t content = 0;
};
[[nodiscard]] WriteTarget target_of(const Action& action);

/// Whether the write creates an object.
[[nodiscard]] bool is_create(const Action& action);

/// When the action may be carried out; nothing: at once.
[[nodiscard]] std::optional<TimePoint> next_write(
    const WriteHistory& history, const Action& action, TimePoint now
);

/// Counts a write that was made. Returns the target in words if this write makes it contested.
std::optional<std::string> count_write(WriteHistory& history, const Action& action, TimePoint now);

/// Forgets the rows that have ended: nothing was written for long enough.
void forget_old_writes(WriteHistory& history, TimePoint now);

/// The contested targets in words, in order.
[[nodiscard]] std::vector<std::string> contested_writes(const WriteHistory& history);

/// How long to wait after `count` status writes in a row of which the API server kept something else.
/// An older CRD cuts each status, so the first ones do not wait.
[[nodiscard]] Duration pause_after_cut_statuses(int64_t count);

/// How many there are in a row with one that is written now, after `count` the last of which was at `last`.
[[nodiscard]] int64_t count_cut_status(int64_t count, TimePoint last, TimePoint now);

/// What is left of `actions` now. No pod is created in the pass in which something that it needs is
/// held back.
struct PacedActions {
  std::vector<Action> now;
  std::vector<std::string> held_creates;  ///< in words, without Workloads
  std::optional<TimePoint> next;          ///< when the first of those held back is due
};
[[nodiscard]] PacedActions pace(
    const WriteHistory& history, std::vector<Action> actions, TimePoint now
);

}  // namespace gnn::reconcile
