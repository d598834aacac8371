#include "controller/reconcile/servers.h"

#include "common/contract.h"
#include "common/rfc3339.h"
#include "controller/reconcile/conditions.h"
#include "controller/reconcile/data_key.h"
#include "controller/reconcile/desired.h"
#include "controller/reconcile/doubling.h"
#include "controller/reconcile/failure_rules.h"
#include "controller/reconcile/finish.h"
#include "controller/reconcile/gang_restart.h"
#include "controller/reconcile/pass.h"
#include "controller/reconcile/pod_group.h"
#include "controller/reconcile/refusals.h"
#include "controller/reconcile/scheduling.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

namespace gnn::reconcile {
namespace {

using std::chrono::seconds;

// What the status knows of a server; a new record for one that never had a pod.
api::ServerRecord server_record(const std::optional<api::ServerCounts>& servers, int64_t server) {
  if (servers) {
    for (const api::ServerRecord& each : servers->pods) {
      if (each.server == server) return each;
    }
  }
  return {.server = server};
}

// Writes a record, in its place by number.
void put_record(api::ServerCounts& servers, const api::ServerRecord& record) {
  auto at = std::ranges::lower_bound(servers.pods, record.server, {}, &api::ServerRecord::server);
  if (at == servers.pods.end() || at->server != record.server) at = servers.pods.insert(at, record);
  *at = record;
}

api::ServerCounts& server_counts(Pass& pass) {
  std::optional<api::ServerCounts>& servers = pass.status().servers;
  return servers ? *servers : servers.emplace();
}

std::string server_name(int64_t server) {
  return "server " + std::to_string(server);
}

bool is_placed(const ServerView& server) {
  return server.seen.phase == NodePhase::Starting || server.seen.phase == NodePhase::Ready;
}

// When a server that ended with 0 counts as lost: it knows sooner than we that the workers are done.
TimePoint end_patience(const Pass& pass, const api::ServerRecord& record) {
  return record.next_time.value_or(
      std::chrono::ceil<seconds>(pass.in.now + pass.in.config.server_end_patience)
  );
}

// Until when a pod with a machine must have started.
TimePoint startup_limit(const Pass& pass, const objects::Pod& pod) {
  const objects::PodCondition* scheduled = objects::find_condition(pod, "PodScheduled");
  TimePoint since = pod.metadata.creation_timestamp.value_or(pass.in.now);
  if (scheduled != nullptr && scheduled->last_transition_time) {
    since = std::max(since, *scheduled->last_transition_time);
  }
  return since + seconds(pass.job().spec.run_policy.startup_deadline_seconds);
}

// Whether the pod has another data key than the gang will have. As long as a worker has an old key, too,
// they may understand each other.
bool has_lost_key(const Pass& pass, const objects::Pod& pod) {
  return has_other_key(pass, pod) &&
         std::ranges::none_of(pass.gang.nodes, [&](const NodeView& node) {
           return node.pod != nullptr && has_other_key(pass, *node.pod);
         });
}

// Whether the pod waits to be placed with the gang of an earlier attempt.
bool waits_for_old_group(const Pass& pass, const NodeView& seen) {
  return seen.phase == NodePhase::Unscheduled && waits_for_group(pass, *seen.pod) &&
         seen.pod->spec.group->group !=
             contract::group_name(pass.job().metadata.name, pass.attempt);
}

// Why a server needs another pod; nothing if it does not.
std::optional<NodeFailure> loss_of(const Pass& pass, const ServerView& server) {
  const NodeView& seen = server.seen;
  if (seen.failure) return seen.failure;
  switch (seen.phase) {
    case NodePhase::Missing:
      if (!server.made) return std::nullopt;
      return NodeFailure{.kind = FailureKind::PodDeleted, .message = "the pod no longer exists"};
    case NodePhase::Succeeded:
      if (earliest_now(pass.in) <
          end_patience(pass, server_record(pass.status().servers, seen.node))) {
        return std::nullopt;
      }
      return NodeFailure{
          .machine = seen.pod->spec.node_name,
          .exit_code = contract::kExitDone,
          .message = "it ended before the workers were done"
      };
    case NodePhase::Leaving:
      return seen.suspicion;
    case NodePhase::Unscheduled:
    case NodePhase::Starting:
    case NodePhase::Ready:
    case NodePhase::Failed:
      break;
  }
  if (has_lost_key(pass, *seen.pod)) {
    return NodeFailure{
        .kind = FailureKind::Disrupted,
        .machine = seen.pod->spec.node_name,
        .message = "its data key is not the one of the workers any more"
    };
  }
  if (waits_for_old_group(pass, seen)) {
    return NodeFailure{
        .kind = FailureKind::Disrupted,
        .message = "it waited to be placed with the gang of an earlier attempt"
    };
  }
  if (!seen.suspicion) return std::nullopt;
  const bool stands_still = seen.suspicion->kind == FailureKind::NotStarted;
  if (stands_still && earliest_now(pass.in) < startup_limit(pass, *seen.pod)) return std::nullopt;
  return seen.suspicion;
}

struct ServerTreatment {
  bool ends_job = false;
  std::string note;  // for the message
};

ServerTreatment treat_server(const Pass& pass, const NodeFailure& failure) {
  const auto found = find_rule(pass.job(), api::FailureRole::Server, failure);
  if (!found) {
    return {
        .ends_job = failure.kind == FailureKind::Configuration || failure.kind == FailureKind::Data,
        .note = {}
    };
  }
  const api::FailureRule& rule = pass.job().spec.run_policy.failure_policy.rules[*found];
  return {
      .ends_job = rule.action == api::FailureAction::Fail,
      .note = " (failurePolicy.rules[" + std::to_string(*found) + "])"
  };
}

// "Server 1: what happened"
std::string server_sentence(int64_t server, const NodeFailure& failure) {
  const std::string text = "Server " + std::to_string(server) + ": ";
  if (!failure.message.empty()) return text + failure.message;
  const std::string kind(to_reason(failure.kind));
  if (!failure.exit_code) return text + kind;
  return text + "exit code " + std::to_string(*failure.exit_code) + " (" + kind + ")";
}

// The pod of the next number is made at once after a healthy stretch, else after a wait that doubles.
void back_off_server(const Pass& pass, const ServerView& server, api::ServerRecord& record) {
  const api::BackoffPolicy& policy = pass.job().spec.run_policy.failure_policy.backoff;
  const auto born =
      server.seen.pod == nullptr ? std::nullopt : server.seen.pod->metadata.creation_timestamp;
  const bool healthy = born && pass.in.now >= *born + seconds(policy.healthy_seconds);
  record.failures = healthy ? 1 : record.failures + 1;
  record.next_time.reset();
  Duration wait{};
  if (record.failures > 1) {
    wait =
        doubled(seconds(policy.initial_seconds), record.failures - 2, seconds(policy.max_seconds));
  }
  // Whatever the job says, pods that live shortly do not follow each other at full speed.
  const OperatorConfig& config = pass.in.config;
  const bool lived = born && pass.in.now - *born > config.restart_window;
  if (!lived && record.restart >= config.restarts_at_once) {
    wait = std::max(wait, config.restart_floor);
  }
  if (wait > Duration::zero()) record.next_time = std::chrono::ceil<seconds>(pass.in.now + wait);
}

// What was lost in this pass, for ServersReady.
struct ServerLosses {
  int64_t count = 0;
  std::string_view reason;
  std::string message;  // of the first
};

void replace_server(
    Pass& pass, const ServerView& server, const NodeFailure& failure, ServerLosses& losses
) {
  api::ServerCounts& counts = server_counts(pass);
  api::ServerRecord record = server_record(counts, server.seen.node);
  record.restart = server.restart + 1;
  record.made = false;
  back_off_server(pass, server, record);
  put_record(counts, record);
  ++counts.restarts;
  if (losses.count++ > 0) return;
  losses.reason = to_reason(failure.kind);
  losses.message = server_sentence(server.seen.node, failure) + treat_server(pass, failure).note +
                   "; its pod is replaced alone" +
                   (record.next_time ? " at " + format_rfc3339(*record.next_time) : "");
}

// Takes a server's number out of use: its next pod, if there is one, has another.
void retire(Pass& pass, int64_t server, int64_t used) {
  api::ServerCounts& counts = server_counts(pass);
  api::ServerRecord record = server_record(counts, server);
  record.restart = used + 1;
  record.made = false;
  record.next_time.reset();
  put_record(counts, record);
}

// All servers from number `first` on have no pod of the present number any more.
void retire_from(Pass& pass, int64_t first) {
  std::map<int64_t, int64_t> used;
  if (pass.status().servers) {
    for (const api::ServerRecord& each : pass.status().servers->pods) {
      if (each.made) used[each.server] = each.restart;
    }
  }
  const auto see = [&](const objects::Pod& pod) {
    const auto numbers =
        contract::numbers_of_server_pod(pass.job().metadata.name, pod.metadata.name);
    const int64_t next = server_record(pass.status().servers, numbers->server).restart;
    if (numbers->restart >= next) used[numbers->server] = numbers->restart;
  };
  for (const objects::Pod* pod : pass.servers.superfluous) see(*pod);
  for (const ServerView& each : pass.servers.servers) {
    if (each.seen.pod != nullptr) see(*each.seen.pod);
  }
  for (const auto& [server, restart] : used) {
    if (server < first) continue;
    retire(pass, server, restart);
    pass.requeue(Duration::zero());
  }
}

// Removes the pods whose numbers the status has given up. Others wait for the pass after that: by then no
// reader of the status takes a pod that we delete for one that was lost.
void remove_given_up(Pass& pass) {
  const bool serves = pass.job().spec.servers.has_value();
  for (const objects::Pod* pod : pass.servers.superfluous) {
    const auto numbers =
        contract::numbers_of_server_pod(pass.job().metadata.name, pod->metadata.name);
    const api::ServerRecord told = server_record(pass.job().status.servers, numbers->server);
    if (!serves || numbers->restart < told.restart) remove_pod(pass, *pod);
  }
}

// A pod that is seen is noted, and what is lost gets the next number.
ServerLosses note_pods(Pass& pass) {
  ServerLosses losses;
  for (const ServerView& each : pass.servers.servers) {
    if (const auto failure = loss_of(pass, each)) {
      replace_server(pass, each, *failure, losses);
      continue;
    }
    if (each.seen.pod == nullptr) continue;
    api::ServerRecord record = server_record(pass.status().servers, each.seen.node);
    record.made = true;
    const bool ended = each.seen.phase == NodePhase::Succeeded;
    record.next_time = ended ? std::optional(end_patience(pass, record)) : std::nullopt;
    if (ended) pass.requeue_at(*record.next_time);
    const bool starts = each.seen.suspicion && each.seen.suspicion->kind == FailureKind::NotStarted;
    if (starts) pass.requeue_at(startup_limit(pass, *each.seen.pod));
    put_record(server_counts(pass), record);
  }
  if (losses.count > 0) pass.requeue(Duration::zero());
  return losses;
}

void count_servers(Pass& pass) {
  const std::vector<ServerView>& servers = pass.servers.servers;
  api::ServerCounts& counts = server_counts(pass);
  counts.desired = static_cast<int64_t>(servers.size());
  counts.ready = std::ranges::count_if(servers, [](const ServerView& each) {
    return each.seen.phase == NodePhase::Ready;
  });
  counts.summary = std::to_string(counts.ready) + "/" + std::to_string(counts.desired);
}

// Why the first server that is not ready is not.
struct ServerHoldup {
  std::string_view reason = reason::kStarting;
  std::string text;
};

ServerHoldup holdup_of(const Pass& pass) {
  for (const ServerView& each : pass.servers.servers) {
    const NodeView& seen = each.seen;
    if (seen.phase == NodePhase::Ready) continue;
    const std::string who = server_name(seen.node);
    if (each.stranger != nullptr) {
      return {
          .reason = reason::kNameTaken,
          .text = "Pod " + each.stranger->metadata.name +
                  " already exists and is not owned by this GNNJob"
      };
    }
    const auto next = server_record(pass.status().servers, seen.node).next_time;
    if (seen.pod == nullptr && next && pass.in.now < *next) {
      return {
          .reason = reason::kBackOff, .text = who + " gets its next pod at " + format_rfc3339(*next)
      };
    }
    const std::string waiting = seen.waiting.empty() ? "" : who + ": " + seen.waiting;
    if (seen.phase != NodePhase::Unscheduled) return {.text = waiting};
    return {
        .reason = waiting.empty() ? reason::kStarting : reason::kUnschedulable, .text = waiting
    };
  }
  return {};
}

// The refusal of a server's pod, if there was one.
const ApiRefusal* refusal_of(const Pass& pass) {
  for (const ApiRefusal& each : pass.in.refusals) {
    if (is_of_server(pass.job(), each)) return &each;
  }
  return nullptr;
}

void describe_servers(Pass& pass, const ServerLosses& losses) {
  const api::ServerCounts& counts = *pass.status().servers;
  if (losses.count > 0) {
    const std::string more =
        losses.count == 1 ? "" : "; so are " + std::to_string(losses.count - 1) + " more";
    return pass.set(condition::kServersReady, false, losses.reason, losses.message + more);
  }
  const std::string total = std::to_string(counts.desired);
  if (counts.ready == counts.desired) {
    const std::string message =
        counts.desired == 1 ? "The server is ready" : "All " + total + " servers are ready";
    return pass.set(condition::kServersReady, true, reason::kAllServersReady, message);
  }
  const std::string message = std::to_string(counts.ready) + " of " + total + " servers are ready";
  if (const ApiRefusal* refusal = refusal_of(pass); refusal != nullptr && lacks_server_pods(pass)) {
    return pass.set(
        condition::kServersReady,
        false,
        reason_of(refusal->kind),
        message + ": " + message_of(*refusal)
    );
  }
  const ServerHoldup holdup = holdup_of(pass);
  pass.set(
      condition::kServersReady,
      false,
      holdup.reason,
      message + (holdup.text.empty() ? "" : ": " + holdup.text)
  );
}

}  // namespace

int64_t desired_servers(const api::GnnJob& job) {
  if (!job.spec.servers) return 0;
  return job.spec.servers->nodes.value_or(needed_servers(job));
}

int64_t needed_servers(const api::GnnJob& job) {
  return job.spec.placement ? job.spec.placement->partitions : 1;
}

ServersView view_servers(const Observed& observed) {
  const api::GnnJob& job = observed.job;
  ServersView view;
  for (int64_t server = 0; server < desired_servers(job); ++server) {
    const api::ServerRecord record = server_record(job.status.servers, server);
    view.servers.push_back(
        {.restart = record.restart, .made = record.made, .seen = {.node = server}}
    );
  }
  for (const objects::Pod& pod : observed.pods) {
    const auto numbers = contract::numbers_of_server_pod(job.metadata.name, pod.metadata.name);
    if (!numbers) continue;
    const bool wanted = std::cmp_less(numbers->server, view.servers.size());
    const int64_t present = server_record(job.status.servers, numbers->server).restart;
    if (!is_owned_by(pod.metadata, job)) {
      const objects::OwnerReference* owner = objects::controller_of(pod.metadata);
      const bool previous =
          owner != nullptr && owner->kind == contract::kKind && owner->name == job.metadata.name;
      if (wanted && numbers->restart == present && !previous) {
        view.servers[static_cast<size_t>(numbers->server)].stranger = &pod;
      }
      continue;
    }
    if (is_impostor(pod, observed)) {
      if (wanted && numbers->restart == present) {
        view.servers[static_cast<size_t>(numbers->server)].stranger = &pod;
      }
      continue;
    }
    // It was made after the status that we see was written, unless an older CRD has dropped all about
    // servers.
    if (job.spec.servers && numbers->restart > present) view.ahead.push_back(&pod);
    if (wanted && numbers->restart == present) {
      view.servers[static_cast<size_t>(numbers->server)].seen.pod = &pod;
    } else {
      view.superfluous.push_back(&pod);
    }
  }
  for (ServerView& each : view.servers) {
    if (each.seen.pod == nullptr) continue;
    judge(each.seen, observed, [&](const api::ProgressReport& report) {
      return report.node == each.seen.node;
    });
  }
  return view;
}

bool keeps_servers(const Pass& pass) {
  if (!pass.job().spec.servers || pass.job().spec.suspend || pass.preparing()) return false;
  if (must_wait_in_queue(pass)) return false;
  const bool released = has_reason(pass.job().status, condition::kScheduled, reason::kReleased);
  return !released || !start_delay(pass);
}

std::optional<ServersVerdict> judge_servers(const Pass& pass) {
  if (!keeps_servers(pass)) return std::nullopt;
  for (const ServerView& each : pass.servers.servers) {
    const auto failure = loss_of(pass, each);
    if (!failure) continue;
    const ServerTreatment treatment = treat_server(pass, *failure);
    if (!treatment.ends_job) continue;
    return ServersVerdict{
        .reason = to_reason(failure->kind),
        .failure = *failure,
        .message = server_sentence(each.seen.node, *failure) + treatment.note
    };
  }
  return std::nullopt;
}

void fail_by_server(Pass& pass, const ServersVerdict& verdict) {
  const NodeFailure& failure = verdict.failure;
  pass.status().last_failure = api::LastFailure{
      .attempt = pass.attempt,
      .machine = failure.machine.empty() ? std::nullopt : std::optional(failure.machine),
      .exit_code = failure.exit_code,
      .reason = std::string(verdict.reason),
      .message = verdict.message,
      .stderr_tail =
          failure.stderr_tail.empty() ? std::nullopt : std::optional(failure.stderr_tail),
      .time = std::chrono::floor<seconds>(pass.in.now),
  };
  fail_job(pass, verdict.reason, verdict.message);
}

void tend_servers(Pass& pass) {
  if (!pass.job().spec.servers) return remove_given_up(pass);
  if (!keeps_servers(pass)) {
    retire_from(pass, 0);
    remove_given_up(pass);
    count_servers(pass);
    return pass.set(
        condition::kServersReady,
        false,
        reason::kNotPlaced,
        pass.preparing() ? "The data are being prepared" : "The job has given its machines back"
    );
  }
  retire_from(pass, desired_servers(pass.job()));
  remove_given_up(pass);
  const ServerLosses losses = note_pods(pass);
  count_servers(pass);
  describe_servers(pass, losses);
}

void create_server_pods(
    Pass& pass, ServerShare share, const std::optional<objects::GroupMembership>& group
) {
  if (!keeps_servers(pass)) return;
  const int64_t needed = needed_servers(pass.job());
  for (const ServerView& each : pass.servers.servers) {
    const bool is_needed = each.seen.node < needed;
    if (is_needed != (share == ServerShare::Needed) || each.seen.phase != NodePhase::Missing ||
        each.made) {
      continue;
    }
    if (each.stranger != nullptr) {
      pass.requeue(pass.in.config.refusal_retry);
      continue;
    }
    const auto next = server_record(pass.status().servers, each.seen.node).next_time;
    if (next && pass.in.now < *next) {
      pass.requeue_at(*next);
      continue;
    }
    objects::Pod pod = desired_server_pod(
        pass.job(),
        {.server = each.seen.node,
         .restart = each.restart,
         .group = group,
         .admission = admission_of_servers(pass)},
        pass.in.config.pod_user
    );
    choose_scheduler(pass, pod);
    pass.out.actions.emplace_back(CreatePod{std::move(pod)});
  }
}

bool lacks_server_pods(const Pass& pass) {
  return keeps_servers(pass) &&
         std::ranges::any_of(pass.servers.servers, [](const ServerView& each) {
           return each.seen.phase == NodePhase::Missing && !each.made;
         });
}

int64_t parts_without_place(const Pass& pass) {
  const int64_t partitions = needed_servers(pass.job());
  const std::vector<ServerView>& servers = pass.servers.servers;
  if (!keeps_servers(pass)) return 0;
  int64_t parts = 0;
  for (int64_t part = 0; part < partitions; ++part) {
    bool placed = false;
    bool waits = false;
    for (auto n = static_cast<size_t>(part); n < servers.size();
         n += static_cast<size_t>(partitions)) {
      placed = placed || is_placed(servers[n]);
      const bool backs_off =
          server_record(pass.status().servers, servers[n].seen.node).failures > 0;
      waits = waits || servers[n].seen.phase == NodePhase::Unscheduled ||
              (servers[n].seen.phase == NodePhase::Missing && !backs_off);
    }
    if (waits && !placed) ++parts;
  }
  return parts;
}

std::optional<TimePoint> servers_scheduling_deadline(const Pass& pass) {
  if (parts_without_place(pass) == 0) return std::nullopt;
  std::optional<TimePoint> first;
  for (const ServerView& each : pass.servers.servers) {
    if (each.seen.phase != NodePhase::Unscheduled) continue;
    const auto& born = each.seen.pod->metadata.creation_timestamp;
    if (born) first = std::min(first.value_or(TimePoint::max()), *born);
  }
  if (!first) return std::nullopt;
  return *first + seconds(pass.job().spec.run_policy.scheduling_timeout_seconds);
}

std::string why_servers_wait(const Pass& pass) {
  for (const ServerView& each : pass.servers.servers) {
    if (each.seen.phase == NodePhase::Unscheduled && !each.seen.waiting.empty()) {
      return each.seen.waiting;
    }
  }
  return "";
}

void suspend_servers(Pass& pass, std::string_view why, const std::string& message) {
  if (pass.job().spec.servers) {
    retire_from(pass, 0);
    for (api::ServerRecord& each : server_counts(pass).pods) each.failures = 0;
    count_servers(pass);
    pass.set(condition::kServersReady, false, why, message);
  }
  remove_given_up(pass);
}

bool has_server_pods(const ServersView& servers) {
  const auto stays = [](const objects::Pod* pod) {
    return pod != nullptr && !is_kept_by_others(*pod);
  };
  return std::ranges::any_of(servers.superfluous, stays) ||
         std::ranges::any_of(servers.servers, [&](const ServerView& each) {
           return stays(each.seen.pod);
         });
}

void finish_servers(Pass& pass, const std::string& message) {
  if (!pass.job().spec.servers) return;
  pass.set(condition::kServersReady, false, reason::kFinished, message);
}

bool differ_only_in_counts(
    const std::optional<api::ServerCounts>& before, const std::optional<api::ServerCounts>& after
) {
  if (!before || !after) return before == after;
  const auto without_counts = [](api::ServerCounts counts) {
    counts.ready = 0;
    counts.summary.clear();
    for (api::ServerRecord& each : counts.pods) each.made = false;
    std::erase_if(counts.pods, [](const api::ServerRecord& each) {
      return each == api::ServerRecord{.server = each.server};
    });
    return counts;
  };
  return without_counts(*before) == without_counts(*after);
}

}  // namespace gnn::reconcile
