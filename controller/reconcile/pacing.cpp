#include "controller/reconcile/pacing.h"

#include "common/hash.h"
#include "common/overloaded.h"
#include "controller/reconcile/doubling.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

namespace gnn::reconcile {
namespace {

constexpr Duration kFirstPause = std::chrono::seconds(1);
constexpr Duration kLongestPause = std::chrono::minutes(5);
constexpr Duration kQuiet = std::chrono::minutes(1);
// The same write twice in a row may be due to a cache that is behind.
constexpr int64_t kFreeRepeats = 2;
// Writes of different content make progress, unless there is no end to them.
constexpr int64_t kFreeWrites = 16;
constexpr int64_t kContested = 4;
constexpr int64_t kFreeCutStatuses = 8;
constexpr Duration kLongestStatusPause = std::chrono::seconds(30);

uint64_t hash(const std::string& text, uint64_t seed) {
  return fnv1a(std::string_view("\0", 1), fnv1a(text, seed));
}

uint64_t content_of_spec(const objects::Workload& workload) {
  uint64_t content = hash(workload.queue, kFnvOffset);
  content = hash(workload.pod_sets_digest, content);
  content = hash(workload.priority_class.name, content);
  content = hash(std::to_string(workload.priority.value_or(-1)), content);
  return hash(
      std::to_string(workload.active) + std::to_string(workload.suspended_with_job), content
  );
}

uint64_t content_of_status(const objects::Workload& workload) {
  uint64_t content = hash(workload.admission ? "admitted" : "", kFnvOffset);
  for (const objects::WorkloadCondition& each : workload.conditions) {
    content = hash(each.type + each.status + each.reason, content);
  }
  return content;
}

WriteTarget create_of(const std::string& kind, const objects::ObjectMeta& meta) {
  return {.text = kind + " " + meta.name, .uid = {}};
}

// An object of another UID is another target.
WriteTarget write_of(const std::string& what, const std::string& name, const std::string& uid) {
  return {.text = what + " " + name, .uid = uid};
}

WriteTarget write_of(const std::string& what, const objects::Workload& workload, uint64_t content) {
  WriteTarget target = write_of(what, workload.metadata.name, workload.metadata.uid);
  target.content = content;
  return target;
}

Duration pause_after(const WriteRow& row) {
  const int64_t repeats = std::max(row.same - kFreeRepeats, row.count - kFreeWrites);
  return repeats < 0 ? Duration::zero() : doubled(kFirstPause, repeats, kLongestPause);
}

bool has_ended(const WriteRow& row, TimePoint now) {
  // One that is in the future was counted by another clock.
  return now < row.last || now >= row.last + std::max(kQuiet, 2 * pause_after(row));
}

uint64_t key_of(const WriteTarget& target, bool creates) {
  return hash(target.uid, hash(target.text, creates ? 1 : kFnvOffset));
}

bool creates_child(const Action& action) {
  return is_create(action) && !std::holds_alternative<CreateWorkload>(action);
}

}  // namespace

WriteTarget target_of(const Action& action) {
  return std::visit(
      Overloaded{
          [](const CreateService& each) { return create_of("service", each.service.metadata); },
          [](const CreateConfigMap& each) {
            return create_of("configmap", each.config_map.metadata);
          },
          // Each has another name.
          [](const CreateDataKey&) {
            return WriteTarget{.text = "secret of the data key", .uid = {}};
          },
          [](const CreateNetworkPolicy& each) {
            return create_of("networkpolicy", each.network_policy.metadata);
          },
          [](const CreateGroup& each) { return create_of("podgroup", each.group.metadata); },
          [](const CreateWorkload& each) { return create_of("workload", each.workload.metadata); },
          [](const CreatePod& each) { return create_of("pod", each.pod.metadata); },
          [](const UpdateService& each) {
            return write_of("the spec of service", each.service.metadata.name, "");
          },
          [](const UpdateNetworkPolicy& each) {
            return write_of("the spec of networkpolicy", each.network_policy.metadata.name, "");
          },
          [](const RelabelPod& each) { return write_of("the labels of pod", each.name, each.uid); },
          [](const ReleasePod& each) {
            return write_of("the finalizers of pod", each.name, each.uid);
          },
          [](const DeletePod& each) {
            WriteTarget target = write_of("the deletion of pod", each.name, each.uid);
            target.content = each.grace_period_seconds ? 1 : 0;
            return target;
          },
          [](const StopPod& each) { return write_of("the deadline of pod", each.name, each.uid); },
          [](const DeleteGroup& each) {
            return write_of("the deletion of podgroup", each.name, each.uid);
          },
          [](const UpdateWorkload& each) {
            return write_of("the spec of workload", each.workload, content_of_spec(each.workload));
          },
          [](const UpdateWorkloadStatus& each) {
            return write_of(
                "the status of workload", each.workload, content_of_status(each.workload)
            );
          },
          [](const AdoptWorkload& each) {
            return write_of("the labels of workload", each.workload, 0);
          },
          [](const ReleaseWorkload& each) {
            return write_of("the finalizers of workload", each.workload, 0);
          },
          [](const DeleteWorkload& each) {
            return write_of("the deletion of workload", each.workload, 0);
          },
          [](const DeleteJob& each) {
            return WriteTarget{.text = "the deletion of the GNNJob", .uid = each.uid};
          },
      },
      action
  );
}

bool is_create(const Action& action) {
  return std::holds_alternative<CreateService>(action) ||
         std::holds_alternative<CreateConfigMap>(action) ||
         std::holds_alternative<CreateDataKey>(action) ||
         std::holds_alternative<CreateNetworkPolicy>(action) ||
         std::holds_alternative<CreateGroup>(action) ||
         std::holds_alternative<CreateWorkload>(action) ||
         std::holds_alternative<CreatePod>(action);
}

std::optional<TimePoint> next_write(
    const WriteHistory& history, const Action& action, TimePoint now
) {
  if (history.empty()) return std::nullopt;
  const WriteTarget target = target_of(action);
  const auto found = history.find(key_of(target, is_create(action)));
  if (found == history.end() || has_ended(found->second, now)) return std::nullopt;
  WriteRow row = found->second;
  if (row.content != target.content) row.same = 0;
  const TimePoint due = row.last + pause_after(row);
  return now < due ? std::optional(due) : std::nullopt;
}

std::optional<std::string> count_write(WriteHistory& history, const Action& action, TimePoint now) {
  WriteTarget target = target_of(action);
  WriteRow& row = history[key_of(target, is_create(action))];
  if (has_ended(row, now)) row = WriteRow{};
  if (row.content != target.content) row.same = 0;
  row.content = target.content;
  ++row.same;
  ++row.count;
  row.last = now;
  const bool contested = row.same >= kContested || row.count >= kFreeWrites;
  if (!contested || !row.text.empty()) return std::nullopt;
  row.text = std::move(target.text);
  return row.text;
}

void forget_old_writes(WriteHistory& history, TimePoint now) {
  std::erase_if(history, [now](const auto& each) { return has_ended(each.second, now); });
}

std::vector<std::string> contested_writes(const WriteHistory& history) {
  std::vector<std::string> texts;
  for (const auto& [key, row] : history) {
    if (!row.text.empty()) texts.push_back(row.text);
  }
  std::ranges::sort(texts);
  return texts;
}

Duration pause_after_cut_statuses(int64_t count) {
  if (count < kFreeCutStatuses) return Duration::zero();
  return doubled(kFirstPause, count - kFreeCutStatuses, kLongestStatusPause);
}

int64_t count_cut_status(int64_t count, TimePoint last, TimePoint now) {
  const Duration pause = std::max(kQuiet, 2 * pause_after_cut_statuses(count));
  return now < last || now >= last + pause ? 1 : count + 1;
}

PacedActions pace(const WriteHistory& history, std::vector<Action> actions, TimePoint now) {
  PacedActions paced;
  for (Action& action : actions) {
    const bool is_pod = std::holds_alternative<CreatePod>(action);
    if (is_pod && !paced.held_creates.empty()) continue;
    if (const auto due = next_write(history, action, now)) {
      paced.next = std::min(paced.next.value_or(*due), *due);
      if (creates_child(action)) paced.held_creates.push_back(target_of(action).text);
    } else {
      paced.now.push_back(std::move(action));
    }
  }
  return paced;
}

}  // namespace gnn::reconcile
